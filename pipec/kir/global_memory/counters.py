"""Where the counters of semaphores are, beside how large their tensors are.

A counter is read and written by address, without the bounds that loads and stores of tiles have: one that lies behind its tensor is
some other memory, whose value no block may ever change to the turn that is waited for.
"""

from collections.abc import Iterator

from pipec.kir.ir import Kernel, run_once
from pipec.record import record
from pipec.sema import tree
from pipec.terms.term import Atom, Operator, Term
from pipec.verify.conditions import GRID
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, decided, number

_BLOCKS = dict(zip(("block.x", "block.y", "block.z"), GRID, strict=True))


@record
class Place:
    """One coordinate of a counter: from `first` to `last` in the blocks of a grid, in a dimension of `size` elements."""

    operation: tree.AwaitTurn
    axis: int
    first: Linear
    last: Linear
    size: Linear

    def within(self) -> tuple[Linear, Linear]:
        """Two numbers, neither of them negative where all blocks have their counter inside the tensor."""
        return self.first, add(add(self.size, self.last, -1), number(-1))


def counters_in_range(kernel: Kernel) -> tuple[Formula, ...]:
    """What a launch must keep to: conditions on sizes, integer parameters and the grid."""
    forms = (form for place in places(kernel) for form in place.within())
    return tuple(dict.fromkeys(decided(Compare("ge", form)) for form in forms if form.terms))


def places(kernel: Kernel) -> Iterator[Place]:
    """Of the counters that all blocks come to, and whose place is a sum of sizes, parameters and the block's own place."""
    for role in kernel.roles:
        for operation in run_once(role, tree.AwaitTurn):
            counter = operation.counter
            for axis, (coordinate, extent) in enumerate(zip(counter.coordinates, counter.tensor.shape, strict=True)):
                ends = _ends(role.values.of(coordinate))
                if ends is not None:
                    size = number(extent) if isinstance(extent, int) else atom(Symbol(extent))
                    yield Place(operation, axis, *ends, size)


def _ends(place: Term) -> tuple[Linear, Linear] | None:
    first = last = number(place.constant)
    for part, factor in place.parts:
        ends = _range(part)
        if ends is None:
            return None
        low, high = ends if factor > 0 else reversed(ends)
        first, last = add(first, low, factor), add(last, high, factor)
    return first, last


def _range(part: Atom) -> tuple[Linear, Linear] | None:
    about = part.operands[0] if part.operands else None
    match part.operator, about:
        case Operator.SPECIAL, str() if about in _BLOCKS:
            return number(0), add(atom(Symbol(_BLOCKS[about])), number(-1))
        case Operator.DIMENSION, str():
            here = atom(Symbol(about))
        case Operator.PARAMETER, tree.ScalarParameter():
            here = atom(Symbol(about.name))
        case _:
            return None
    return here, here
