"""E028x: `tune`, the candidates of a kernel, and the choice among several."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class NotTunable(Message):
    """`tune NAME in (...)` lists values for a compile-time parameter of the kernel, one in the square brackets after the
    kernel's name. Names computed from parameters (`comptime ROWS = BM // 64`) follow from them and cannot be chosen independently."""

    code = "E0281"
    title = "`{name}` cannot be tuned: it is not a compile-time parameter of `{kernel}`"
    labels = (primary("at", "its values cannot be chosen"),)
    help = "compile-time parameters are {known}"
    name: str
    kernel: str
    known: str
    at: Span


class TunedTwice(Message):
    """A parameter is tuned in one place, and each of its values is listed there once: the list is what will be compiled and measured."""

    code = "E0282"
    title = "{what} for tuning twice"
    labels = (primary("at", "again"), secondary("first", "first here"))
    help = "remove one of the two"
    what: str
    at: Span
    first: Span


class NotKnownWhenTuning(Message):
    """A candidate is chosen before a kernel is compiled and called. Values and conditions of `tune` may use numbers, names and
    helpers of the file, and the kernel's compile-time parameters: sizes are known only at the launch, and what the kernel
    computes from its parameters is known for one candidate at a time."""

    code = "E0285"
    title = "`{name}` is not known when a candidate is chosen"
    labels = (primary("at", "{what}"),)
    help = "write it with compile-time parameters"
    name: str
    what: str
    at: Span


class BadTable(Message):
    """A table of measured tiles beside a kernel (`gemm.tiles` beside `gemm.pipe`) has one row per line: device, kernel, sizes, values
    and two times, separated by `|`. `pipec tune` writes it. A table with a malformed line is not used at all, because nobody would notice
    that part of it was ignored."""

    code = "E0286"
    title = "`{name}` is not a table of tiles: {problem}"
    help = "let `pipec tune` write it, or delete it"
    name: str
    problem: str


class NoTuning(Message):
    """`pipec tune` chooses among the candidates that a kernel lists with `tune NAME in (...)`. A kernel that lists none, or whose tuned
    parameters are all set with `-D`, has only one variant."""

    code = "E0287"
    title = "`{kernel}` has nothing to choose from"
    help = "list values in the kernel, for example `tune BM in (64, 128)`"
    kernel: str


class CannotMeasure(Message):
    """Candidates are timed on the GPU with torch, using its tensors, streams and graphs. Without torch, or a GPU that fits the
    kernel, the model can still rank them: `--device model`."""

    code = "E0288"
    title = "candidates cannot be measured here: {problem}"
    help = "use `--device model` to rank them with the model"
    problem: str


class UnknownSize(Message):
    """The right tile depends on the sizes, so all dimensions that the launch binds are needed."""

    code = "E0289"
    title = "{what} for `{kernel}`"
    subject = "a size is missing"
    note = "{rule}"
    help = "{advice}"
    what: str
    kernel: str
    advice: str
    rule: str | None = None  # what a size must be


class TooManyCandidates(Message):
    """All `tune` statements of a kernel together make one candidate for each combination of values, before `where` leaves some out.
    Each of those left may have to be compiled, so there is a limit."""

    code = "E0283"
    title = "`{kernel}` has {count} combinations of tuned values, more than {most}"
    labels = (primary("at", "multiplies their number"),)
    help = "list fewer values; those that belong together can be one parameter, from which others are computed"
    kernel: str
    count: int
    most: int
    at: tuple[Span, ...]


class NoCandidates(Message):
    """`where` keeps the combinations of tuned values that make sense together. If it keeps none, there is nothing to choose from."""

    code = "E0284"
    title = "no combination of tuned values is left in `{kernel}`"
    labels = (primary("at", "false for all of the values listed"),)
    help = "with the values in the file, {values}, is the condition meant the other way round?"
    kernel: str
    values: str
    at: tuple[Span, ...]


class KernelsDiffer(Message):
    """`pipec.choose` chooses among kernels that are called in the same way: they have the same parameters in the same order, with the
    same element types and sizes, and write the same ones. Which one runs depends on the sizes of a call, so with a difference a kernel
    would read or write other memory than the caller passed. A parameter that a kernel uses only as workspace, such as partial sums, can
    be left to pipec: `scratch` names it. Its sizes must follow from the other parameters, and the kernel may require nothing of its
    contents except zeros."""

    code = "E0280"
    title = "`{kernel}` cannot be called in place of `{first}`: {problem}"
    help = "{remedy}"
    kernel: str
    first: str
    problem: str
    remedy: str
