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
    would be a guess. The source of a kernel in pipec's language has all of it.

    With `--launch FILE.json`, which says how the kernel is called as for `pipec sim`, some of its blocks are executed by the simulator,
    so that trip counts, addresses and tensor maps are those of the launch. Then only instructions whose cost is in no table here are
    refused, and blocks that wait for others."""

    code = "E0295"
    title = "no time can be predicted for the PTX of `{kernel}`: {what}"
    labels = (primary("at", "here"),)
    help = "{hint}"
    kernel: str
    what: str
    at: Span | None
    hint: str | None


class LaunchLacks(Message):
    """The time of a launch depends on all that the file given by `--launch` says: the number of blocks, the threads and the shared
    memory of each, which with the registers of a thread decide how many of them a multiprocessor holds, and the arguments, which decide
    how often loops run and what is loaded. Registers are asked for where no assembler is installed that could tell, and where they
    matter. docs/simulator.md describes the file."""

    code = "E0299"
    title = "the launch of `{kernel}` in {file} does not say {what}"
    note = "a multiprocessor holds blocks, and runs loops, according to it"
    help = "add {how}"
    kernel: str
    file: str
    what: str
    how: str
