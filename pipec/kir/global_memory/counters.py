"""The index ranges of semaphore counters, and the sizes of their tensors.

A counter is accessed by address, without the bounds checks of tile loads and stores: outside its tensor it is unrelated memory, whose
value no block may ever set to the awaited turn.
"""

from collections.abc import Iterator

from pipec.kir.global_memory.ends import ends
from pipec.kir.ir import Kernel, Role, comes_to
from pipec.record import record
from pipec.sema import tree
from pipec.verify.conditions import GRID
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, decided, number, substitute


@record
class CounterRange:
    """One coordinate of a counter: from `first` to `last` over the blocks of a grid, in a dimension of `size` elements."""

    operation: tree.AwaitTurn
    axis: int
    first: Linear
    last: Linear
    size: Linear

    def within(self) -> tuple[Linear, Linear]:
        """Two numbers that are both non-negative if and only if the counters of all blocks are inside the tensor."""
        return self.first, add(add(self.size, self.last, -1), number(-1))


def counters_in_range(kernel: Kernel) -> tuple[Formula, ...]:
    """Conditions on sizes, integer parameters and the grid that a launch must satisfy."""
    forms = (form for place in places(kernel) for form in place.within())
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
        found = ends(role.values.of(coordinate), role.values.counts)
        if found is not None:
            size = number(extent) if isinstance(extent, int) else atom(Symbol(extent))
            first, last = (substitute(end, stated) for end in found)
            yield CounterRange(operation, axis, first, last, size)


def unplaced(kernel: Kernel) -> Iterator[tree.AwaitTurn]:
    """The other ones, which are not checked to be inside their tensor."""
    known = [(place.operation, place.axis) for place in places(kernel)]
    for _, _, operation in _turns(kernel):
        if not all((operation, axis) in known for axis in range(len(operation.counter.coordinates))):
            yield operation
