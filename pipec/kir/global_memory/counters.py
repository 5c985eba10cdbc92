"""The index ranges of semaphore counters, and the sizes of their tensors.

A counter is accessed by address, without the bounds checks of tile loads and stores: outside its tensor it is unrelated memory, whose
value no block may ever set to the awaited turn.
"""

from collections.abc import Iterator

from pipec.kir.global_memory.access_pairs import Answer, worst
from pipec.kir.global_memory.ends import ends
from pipec.kir.global_memory.lower_bounds import LARGEST, LowerBounds
from pipec.kir.global_memory.places import COORDINATE_BITS
from pipec.kir.ir import Kernel, Role, comes_to
from pipec.record import record
from pipec.sema import tree
from pipec.terms.registers import congruent
from pipec.terms.term import Operator, Term, leaf
from pipec.terms.term import number as constant
from pipec.verify.conditions import GRID
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, decided, number, substitute


@record
class CounterRange:
    """One coordinate of a counter: from `first` to `last` over the blocks of a grid, in a dimension of `size` elements, if the numbers in
    `fits` are not negative."""

    operation: tree.AwaitTurn
    axis: int
    first: Linear
    last: Linear
    size: Linear
    fits: tuple[Linear, ...]

    def within(self) -> tuple[Linear, Linear]:
        """Two numbers that are both non-negative if and only if the counters of all blocks are inside the tensor."""
        return self.first, add(add(self.size, self.last, -1), number(-1))


def counters_in_range(kernel: Kernel) -> tuple[Formula, ...]:
    """Conditions on sizes, integer parameters and the grid that a launch must satisfy."""
    forms = (form for place in places(kernel) for form in (*place.within(), *place.fits))
    return tuple(dict.fromkeys(decided(Compare("ge", form)) for form in forms if form.terms))


def places(kernel: Kernel) -> Iterator[CounterRange]:
    """Those of counters that all blocks come to, but for loops that do not turn, with coordinates that are sums of sizes, parameters, the
    block's index, and what loops count."""
    for role, at, operation in _turns(kernel):
        if comes_to(role, at):
            yield from _places_of(kernel, role, operation)


def constant_places(kernel: Kernel) -> Iterator[CounterRange]:
    """Those with a constant coordinate, also of counters that some blocks come to, or none."""
    for role, _, operation in _turns(kernel):
        yield from (one for one in _places_of(kernel, role, operation) if one.first == one.last and not one.first.terms)


def _turns(kernel: Kernel) -> Iterator[tuple[Role, int, tree.AwaitTurn]]:
    for role in kernel.roles:
        for at, block in enumerate(role.blocks):
            yield from ((role, at, one) for one in block.operations if isinstance(one, tree.AwaitTurn))


def _places_of(kernel: Kernel, role: Role, operation: tree.AwaitTurn) -> Iterator[CounterRange]:
    counter = operation.counter
    blocks = zip(GRID, map(kernel.launch.term, kernel.grid), strict=True)
    stated = {Symbol(name): number(extent.number) for name, extent in blocks if extent.number is not None}
    for axis, (coordinate, extent) in enumerate(zip(counter.coordinates, counter.tensor.shape, strict=True)):
        fits: list[Linear] = []
        found = ends(_place(role, coordinate), role.values.counts, fits)
        if found is not None:
            size = number(extent) if isinstance(extent, int) else atom(Symbol(extent))
            first, last, *needed = (substitute(end, stated) for end in (*found, *fits))
            yield CounterRange(operation, axis, first, last, size, tuple(needed))


def unplaced(kernel: Kernel) -> Iterator[tuple[tree.AwaitTurn, Answer]]:
    """The other ones, which no launch checks to be inside their tensor, and whether that is shown."""
    known = [(place.operation, place.axis) for place in places(kernel)]
    for role, at, operation in _turns(kernel):
        open_axes = [axis for axis in range(len(operation.counter.coordinates)) if (operation, axis) not in known]
        if open_axes:
            yield operation, worst(_inside(kernel, role, at, operation, axis) for axis in open_axes)


def _inside(kernel: Kernel, role: Role, at: int, operation: tree.AwaitTurn, axis: int) -> Answer:
    """Whether the loops and branches around keep a coordinate between 0 and the last element: `range(block.x, T, grid.x)`."""
    counter = operation.counter
    place = _place(role, counter.coordinates[axis])
    extent = counter.tensor.shape[axis]
    size = constant(extent) if isinstance(extent, int) else leaf(Operator.DIMENSION, extent, least=0, largest=LARGEST)
    ahead = size - 1 - place
    bounds = LowerBounds(kernel, role, at, (place, ahead))
    return worst(map(bounds.never_negative, (place, ahead)))


def _place(role: Role, coordinate: tree.Expression) -> Term:
    """A coordinate without what its arithmetic may lose: one that is inside a tensor is the number in its register, too."""
    return congruent(role.values.of(coordinate), COORDINATE_BITS)
