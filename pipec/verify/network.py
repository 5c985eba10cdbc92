"""The checker's model of a kernel: its processes, and the barriers on which they wait for each other.

A process is a set of threads that take every branch alike and have equal values in every register that a branch, a wait or a signal
depends on: the elected lane of a role, its other lanes, all threads of four equal warps. All threads of a process step together, in
lockstep: that is one of the orders in which hardware may run them, and one order represents all (see docs/proof.md).

A ring is a row of `stages` barriers used in turn. Use number m (0, 1, ...) of the ring is phase m // stages of barrier m % stages;
negative uses are complete from the start. Threads that synchronise (bar.sync, bar.warp.sync) arrive and then wait for the same use, and
that wait advances their cursor by one. Hardware only knows the parity of a phase; that the parity identifies this phase is an obligation
that the checker discharges. A named barrier, a cluster barrier and the synchronisation of a warp's lanes are rings of one stage. A
process tracks its position on a ring in a cursor; every event names a use of a ring relative to a cursor.
"""

from typing import Literal

from pipec.record import record
from pipec.verify.terms import Formula, Linear, Symbol

# "mbarrier": an object in shared memory. "named": bar.sync / barrier.sync. "cluster": barrier.cluster. "warp": bar.warp.sync and the
# instructions that synchronise all lanes of a warp.
RingKind = Literal["mbarrier", "named", "cluster", "warp"]
MOST_BYTES = (1 << 20) - 1  # of the transaction count of an mbarrier (PTX ISA, "tx-count")


@record
class Ring:
    """`instances`: the shared-memory offsets of the barriers (otherwise one number, that of the barrier); `count`: arrivals that
    complete a phase, over all threads. `ranks`: the CTAs of the cluster whose barrier this is; they behave alike and are represented by
    one."""

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
    """A transition of a process.

    `values`: the new values of the registers that change, in terms of those in the source state, assigned simultaneously; None is an
    unknown value; unlisted registers are unchanged. `advances`: cursors that advance, with the number of uses. `requires`: must hold in
    the source state (with the outcome, on an edge of a test), since otherwise a machine operation wraps.
    """

    target: int
    values: tuple[tuple[Symbol, Linear | None], ...] = ()
    advances: tuple[tuple[int, int], ...] = ()
    requires: tuple[Formula, ...] = ()


@record
class Wait:
    """Blocks until the use is complete. `reads`: it is known to be, and the scheduler's answer that completed it is read here. `peeks`:
    the next use of that barrier is looked at here, without waiting: the parity tells that one from this if this is known to be
    complete."""

    use: Use
    edge: Edge
    reads: bool = False
    peeks: bool = False


@record
class Arrive:
    """`count` arrivals (of all threads of the process together, on each barrier that `Ring.ranks` stands for), and bytes expected and
    delivered. Asynchronous arrivals (TMA bytes, tcgen05.commit, cp.async) count here: they are certain to happen, only later.

    `expects`, `delivers`: bytes added to and taken from the transaction count. `targets`: (rank of the thread, rank of the barrier) for
    every barrier reached, if not that of the thread's own CTA. `part`: executed by only some of the threads; the others may be behind.
    `asks`: what is delivered is an answer of the scheduler, which overwrites the one that completed the phase before.
    """

    use: Use
    edge: Edge
    count: int = 0
    expects: int = 0
    delivers: int = 0
    targets: tuple[tuple[int, int], ...] = ()
    part: bool = False
    asks: bool = False


@record
class Test:
    """A branch that all threads of the process take alike."""

    condition: Formula
    yes: Edge
    no: Edge


@record
class End:
    """The threads exit. `leaves`: the rings at which they are no longer waited for, with the number of arrivals by which each phase is
    reduced."""

    leaves: tuple[tuple[int, int], ...] = ()


Action = Wait | Arrive | Test | End


def edges_of(action: Action) -> tuple[Edge, ...]:
    # (Called so often that the overhead of pattern matching, or of asking for subclasses, would be noticeable.)
    if type(action) is Test:
        return action.yes, action.no
    return () if type(action) is End else (action.edge,)  # type: ignore[union-attr]


@record
class State:
    """A place in a process, before `action`. `line`: of the PTX text. `live`: the symbols with a value here."""

    line: int
    action: Action
    live: tuple[Symbol, ...] = ()


@record
class Process:
    """`role`: for messages. `threads`: their number in one CTA. `warps`: the warps they belong to; `ranks`: the CTAs, which behave alike
    and are represented by one.

    `cursors`: their number."""

    role: str
    threads: int
    warps: tuple[int, ...]
    ranks: tuple[int, ...]
    cursors: int
    states: tuple[State, ...]
    start: int = 0


AssumptionKind = Literal[
    "answers",
    "cluster",
    "fresh barriers",
    "given up",
    "loads",
    "loops",
    "numbers",
    "peers",
    "polling",
    "preceding grid",
    "registers",
    "stored",
    "stores",
    "tensor memory",
    "turns",
]
# Assumptions about what could make a thread wait, in words that follow "if".
ASSUMED: dict[AssumptionKind, str] = {
    "answers": "the scheduler runs out of blocks to hand out",
    "cluster": "the kernel is launched without clusters",
    "fresh barriers": "CTAs of a cluster find each other's barriers initialised",
    "given up": "copies and commits to a barrier have completed when it is invalidated",
    "loads": "threads of a role that load the same address, of a tensor or of a flag that pipec keeps, get the same value",
    "loops": "loops that touch no barrier terminate",
    "numbers": "arithmetic on numbers in memory, and counting up to them, does not wrap around",
    "peers": "each CTA of a cluster outlives what others signal to it",
    "polling": "the value that a loop polls for in memory arrives",
    "preceding grid": "the preceding grid ends",
    "registers": "the registers that setmaxnreg asks for become free",
    "stored": "each CTA of a cluster outlives what others store there",
    "stores": "no store through an address that changes hits a barrier, or an address of tensor memory",
    "tensor memory": "the tensor memory asked for becomes free",
    "turns": "blocks start in the order of their numbers, and their turns are counted from 0",
}
# About the program itself rather than a launch: a result that depends on them is not called proved.
OPEN: frozenset[AssumptionKind] = frozenset({"polling"})


@record
class Assumption:
    """One row of ASSUMED. `lines`: of the PTX text, where it is needed."""

    kind: AssumptionKind
    lines: tuple[int, ...]

    @property
    def key(self) -> str:
        """For files, which stay valid when the wording changes."""
        return f"{self.kind}: {', '.join(map(str, self.lines))}"

    def __str__(self) -> str:
        return f"{ASSUMED[self.kind]} (line{'s' if len(self.lines) > 1 else ''} {', '.join(map(str, self.lines))})"


@record
class Network:
    """`facts`: invariants of parameters and special registers in every launch (enforced by the launcher)."""

    name: str
    rings: tuple[Ring, ...]
    processes: tuple[Process, ...]
    facts: tuple[Formula, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def assumed(self) -> tuple[str, ...]:
        """The assumptions as a certificate must state them."""
        return tuple([one.key for one in self.assumptions])


class Unreadable(Exception):
    """The protocol cannot be read from the text; says why and at which line."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"line {line}: {why}")
        self.line, self.why = line, why
