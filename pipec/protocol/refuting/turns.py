"""Searches a launch in which a block waits for a turn that may never come, or that leaves turns to the next launch: its blocks run one
after the other, in order.

A GPU with room for only one block does just that. If a block waits for a counter that the earlier blocks have left at another value, it
waits for a block that may never start.
"""

from itertools import product

from pipec.budgets import BudgetEnded, Meter
from pipec.interface import KernelInterface, StrideParameter, TensorArgument, evaluate
from pipec.protocol.forms.ranges import ANYTHING, Ranges, certain, range_of
from pipec.protocol.refuting.launches import names_of
from pipec.record import record
from pipec.verify.conditions import GRID, met, names_in
from pipec.verify.data import formula_of
from pipec.verify.network import Unreadable
from pipec.verify.reader.processes.states import Node, Transition
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.read import turns_of
from pipec.verify.reader.text.writes import Writes
from pipec.verify.reader.values.surroundings import Surroundings
from pipec.verify.terms import Linear, Symbol, symbols_of

_SIZES = (1, 64, 600, 3, 9000)  # values of all sizes of a launch at once; the last gives long tiles several blocks
_MOST_BLOCKS = 256
_APART = 1 << 48  # between tensors
_OUTERMOST, _STEP = 1 << 36, 8  # the stride of a tensor's first dimension, and by how many bits each further one is less
_INTEGERS = frozenset(("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"))


@record
class BlockedTurn:
    """`line`: of the PTX, where `block` waits for `turn`, while the counter is `found` and all earlier blocks have ended. `sizes`: of the
    launch, by their names in the source."""

    line: int
    block: tuple[int, int, int]
    turn: int
    found: int
    sizes: dict[str, int]


@record
class TurnsLeft:
    """All blocks have ended, the last of which to use this counter has left it at `found`, at a `line` of the PTX."""

    line: int
    block: tuple[int, int, int]
    found: int
    sizes: dict[str, int]


def refute_turns(ptx: str, interface: KernelInterface) -> BlockedTurn | TurnsLeft | None:
    try:
        around, walks = turns_of(ptx, interface.name)
    except Unreadable:
        return None
    taking = [walk for walk in walks if any(_turn(node) for node in walk.nodes)]
    # One thread takes turns, and it is the only one that stores to its counters: then the earlier blocks determine what it finds.
    if len(taking) != 1 or len(taking[0].machine.threads) > 1 or not _alone(around, taking[0]):
        return None
    names, meter = _sizes_of(interface), Meter("protocol steps")
    for size in _SIZES if names else _SIZES[:1]:
        try:
            found = _Launch(around, taking[0], interface, dict.fromkeys(names, size), meter).run()
        except _NotKnown:
            continue
        except BudgetEnded:  # the kernel stays undecided, which is reported
            return None
        if found is not None:
            return found
    return None


def _sizes_of(interface: KernelInterface) -> list[str]:
    """The names of sizes and integer parameters, also of those that the kernel itself does not read."""
    named = set[str]()
    for argument in interface.arguments:
        if isinstance(argument, TensorArgument):
            named |= {one for one in argument.shape if isinstance(one, str)}
        elif argument.dtype in _INTEGERS:
            named.add(argument.name)
    return sorted(named)


def _turn(node: Node) -> bool:
    """Barrier waits end, as the network shows: turns remain."""
    return node.act is not None and not isinstance(node.act.ring, int)


def _alone(around: Surroundings, walk: Walk) -> bool:
    """Whether nothing else stores to the counters."""
    forms = {act.ring[1] for node in walk.nodes if (act := node.act) is not None and isinstance(act.ring, tuple)}
    passing = {walk.number_of(node) for node in walk.nodes if _turn(node) and node.act is not None and not node.act.waits}
    if not all(isinstance(form, Linear) for form in forms):
        return False
    counters = {one.name for form in forms for one in symbols_of(form) if one.name in around.pointers}
    return all(Writes(around.kernel, around.interface.tensors).only_at(counter, passing) for counter in counters)


class _NotKnown(Exception):
    """The behaviour depends on unknown values of the launch."""


class _Launch:
    """A launch with all sizes given."""

    def __init__(self, around: Surroundings, walk: Walk, interface: KernelInterface, sizes: dict[str, int], meter: Meter) -> None:
        self.walk, self.sizes, self.meter = walk, sizes, meter
        self.extents = _extents(interface, sizes)
        named = names_of(interface)
        self.known = Ranges({Symbol(one): (sizes[name], sizes[name]) for one, name in named.items() if name in sizes})
        # Far apart, so that no offset into one tensor is an address in another: tensors of a launch do not overlap.
        pointers = enumerate(sorted(around.pointers), 1)
        self.known |= {Symbol(name): (number * _APART, number * _APART) for number, name in pointers}
        self.known |= {
            Symbol(row.symbol): (stride, stride)
            for row in interface.parameters
            if isinstance(row, StrideParameter) and (stride := _OUTERMOST >> row.axis * _STEP)
        }
        self.counters: dict[int, int] = {}
        self.passed: dict[int, tuple[Node, tuple[int, int, int]]] = {}  # where, and by which block, a counter was last set

    def run(self) -> BlockedTurn | TurnsLeft | None:
        # In index order, x fastest: an order that a GPU may choose, so a hang in it is a hang.
        for z, y, x in product(*(range(extent) for extent in reversed(self.extents))):
            places = {Symbol(f"%ctaid.{axis}"): (at, at) for axis, at in zip("xyz", (x, y, z), strict=True)}
            counts = {Symbol(f"%nctaid.{axis}"): (many, many) for axis, many in zip("xyz", self.extents, strict=True)}
            found = self._block(Ranges({**self.known, **places, **counts}), (x, y, z))
            if found is not None:
                node, turn, value = found
                return BlockedTurn(node.line, (x, y, z), turn, value, self.sizes)
        # The next launch begins with turn 0, as this one did.
        for where, (node, block) in self.passed.items():
            if self.counters[where]:
                return TurnsLeft(node.line, block, self.counters[where], self.sizes)
        return None

    def _block(self, known: Ranges, block: tuple[int, int, int]) -> tuple[Node, int, int] | None:
        """Where the block waits for a turn, which one, and the value found; None if it ends."""
        way = self.walk.start
        while True:
            self.meter.spend()
            self._take(way, known)
            node = self.walk.nodes[way.target]
            if not node.edges:
                return None
            if node.act is not None and not _turn(node):
                way = node.edges[0]
                continue
            if node.condition is not None:
                outcome = certain(node.condition, known)
                if outcome is None:
                    raise _NotKnown
                way = node.edges[0 if outcome else 1]
                continue
            where, number = self._action(node, known)
            # Counters start at zero, as a semaphore requires of its caller.
            found = self.counters.get(where, 0)
            if node.act is not None and not node.act.waits:
                self.counters[where] = number
                self.passed[where] = node, block
            elif found != number:
                return node, number, found
            way = node.edges[0]

    def _action(self, node: Node, known: Ranges) -> tuple[int, int]:
        """The address of a counter, and the value that is awaited or stored."""
        ring = node.act.ring if node.act is not None else None
        match ring:
            case (_, Linear() as where, int() | Linear() as value):
                return _exactly(where, known), _exactly(value if isinstance(value, Linear) else Linear(value), known)
        raise _NotKnown

    def _take(self, way: Transition, known: Ranges) -> None:
        if not all(certain(one, known) for one in way.requires):
            raise _NotKnown
        known.assign([(symbol, ANYTHING if value is None else range_of(value, known)) for symbol, value in way.values])


def _extents(interface: KernelInterface, sizes: dict[str, int]) -> list[int]:
    """The numbers of blocks along the axes, in a launch that is not refused."""
    try:
        extents = [evaluate(one, sizes) for one in interface.grid]
    except (KeyError, ZeroDivisionError):
        raise _NotKnown from None
    known = sizes | dict(zip(GRID, extents, strict=True))
    conditions = [formula_of(one) for one in interface.conditions]
    if not all({*names_in(one)} <= known.keys() and met(one, known) for one in conditions):
        raise _NotKnown
    if min(extents) < 1 or extents[0] * extents[1] * extents[2] > _MOST_BLOCKS:
        raise _NotKnown
    return extents


def _exactly(form: Linear, known: Ranges) -> int:
    low, high = range_of(form, known)
    if low != high:
        raise _NotKnown
    return low
