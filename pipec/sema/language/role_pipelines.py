"""Operations of a RolePipeline, whose current stage is unnamed, and of its barriers."""

from pipec.sema.language.operation import BARRIER, OUTPUT, ROLE, Operation

_NO_STEP = "signals"
ROLE_PIPELINES = (
    Operation("acquire", (ROLE,), "acquire[sub]()", "role_wait", "producer", None, "empty barrier `sub`", "-", "obtains", "S1",
              "the producer waits until the consumer released sub-stage `sub` (0)", "consumer"),
    Operation("wait", (ROLE,), "wait[sub]()", "role_wait", "consumer", None, "full barrier `sub`", "-", "obtains", "S1",
              "the consumer waits until the producer filled sub-stage `sub` (0)", "producer"),
    Operation("commit", (ROLE,), "commit()", "role_signal", "producer", None, "-", "full barrier 0", "releases", "S1",
              "signals sub-stage 0, then steps"),
    Operation("commit_mma", (ROLE,), "commit_mma() or commit_mma(elect())", "role_commit_mma", "producer", None, "-",
              "full barrier 0, when the MMAs finish", _NO_STEP, "S1", "commits the MMAs issued so far; does not step"),
    Operation("release", (ROLE,), "release[sub]()", "role_signal", "consumer", None, "-", "empty barrier `sub`", "releases", "S1",
              "signals sub-stage `sub` (0), then steps", "consumer"),
    Operation("release_no_step", (ROLE,), "release_no_step[sub]()", "role_signal", "consumer", None, "-", "empty barrier `sub`",
              _NO_STEP, "S1", "signals sub-stage `sub` (0) and stays, for the release of several one by one", "consumer"),
    Operation("step", (ROLE,), "step()", "role_step", stage="releases", page="S1",
              document="goes to the next stage; every sub-stage was waited for and signalled before"),
    Operation("producer_mbar", (ROLE,), "producer_mbar[sub]()", "role_barrier", "producer", page="S1",
              document="the full barrier of sub-stage `sub` (0), to be completed by the producer", sub_stages="producer"),
    Operation("consumer_mbar", (ROLE,), "consumer_mbar[sub]()", "role_barrier", "consumer", page="S1",
              document="the empty barrier of sub-stage `sub` (0), to be completed by the consumer", sub_stages="consumer"),
    Operation("index", (ROLE,), "index[sub]()", "role_index", page="S1", sub_stages="both",
              document="the stage number; with `sub`, what it picks from a buffer is handed over by that sub-stage"),
    Operation("num_stages", (ROLE, OUTPUT), "num_stages", "property", page="S1", document="the number of stages, at compile time"),
    Operation("arrive", (BARRIER,), "arrive()", "barrier_arrive", signals="this barrier", stage=_NO_STEP, page="S1",
              document="the signal that the stage's use asks for: an arrival of each thread, or a commit after MMAs"),
)  # fmt: skip
