"""E029x: `pipec predict`, the time of a kernel that no GPU has run."""

from pipec.diag.message import Message, primary
from pipec.source import Span


class NotPredictable(Message):
    """A prediction follows the roles of one block event by event. Where the number of iterations depends on what memory holds, or a
    role waits for another block, no time follows from the sizes, and none is made up."""

    code = "E0291"
    title = "no time can be predicted for `{kernel}`: {what}"
    labels = (primary("at", "here"),)
    note = "a prediction needs nothing but the sizes of the launch"
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
    """PTX says which threads wait for which barriers, and pipec reads that. It does not say what a role is called, how wide the boxes of a
    tensor map are that the host makes, or which shapes stand in a descriptor that is worked out at run time. A time without them would be
    a guess, and none is made up. A kernel in pipec's language has all of it in its source."""

    code = "E0295"
    title = "no time can be predicted for the PTX of `{kernel}`: {what}"
    labels = (primary("at", "here"),)
    help = "give the `.pipe` file it was compiled from, or run it with `pipec sim {file} --timeline out.html`"
    kernel: str
    what: str
    file: str
    at: Span | None
