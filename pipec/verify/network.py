"""What the checker knows of a kernel: its processes, and the barriers over which they wait for each other.

A process is a set of threads that take every branch alike and hold equal values in every register that a branch, a wait or a signal
depends on: the elected lane of a role, its other lanes, all threads of four equal warps. All threads of a process move together, in
lockstep: that is one of the orders in which hardware may run them, and one order stands for all (see docs/proof.md).

A ring is a row of `stages` barriers used in turn. Use number m (0, 1, ...) of the ring is phase m // stages of barrier m % stages;
negative uses are complete from the start. Threads that meet (bar.sync, bar.warp.sync) arrive, and then wait for the same use, and that
wait moves their cursor on by one. Hardware knows only the parity of a phase; that the parity means this phase and no other is an
obligation that the checker discharges. A named barrier, a cluster barrier and the meeting of a warp's lanes are rings of one stage.
A process counts its position on a ring in a cursor; every event names a use of a ring relative to a cursor.
"""

from typing import Literal

from pipec.record import record
from pipec.verify.terms import Formula, Linear, Symbol

# "mbarrier": an object in shared memory. "named": bar.sync / barrier.sync. "cluster": barrier.cluster. "warp": bar.warp.sync and the
# instructions for which all lanes of a warp must meet.
RingKind = Literal["mbarrier", "named", "cluster", "warp"]


@record
class Ring:
    """`instances`: the shared-memory offsets of the barriers (one number otherwise, the barrier's); `count`: arrivals that complete a
    phase, of all threads together. `ranks`: the CTAs of the cluster whose barrier this is; they are alike and stand for one."""

    kind: RingKind
    instances: tuple[int, ...]
    count: int
    ranks: tuple[int, ...] = (0,)

    @property
    def stages(self) -> int:
        return len(self.instances)


@record
class Use:
    """Use number `cursor + shift` of a ring. Cursors are numbered per process and start at 0."""

    ring: int
    cursor: int
    shift: int


@record
class Edge:
    """Where a process goes next.

    `values`: what registers hold then that hold another value than in the source state, in terms of those named in the source state,
    all at once; None is a value of which nothing is known; what is not listed is unchanged. `advances`: cursors that move on, with
    the number of uses. `requires`: must hold in the source state (with the outcome, on an edge of a test), since otherwise a machine
    operation wraps.
    """

    target: int
    values: tuple[tuple[Symbol, Linear | None], ...] = ()
    advances: tuple[tuple[int, int], ...] = ()
    requires: tuple[Formula, ...] = ()


@record
class Wait:
    """Blocks until the use is complete."""

    use: Use
    edge: Edge


@record
class Arrive:
    """`count` arrivals (of all threads of the process together, on each barrier that `Ring.ranks` stands for), and bytes expected and
    delivered. Asynchronous arrivals (TMA bytes, tcgen05.commit, cp.async) count here: they come for certain, in no more than time.

    `expects`, `delivers`: bytes added to and taken from the transaction count. `targets`: (rank of the thread, rank of the barrier) for
    every barrier that is reached, where it is not that of the thread's own CTA. `part`: only some of the threads do it, and the others
    may not have come as far.
    """

    use: Use
    edge: Edge
    count: int = 0
    expects: int = 0
    delivers: int = 0
    targets: tuple[tuple[int, int], ...] = ()
    part: bool = False


@record
class Test:
    """A branch that all threads of the process take alike."""

    condition: Formula
    yes: Edge
    no: Edge


@record
class End:
    """The threads exit. `leaves`: at these rings they are not waited for any more: ring, and how many arrivals each phase lacks then."""

    leaves: tuple[tuple[int, int], ...] = ()


Action = Wait | Arrive | Test | End


def edges_of(action: Action) -> tuple[Edge, ...]:
    # (Asked so often that patterns, which look at each class in turn, would be noticed.)
    if isinstance(action, Test):
        return action.yes, action.no
    return () if isinstance(action, End) else (action.edge,)


@record
class State:
    """A place in a process, before `action`. `line`: of the PTX text. `live`: the symbols that have a value here."""

    line: int
    action: Action
    live: tuple[Symbol, ...] = ()


@record
class Process:
    """`role`: for messages. `threads`: how many of one CTA. `warps`: the warps that they are of; `ranks`: the CTAs, alike, stand for one.

    `cursors`: how many there are."""

    role: str
    threads: int
    warps: tuple[int, ...]
    ranks: tuple[int, ...]
    cursors: int
    states: tuple[State, ...]
    start: int = 0


AssumptionKind = Literal[
    "answers", "cluster", "given up", "loads", "loops", "polling", "preceding grid", "registers", "tensor memory", "turns"
]
# What is taken for granted though it could make a thread wait, in words that follow "if".
ASSUMED: dict[AssumptionKind, str] = {
    "answers": "the scheduler runs out of blocks to hand out",
    "cluster": "the kernel is launched without clusters",
    "given up": "copies and commits to a barrier have completed when it is invalidated",
    "loads": "threads of a role that load the same address get the same value",
    "loops": "loops that touch no barrier terminate",
    "polling": "the value that a loop polls for in memory arrives",
    "preceding grid": "the preceding grid ends",
    "registers": "the registers that setmaxnreg asks for become free",
    "tensor memory": "the tensor memory asked for becomes free",
    "turns": "blocks start in the order of their numbers, and their turns are counted from 0",
}
# About the program itself rather than about a launch: what rests on them is not called proved.
OPEN: frozenset[AssumptionKind] = frozenset({"polling"})


@record
class Assumption:
    """One row of ASSUMED. `lines`: of the PTX text, where it is needed."""

    kind: AssumptionKind
    lines: tuple[int, ...]

    @property
    def key(self) -> str:
        """For files, which stay valid when the words change."""
        return f"{self.kind}: {', '.join(map(str, self.lines))}"

    def __str__(self) -> str:
        return f"{ASSUMED[self.kind]} (line{'s' if len(self.lines) > 1 else ''} {', '.join(map(str, self.lines))})"


@record
class Network:
    """`facts`: what holds of parameters and special registers in every launch (the launcher sees to it)."""

    name: str
    rings: tuple[Ring, ...]
    processes: tuple[Process, ...]
    facts: tuple[Formula, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions as a certificate has to state them."""
        return tuple([one.key for one in self.assumptions])


class Unreadable(Exception):
    """The protocol cannot be read from the text; says why and at which line."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line, self.why = line, why
