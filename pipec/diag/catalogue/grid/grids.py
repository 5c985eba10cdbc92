"""E047x: programmatic dependent launch."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class WaitWithoutStatement(Message):
    """`griddepcontrol.wait()` waits for the preceding grids of the stream. A kernel overlaps them only if it is launched that
    way, which `programmatic_launch()` next to `grid(...)` requests. Every role then waits before it accesses a tensor, either where its
    author says so or at its start. Any kernel may use `griddepcontrol.launch_dependents()`."""

    code = "E0471"
    title = "`griddepcontrol.wait()` in `{kernel}`, which does not overlap the preceding grids"
    labels = (primary("at", "waits for nothing"), secondary("declared", "starts only after they have ended"))
    help = "write `programmatic_launch()` next to `grid(...)`"
    kernel: str
    at: Span
    declared: Span


class BeforeWait(Message):
    """A kernel with `programmatic_launch()` may start while the preceding grids still run. Only after `griddepcontrol.wait()` is what
    they wrote visible, and may what they read be overwritten. An explicit wait must come before each access on every path. Tensors
    that no preceding grid writes may be read earlier if the statement names them: `programmatic_launch(weights)`."""

    code = "E0472"
    title = "role `{role}` accesses `{tensor}` before it waits for the preceding grids"
    labels = (
        primary("at", "reached without the wait on some path"),
        secondary("wait", "waits here"),
        secondary("declared", "a preceding grid may write it"),
    )
    note = "the preceding grids may still be running: they have not written it yet, or still read it"
    help = "move `griddepcontrol.wait()` up, {remedies}"
    role: str
    tensor: str
    remedies: str
    at: Span
    wait: Span
    declared: Span


class StoresWhatIsReady(Message):
    """`programmatic_launch(weights)` says that no preceding grid writes `weights`, so that they may be read before the wait. A tensor
    that the kernel itself writes cannot be such a tensor: where the kernel is launched twice in a row, the second launch starts while
    the first one still runs, and reads what the first one has not written yet. Without its name in the statement, the roles that
    access it wait first. If the kernel reads one part of a tensor and writes another, the parts can be two parameters."""

    code = "E0474"
    title = "`programmatic_launch` names `{tensor}`, which `{kernel}` itself writes"
    labels = (
        primary("at", "says that no preceding grid writes it"),
        secondary("written", "written here"),
        secondary("declared", "the tensor"),
    )
    note = "launched twice in a row, the kernel may read `{tensor}` before its own previous launch has written it"
    help = "leave `{tensor}` out: the roles that access it then wait for the preceding grids first"
    tensor: str
    kernel: str
    at: Span
    written: Span
    declared: Span


class MayEndFirst(Message):
    """Dependent grids wait for this kernel to end, and assume that everything before it has ended by then. Some role of a
    kernel with `programmatic_launch()` must therefore wait on every path, even where it has nothing to do."""

    code = "E0473"
    title = "`{kernel}` may end before the preceding grids"
    labels = (primary("at", "starts before they have ended"), secondary("waits", "waits on some paths only"))
    note = (
        "the dependent grid assumes that all preceding grids have ended when this one has, and reads what they have not written"
    )
    help = "write `griddepcontrol.wait()` outside loops and branches"
    kernel: str
    at: Span
    waits: tuple[Span, ...]
