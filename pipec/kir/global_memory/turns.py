"""How many turns are taken at a semaphore's counter, and by how many blocks.

The last turn resets the counter. If more turns are stated than blocks take, it is not zero again at the end, and the next launch waits for
ever: a property of two launches, of which the proof of one says nothing.
"""

from collections.abc import Iterator, Mapping

from pipec.isa.specials import family_and_axis
from pipec.kir.ir import Kernel, run_once
from pipec.kir.values.analysis import Values
from pipec.record import record
from pipec.sema import tree
from pipec.terms.registers import congruent
from pipec.terms.term import Atom, Operator, Term, number
from pipec.terms.walk import Substitution, leaves

_AXES = ("x", "y", "z")
_BITS = 32  # of a counter
# The leaves that are uniform over the blocks along an axis of the grid.
_COMMON = frozenset((Operator.DIMENSION, Operator.PARAMETER, Operator.ELEMENT))
_COMMON_FAMILIES = ("grid", "clusters")


@record
class Taken:
    """A turn that every block takes once, as its number among the blocks along some axes, which share the counter: how many these are, and
    the number of turns that the statement names, both in terms of what the launch knows."""

    operation: tree.AwaitTurn
    axes: tuple[str, ...]
    blocks: Term
    turns: Term

    def too_many(self) -> int | None:
        """Blocks without a turn, or turns without a block, if negative; None if that differs between launches."""
        return congruent(self.blocks - self.turns, _BITS).number


def taken_by_all(kernel: Kernel) -> Iterator[Taken]:
    # In a branch or a loop only some blocks take a turn, or several times: the number of turns is unrelated to the grid.
    extents = dict(zip(_AXES, map(kernel.launch.term, kernel.grid), strict=True))
    of_launch = Substitution(lambda atom: extents.get(name.removeprefix("grid.")) if (name := _special(atom)) else None)
    for role in kernel.roles:
        for operation in run_once(role, tree.AwaitTurn):
            found = _counted(operation, role.values, extents)
            if found is not None:
                yield Taken(operation, *found, of_launch(role.values.of(operation.turns)))


def _counted(operation: tree.AwaitTurn, values: Values, extents: Mapping[str, Term]) -> tuple[tuple[str, ...], Term] | None:
    """The axes along which the turn counts the blocks, x fastest, then y, then z, and the number of blocks; None if it is no such count, or
    if these blocks do not share the counter: earlier turns are blocks of lower index."""
    turn = values.of(operation.turn)
    factors = {_special(atom): factor for atom, factor in turn.parts}
    axes, step, blocks = tuple[str, ...](), 1, number(1)
    for axis, extent in extents.items():
        if step and factors.get(f"block.{axis}") == step:
            axes, blocks, step = (*axes, axis), extent * step, step * (extent.number or 0)
    where = [atom for coordinate in operation.counter.coordinates for atom in leaves(values.of(coordinate))]
    counted = axes and turn.constant == 0 and len(axes) == len(factors)
    return (axes, blocks) if counted and all(_is_common(atom, axes) for atom in where) else None


def _special(atom: Atom) -> str:
    """The name of a value of the hardware; empty for others."""
    return str(atom.operands[0]) if atom.operator is Operator.SPECIAL else ""


def _is_common(atom: Atom, axes: tuple[str, ...]) -> bool:
    """Whether the value is uniform over the blocks along the axes; in particular, it must not be the position in a cluster."""
    if atom.operator is not Operator.SPECIAL:
        return atom.operator in _COMMON
    family, axis = family_and_axis(_special(atom))
    return family in _COMMON_FAMILIES or (family == "block" and axis not in axes)


def left_over(kernel: Kernel) -> Iterator[tree.AwaitTurn]:
    """Turns of which it is not known that the last block resets the counter: the next launch relies on it."""
    for taken in taken_by_all(kernel):
        if taken.too_many() is None:
            yield taken.operation
