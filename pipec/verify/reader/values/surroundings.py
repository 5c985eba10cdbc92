"""The shared state of all walks of a kernel, and the vocabulary of actions."""

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from typing import Any

from pipec.record import field, mutable, record
from pipec.verify.network import Unreadable
from pipec.verify.per_thread import PerThread
from pipec.verify.reader.flow.idle import NOTHING_IDLE, Idle
from pipec.verify.reader.text.interface import Interface
from pipec.verify.reader.text.statements import Kernel
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.values import Lanes, Value
from pipec.verify.terms import Formula

# Register values by name, and under ("position", ring) the position on a ring modulo two rounds of it.
Env = dict[object, Value]
Require = Callable[[tuple[Formula, ...]], None]
Plan = Callable[[Any, Env, Require], None]  # of an instruction, for a Registers
# Keys in an environment: a Synchronised; and whether lanes of a warp of the class have diverged, so that their registers may differ.
APART = ("apart",)
MET = ("met",)
READY = ("ready",)  # the barriers that a thread has initialised: a bit for each word of shared memory
GIVEN_UP = ("given up",)  # the barriers that it has invalidated: likewise
ACTING = ("acting",)  # in a section of the flow: which one, and for which threads (a number of the walk's)
ASKED = ("asked",)  # at a branch: its condition for threads in a section, if the predicate differs between threads
HELD = ("held",)  # columns of tensor memory allocated and not freed, times the lanes: by the place of their address
ANNOUNCED = "announced"  # keys (ANNOUNCED, ring): whether bytes of the next use have been announced
OWED = "owed"  # keys (OWED, ring): bytes that the last arrival announced and no copy has brought yet
OPEN = "open"  # keys (OPEN, ring): bytes of the next use that have been announced, less those that have been copied
FILLED = "filled"  # keys (FILLED, ring): the number of separately counted arrivals of the use
REACHED = "reached"  # keys (REACHED, ring): the CTAs whose barrier the last use has been signalled at, if these are not all: a bit for each
RESIDUE = "residue"  # keys (RESIDUE, symbol, modulus): the residue of an iteration counter
LOADED, VOTED = "loaded at ", "voted at "  # in the name of a symbol
CTA_BITS = 24  # in a cluster address, the CTA's rank is above this bit
OFFSET = (1 << CTA_BITS) - 1


ANY_SLOT = -1  # of tensor memory that begins with the first column
Columns = tuple[tuple[int, int], ...]  # of tensor memory, by the place in shared memory that has the address


@record
class Freed:
    """Tensor memory that `threads` give back. `slot`: the place of its address, which the instruction `read` loaded; `held`: whether the
    class had asked for it by then."""

    number: int
    rank: int
    slot: int
    columns: int
    threads: tuple[int, ...]
    read: int
    held: bool


class Synchronised(IntEnum):
    """Which threads of a class have synchronised since they last waited for others: all, those of each warp, or none."""

    NONE = 0
    LANES = 1
    ALL = 2


class Later(Exception):
    """The class reads what a class that has not been walked yet writes."""


class ThreadsDiffer(Exception):
    """The threads behave differently: these groups must be walked separately."""

    def __init__(self, groups: list[tuple[int, ...]]) -> None:
        super().__init__()
        self.groups = groups


def held_in(env: Env) -> dict[int, int]:
    """The columns of tensor memory that a class has asked for and not given back."""
    return dict(env.get(HELD, ()))  # type: ignore[arg-type]


@record
class RingAction:
    """One action of the network. `ring`: a number for an mbarrier ring, a key otherwise. `position`: the ring whose cursor this is, if
    registers may be functions of it; `advance`: by how much the cursor advances. `targets`: ranks of the CTAs whose barriers are
    reached, and how often. `part`, `asks`, `reads`, `peeks`: see network.Arrive and Wait."""

    waits: bool
    ring: object
    cursor: object
    shift: int
    advance: int = 0
    position: int | None = None
    count: int = 0
    expects: int = 0
    delivers: int = 0
    targets: tuple[tuple[int, int], ...] = ()
    part: bool = False
    asks: bool = False
    reads: bool = False
    peeks: bool = False


@record
class BarrierAddress:
    """A barrier of `ring`, of the CTA of `rank`. `stage`: a number, or one per entry of a table over `cursor`."""

    ring: int
    stage: int | tuple[int | None, ...]
    rank: int
    cursor: int | None


@record
class Group:
    """Registers that depend on each other over one iteration of a loop. `positions`: the rings among them."""

    names: frozenset[object]
    positions: frozenset[int]


@record
class Barriers:
    """The rings of mbarriers: `places` by offset: ring and stage; `stages`, `other` by ring; `ordered`: the offsets."""

    places: dict[int, tuple[int, int]]
    stages: tuple[int, ...]
    other: tuple[int | None, ...]
    ordered: tuple[int, ...] = ()


# For one text: steps executed, and values kept in states. A tenth of this takes about a second; no example takes a hundredth.
MOST_WORK = 4_000_000

worked = PerThread(0)  # over all texts


@mutable(caches=True)
class Surroundings:
    """The state shared by all threads. `work`: the cost of the walks so far."""

    kernel: Kernel
    interface: Interface
    arithmetic: Arithmetic
    barriers: Barriers
    threads: int
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    pointers: frozenset[str]
    unwritten: Callable[[str], bool]
    # The destinations of the scheduler's responses: by offset, the ring on which they are awaited, its stage, and whether all CTAs get the
    # same.
    answers: dict[int, tuple[int, int, bool]] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)  # arrivals of each class per phase, by ring, if more than one
    within: set[int] = field(default_factory=set)  # instructions whose results are right only for addresses within variables
    counted: set[int] = field(default_factory=set)  # named barriers used with a thread count
    loads: set[int] = field(default_factory=set)  # lines where a value loaded by several threads decides something
    # Columns of tensor memory allocated: by rank, then by instruction and warp.
    columns: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    slots: dict[int, dict[tuple[int, int], None]] = field(default_factory=dict)  # by place of the address: instruction and warp
    freed: set[Freed] = field(default_factory=set)
    spread: set[int] = field(default_factory=set)  # lines of copies to another CTA than that of their barrier, or their own
    # Bytes of copies: by where they go in shared memory, and by instruction.
    copied: dict[tuple[int, int], int] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)  # bytes of each copy, by instruction
    # What was loaded from shared memory: from which place, by which instruction, and whether its class had asked for tensor memory there.
    read_at: dict[Value, set[tuple[int, int, bool]]] = field(default_factory=dict)
    given_up: dict[tuple[int, int, int], tuple[int, tuple[int, ...]]] = field(
        default_factory=dict
    )  # by rank and place: instruction, threads
    numbers: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)  # of classes of threads, by rank and threads
    # By rank: whether an operand is a register, and its value otherwise.
    operands: dict[int, dict[str, tuple[bool, object]]] = field(default_factory=dict)
    plans: dict[int, dict[int, Plan]] = field(default_factory=dict)  # by rank and number of the instruction
    distances: dict[tuple[Value, Value, int], int] = field(default_factory=dict)  # between two places, modulo a number
    idle: Idle = NOTHING_IDLE  # branches that decide nothing, and what they alone look at
    work: int = 0

    def spend(self, count: int) -> None:
        """A count, so that the result does not depend on the machine."""
        self.work += count
        worked.value += count
        if self.work > MOST_WORK:
            raise Unreadable(self.kernel.line, f"to follow its threads takes more than {MOST_WORK:,} steps and values")

    @cached_property
    def leaders(self) -> Lanes:
        """The lanes that `elect.sync` elects."""
        return Lanes(tuple(int(thread % 32 == 0) for thread in range(self.threads)))

    @cached_property
    def asks(self) -> bool:
        """Whether the kernel requests work from the scheduler."""
        return "clusterlaunchcontrol.try_cancel" in self.kernel.body

    @cached_property
    def allocates(self) -> bool:
        """Whether the kernel asks for tensor memory."""
        return "tcgen05.alloc" in self.kernel.body

    @property
    def ranks(self) -> int:
        x, y, z = self.cluster
        return x * y * z
