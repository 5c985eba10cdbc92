"""E06xx: the roles' orders of waits and signals do not fit together."""

from pipec.diag.message import Message, primary, secondary
from pipec.source import Span


class Deadlock(Message):
    """For the sizes shown, roles wait for each other for ever, whatever the timing: a consumer waits for a stage that no producer will
    fill any more, or a producer for one that no consumer will give back.

    The usual cause is a loop that runs more often in one role than in the other:

        role load produces p:   for k in range(ceildiv(K, 64)): ...
        role mma consumes p:    for k in range(ceildiv(K, 64) + 1): ...     # the last wait never ends

    or two pipelines taken in opposite orders, with fewer stages than the loop in between needs. The sizes are the smallest that
    were found; larger ones usually fail too.
    """

    code = "E0601"
    title = "{roles} for ever{when}"
    labels = (primary("at", "`{role}` never gets past this wait"), secondary("others", "and this wait never ends"))
    note = "{waits}: on the GPU the kernel hangs until a watchdog ends the process"
    roles: str
    when: str
    waits: str
    role: str
    at: Span
    others: tuple[Span, ...]


class Uneven(Message):
    """For the sizes shown, every role ends, but stages were filled that a consuming role never took. The block then exits while copies may
    still be writing its shared memory, and the next block on the multiprocessor finds it changed.

    Let the loops of both sides run equally often, or drain what is left.
    """

    code = "E0602"
    title = "`{pipeline}` is filled {filled}, but consumed {consumed} by role `{role}`{when}"
    labels = (primary("at", "declared here"),)
    note = "the block would exit with filled stages: copies may still write its shared memory"
    pipeline: str
    filled: str
    role: str
    consumed: str
    when: str
    at: Span


class NotDecided(Message):
    """Neither a proof that no role waits for ever was found, nor sizes at which one does. The kernel may well be right: the proof runs the
    loops of the roles in lockstep and follows loops and branches whose bounds and conditions are the same expressions of launch values
    in all roles, and branches on the first or last iterations.

    Write the loops of both sides alike, a `for` with the same bounds in place of a `while`, or a branch on the same condition. Otherwise
    `--allow-undecided` (Python: `allow_undecided=True`) takes the kernel as it is; run it with `--watchdog` then.
    """

    code = "E0604"
    title = "whether roles of kernel `{kernel}` wait for each other for ever is {known}"
    labels = (primary("at", "this could not be followed in all roles at once"),)
    note = "if they do, the kernel hangs until a watchdog ends the process"
    help = "let the loops of both sides have the same bounds, or pass `--allow-undecided`"
    kernel: str
    known: str
    at: Span
