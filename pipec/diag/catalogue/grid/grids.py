"""E047x: programmatic dependent launch."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class WaitWithoutStatement(Message):
    """`griddepcontrol.wait()` waits for the preceding grids of the stream. A kernel overlaps them only when it is launched so,
    which `programmatic_launch()` next to `grid(...)` asks for: every role then waits before it touches a tensor, where its
    author says or else at its start. `griddepcontrol.launch_dependents()` may stand in any kernel."""

    code = "E0471"
    title = "`griddepcontrol.wait()` in `{kernel}`, which does not overlap the preceding grids"
    labels = (primary("at", "waits for nothing"), secondary("declared", "starts when they have ended"))
    help = "write `programmatic_launch()` next to `grid(...)`"
    kernel: str
    at: Span
    declared: Span


class BeforeWait(Message):
    """A kernel with `programmatic_launch()` may start while the preceding grids still run. What they write is there, and what they
    read may be overwritten, only after `griddepcontrol.wait()`. A role whose author placed the wait has it on every path before each
    access; tensors that no preceding grid writes may be read earlier when the statement names them: `programmatic_launch(weights)`."""

    code = "E0472"
    title = "role `{role}` touches `{tensor}` before it waits for the preceding grids"
    labels = (
        primary("at", "reached without the wait on some path"),
        secondary("wait", "waits here"),
        secondary("declared", "a preceding grid may write it"),
    )
    note = "the preceding grids may still be running: they have not written it yet, or still read it"
    help = (
        "move `griddepcontrol.wait()` up, leave it out to have it at the role's start, or write `programmatic_launch({tensor})`"
    )
    role: str
    tensor: str
    at: Span
    wait: Span
    declared: Span


class MayEndFirst(Message):
    """Dependent grids wait for this kernel to end, and assume that everything before it has ended by then. So some role of a
    kernel with `programmatic_launch()` waits on every path, also where it has nothing to do."""

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
