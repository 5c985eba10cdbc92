"""E10xx: the command line and running: files, shapes, references, and what the simulator or the launcher says."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class CannotWrite(Message):
    """The output file could not be written. Nothing is left behind: output is written completely or not at all."""

    code = "E1001"
    title = "cannot write `{name}`: {reason}"
    name: str
    reason: str


class UnknownTimeline(Message):
    """A timeline is a page that a browser shows, with zoom and everything in one file, or the JSON that Perfetto (https://ui.perfetto.dev)
    and Chrome (chrome://tracing) open. The ending of the name says which; for a picture, open the page and take one of what it shows."""

    code = "E1028"
    title = "`{name}` is no name of a timeline: {problem}"
    help = "write a page to `{page}`, or JSON to `{trace}`"
    name: str
    problem: str
    page: str
    trace: str


class UnknownCode(Message):
    """`pipec explain` takes the code of a diagnostic, as printed in `error[E0303]`."""

    code = "E1002"
    title = "there is no diagnostic `{asked}`"
    note = "the families are {known}"
    help = "`pipec explain` lists the codes, and what else it explains: `proof`, and the checks of the simulator"
    asked: str
    known: str


class MissingShape(Message):
    """Dimensions are bound at launch, from the arrays. `pipec run` makes up its arrays and needs their sizes, from `--shape M=256` or
    from a line `shapes: M=256, N=256, K=64` in the kernel's docstring."""

    code = "E1003"
    title = "kernel `{kernel}` needs a size for {names}"
    help = "add `--shape {example}`"
    kernel: str
    names: str
    example: str


class BadShape(Message):
    """A size given with `--shape` must be a whole number, or a number for a float scalar, and name a dimension or a scalar."""

    code = "E1004"
    title = "`--shape {name}={value}` {problem}"
    subject = "a size given with `--shape` is not usable"
    name: str
    value: str
    problem: str


class BadReference(Message):
    """A docstring line `numpy: d = a @ b.T` names what the kernel computes: array arithmetic over its arguments, with the functions
    of NumPy that are listed in docs/language.md. It is evaluated in float64.

    Each element has a bound of what rounding may change. Where that is so wide that no result could be called wrong, the reference is
    refused as well; the message names the part of the line that loses the bound, and how well its operands were known."""

    code = "E1005"
    title = "the NumPy reference of kernel `{kernel}` cannot be used: {problem}"
    labels = (primary("at", "here"),)
    note = "it reads `{text}`"
    kernel: str
    problem: str
    text: str
    at: Span


class WrongResult(Message):
    """The kernel ran, but its output differs from the NumPy reference by more than rounding explains.

    Each element has its own bound: how far single precision, a different order of summation, approximate functions and the rounding to
    the output's type can move this element from the reference. Integers must be equal; infinities and NaN must be the same.
    """

    code = "E1006"
    title = "`{output}` of kernel `{kernel}` is wrong: error {error} where {bound} is allowed"
    note = "{count} of {total} elements are off; the first is at {place}: {found} instead of {expected}"
    kernel: str
    output: str
    error: str
    bound: str
    count: str
    total: str
    place: str
    found: str
    expected: str


class SimulationFailed(Message):
    """The simulator stopped: on a GPU, this kernel would hang, fault or compute garbage. The report names the warps, their roles, the
    barrier (pipeline, full or empty, stage) and the phase that each waits for."""

    code = "E1007"
    title = "the simulation of kernel `{kernel}` ended in {kind}: {message}"
    labels = (primary("at", "while this ran"),)
    note = "{details}"
    kernel: str
    kind: str
    message: str
    details: str | None
    at: Span | None


class LaunchRefused(Message):
    """The launch was refused before anything ran, or the device could not run it: a size that an `assume` of the kernel excludes, arrays of
    the wrong type or shape, two arguments in the same memory, more shared memory than the device has, no device.

    The title gives the reason, with the values. Nothing was written.
    """

    code = "E1008"
    title = "{message}"
    subject = "the launch was refused"
    help = "{hint}"
    message: str
    hint: str | None


class NoInterface(Message):
    """PTX that pipec wrote has a line that describes the arguments of its kernels; other PTX does not, so `pipec sim` cannot make up
    arguments for it. Describe them: `pipec sim k.ptx --grid 2 --block 128 --arg a=f32[256]:random --arg i32:256`, described in
    docs/simulator.md; or from Python, `pipec.sim.launch(ptx, kernel, grid=..., arguments=[...])`."""

    code = "E1009"
    title = "`{name}` does not describe the arguments of its kernels"
    note = "it defines {kernels}"
    help = "{advice}"
    name: str
    kernels: str
    advice: str


class KernelHung(Message):
    """A kernel compiled with `--watchdog` (`debug="watchdog"` in Python) waited on one of its barriers for longer than the bound,
    reported who waits for what, and ended itself with a trap.

    The report has a line for each warp that was blocked, in the words of the simulator's deadlock report: role, pipeline, full or
    empty barrier, stage, the phase it wants, how many arrivals and bytes are missing, the iteration of the wait and its source line;
    then the wait cycle. Look first at the barrier that lacks arrivals: the side that fills or frees that stage did not signal it,
    signalled another one, or signals fewer times than the barrier counts. Run the same shapes with `--device sim` for details.

    A kernel that is slow but not stuck is reported as well: give it more time, `--watchdog=60`. After the trap the CUDA context is
    lost, so the Python process cannot launch anything more on that GPU: start a fresh one.
    """

    code = "E1010"
    title = "kernel `{kernel}` hangs: {summary}"
    labels = (primary("at", "blocked here"), secondary("others", "blocked here as well"))
    note = "blocked:\n{report}"
    kernel: str
    summary: str
    report: str
    at: Span | None
    others: tuple[Span, ...]


class UnknownDebug(Message):
    """`debug` takes "watchdog": each wait on a barrier is bounded, and a hang is reported instead of hanging. "watchdog=2.5" sets the
    bound in seconds; "watchdog" alone means 1 second."""

    code = "E1011"
    title = "there is no debug mode `{asked}`"
    note = 'it is "watchdog" or "watchdog=SECONDS", with more than 0 and at most {most} seconds'
    asked: str
    most: int


class BadArgument(Message):
    """`pipec sim --arg` takes one parameter of the kernel: `i32:200`, `a=f16[128,64]:random`, `@a.npy`, `map(a; box=64,64)` or
    `raw(64; 0=a; 8=i32:5)`; `--save` the name of an array; `--launch` a JSON file that describes the whole launch.
    docs/simulator.md describes them."""

    code = "E1012"
    title = "`{option} {text}` {problem}"
    subject = "an argument of `pipec sim` is not usable"
    option: str
    text: str
    problem: str


class BadPtx(Message):
    """The text is not PTX as the PTX ISA defines it: it is cut off, damaged, or something else. An assembler would refuse it too."""

    code = "E1013"
    title = "`{name}` is not PTX: {problem}"
    labels = (primary("at", "here"),)
    name: str
    problem: str
    at: Span | None


class UnsupportedPtx(Message):
    """The simulator does not know an instruction, a modifier or a directive. It never guesses, so it stops where the first one
    would have been executed; what it knows and what it leaves out: docs/simulator.md."""

    code = "E1014"
    title = "not simulated: {problem}"
    labels = (primary("at", "not known to the simulator"),)
    problem: str
    at: Span | None


class StepLimit(Message):
    """The kernel executed more warp instructions than `--steps` allows. A loop that polls for something that never happens looks
    like this; if all warps block on barriers, the simulator reports a deadlock at once."""

    code = "E1015"
    title = "kernel `{kernel}` did not end within {steps} warp instructions"
    help = "if it needs more, raise `--steps`"
    kernel: str
    steps: str


class BadCall(Message):
    """`pipec.compile`, `pipec.check` and `pipec.kernel` take the source as text or as a path, the target and one kernel by name, and
    compile-time parameters by name: numbers, conditions, element types (by name), or their text."""

    code = "E1021"
    title = "`{parameter}` must be {expected}, not {found}"
    parameter: str
    expected: str
    found: str


class NeverWritten(Message):
    """The kernel ended, but elements of an output still have the value that `pipec run` put there: a special NaN or, for integers, a
    pattern that does not occur in the reference. On a GPU they would have whatever was in that memory before, often the right
    result of an earlier launch, so that the mistake shows only occasionally.

    Look at the grid (does it cover the whole output?), at the coordinates and the size of the stored tiles, and at conditions around
    the store. A kernel that leaves elements unwritten on purpose says what they contain: `given: d = 0` in the docstring makes `d` an
    input as well.
    """

    code = "E1020"
    title = "`{output}` of kernel `{kernel}` is incomplete: {count} of {total} elements are never written"
    note = "the first wrong element is at {place}, where {expected} is expected; {others} others are written and wrong"
    output: str
    kernel: str
    count: str
    total: str
    place: str
    expected: str
    others: str


class NoCompiler(Message):
    """`pipec triton` and `pipec cute` run programs whose kernels Triton or CuTe DSL compiles, so that has to be installed, in the release
    whose launches pipec understands: `pip install 'pipec[oracle]'` installs Triton's, `pip install 'pipec[cute]'` CuTe DSL's. Neither needs
    a GPU or a driver."""

    code = "E1026"
    title = "no {compiler} to compile the program's kernels with: {problem}"
    help = "`pip install 'pipec[{extra}]'`"
    compiler: str
    extra: str
    problem: str


class ProgramFailed(Message):
    """The program that `pipec triton` or `pipec cute` runs raised an exception of its own: an assertion that failed, a module that is not
    installed, a compile error of Triton or CuTe DSL. Kernels launched before that ran in the simulator."""

    code = "E1027"
    title = "the program ended: {error}"
    labels = (primary("at", "while this ran"),)
    note = "called from:\n{called}"
    error: str
    called: str | None
    at: Span | None
