"""What the threads of a kernel have in common while they are walked, and the words in which their actions are told."""

from collections.abc import Callable
from enum import IntEnum
from functools import cached_property
from typing import Any

from pipec.record import field, mutable, record
from pipec.verify.network import Unreadable
from pipec.verify.reader.text.interface import Interface
from pipec.verify.reader.text.statements import Kernel
from pipec.verify.reader.values.arithmetic import Arithmetic
from pipec.verify.reader.values.values import Lanes, Value
from pipec.verify.terms import Formula

# The registers' values by name, and under ("position", ring) the position on a ring modulo two rounds of it.
Env = dict[object, Value]
Require = Callable[[tuple[Formula, ...]], None]
Plan = Callable[[Any, Env, Require], None]  # of an instruction, for a Registers
# Keys in an environment: a Met; and whether lanes of a warp of the class have gone another way, so that their registers may differ.
APART = ("apart",)
MET = ("met",)
READY = ("ready",)  # which barriers a thread has made ready: a bit for each word of shared memory
GIVEN_UP = ("given up",)  # and which ones it has given up: a bit for each
ACTING = ("acting",)  # in a section of the flow: which one, and by whom (a number of the walk's)
ASKED = (
    "asked",
)  # at a branch: its condition for those that are in a section, where the predicate differs from thread to thread
HELD = ("held",)  # columns of tensor memory asked for and not given back, times the lanes that did so
ANNOUNCED = "announced"  # keys (ANNOUNCED, ring): whether bytes of the next use have been announced
FILLED = "filled"  # keys (FILLED, ring): how many arrivals the use has that the class counts by itself
RESIDUE = "residue"  # keys (RESIDUE, symbol, modulus): what is left of a counter of turns when it is divided
LOADED, VOTED = "loaded at ", "voted at "  # in the name of a symbol
CTA_BITS = 24  # in an address of the cluster's shared memory, the CTA's rank stands above this bit
OFFSET = (1 << CTA_BITS) - 1


class Met(IntEnum):
    """Which threads of a class have met since they last waited for others: all, those of each warp, or none."""

    NONE = 0
    LANES = 1
    ALL = 2


class Later(Exception):
    """What the class reads is written by a class that has not been walked yet."""


class Split(Exception):
    """The threads do not all do the same: what those groups do must be looked at apart."""

    def __init__(self, groups: list[tuple[int, ...]]) -> None:
        super().__init__()
        self.groups = groups


@record
class Act:
    """One action of the network. `ring`: a number for an mbarrier ring, a key otherwise. `position`: the ring whose cursor this is, if
    registers may be functions of it; `advance`: how far the cursor moves on. `targets`: ranks of the CTAs whose barriers are reached, and
    how often. `part`: see network.Arrive."""

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


@record
class Spot:
    """A barrier: of `ring`, of the CTA of `rank`. `stage`: a number, or one for each entry of a table over `cursor`."""

    ring: int
    stage: int | tuple[int | None, ...]
    rank: int
    cursor: int | None


@record
class Group:
    """Registers that depend on each other over one turn of a loop. `positions`: the rings among them."""

    names: frozenset[object]
    positions: frozenset[int]


@record
class Barriers:
    """The rings of mbarriers: `places` by offset: ring and stage; `stages`, `other` by ring."""

    places: dict[int, tuple[int, int]]
    stages: tuple[int, ...]
    other: tuple[int | None, ...]


# Of a text: steps followed, and values kept in states. A tenth of this takes about a second; no example takes a hundredth.
MOST_WORK = 4_000_000

worked = [0]  # in all texts of this process


@mutable(caches=True)
class Surroundings:
    """What all threads have in common. `work`: what it took so far to follow them."""

    kernel: Kernel
    interface: Interface
    arithmetic: Arithmetic
    barriers: Barriers
    threads: int
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    pointers: frozenset[str]
    unwritten: Callable[[str], bool]
    # Where the scheduler's answers go: by offset, the ring on which they are awaited, its stage, and whether all CTAs get the same.
    answers: dict[int, tuple[int, int, bool]] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)  # arrivals of each class in a phase, by ring, where more than one
    counted: set[int] = field(default_factory=set)  # named barriers that are used with a number of threads
    loads: set[int] = field(default_factory=set)  # lines where what several threads load decides something
    # Columns of tensor memory asked for: by rank, then by instruction and warp.
    columns: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    given_up: dict[tuple[int, int, int], tuple[int, tuple[int, ...]]] = field(
        default_factory=dict
    )  # by rank and place: instruction, threads
    numbers: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)  # of classes of threads, by rank and threads
    # By rank: whether an operand is a register, and its value if it is not.
    operands: dict[int, dict[str, tuple[bool, object]]] = field(default_factory=dict)
    plans: dict[int, dict[int, Plan]] = field(default_factory=dict)  # by rank and number of the instruction
    work: int = 0

    def spend(self, count: int) -> None:
        """A count, so that a text is read on every machine or on none."""
        self.work += count
        worked[0] += count
        if self.work > MOST_WORK:
            raise Unreadable(self.kernel.line, f"to follow its threads takes more than {MOST_WORK:,} steps and values")

    @cached_property
    def leaders(self) -> Lanes:
        """Whom `elect.sync` elects."""
        return Lanes(tuple(int(thread % 32 == 0) for thread in range(self.threads)))

    @cached_property
    def asks(self) -> bool:
        """Whether the kernel asks the scheduler for work at all."""
        return "clusterlaunchcontrol.try_cancel" in self.kernel.body

    @property
    def ranks(self) -> int:
        x, y, z = self.cluster
        return x * y * z
