"""E029x: `pipec predict`, the time of a kernel that no GPU has run."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class NotPredictable(Message):
    """A prediction follows the roles of one block event by event. If the number of iterations depends on the contents of memory, the
    time does not follow from the sizes, and pipec does not make one up."""

    code = "E0291"
    title = "no time can be predicted for `{kernel}`: {what}"
    labels = (primary("at", "here"),)
    note = "a prediction is made from the sizes of the launch alone"
    kernel: str
    what: str
    at: Span


class OtherDevice(Message):
    """Each device has costs of its own, measured with the code that it runs: a B200 runs sm_100a, an H200 sm_90a. The kernel's target is
    that of `--arch`, of the `arch:` line in its docstring, or sm_100a."""

    code = "E0292"
    title = "`{kernel}` is compiled for {arch}, but {device} runs {runs}"
    help = "leave out `--device`, or compile with `--arch {runs}`"
    kernel: str
    arch: str
    device: str
    runs: str


class PtxNotPredictable(Message):
    """The time of a PTX kernel is predicted from its barriers: which role waits for which, how many bytes each copy delivers, and the
    shapes of its products. `--shape NAME=VALUE` gives the values of parameters, and `blocks` the number of blocks. Where the text does
    not contain what is needed, for example a descriptor that is computed at run time or a trip count that is read from memory, a time
    would be a guess. The source of a kernel in pipec's language has all of it."""

    code = "E0295"
    title = "no time can be predicted for the PTX of `{kernel}`: {what}"
    labels = (primary("at", "here"),)
    help = "give the `.pipe` file it was compiled from, or run it with `pipec sim {file} --timeline out.html`"
    kernel: str
    what: str
    file: str
    at: Span | None
