"""How many turns are taken at a semaphore's counter, and by how many blocks.

The last turn resets the counter. If more turns are stated than blocks take, it is not zero again at the end, and the next launch waits for
ever: a property of two launches, of which the proof of one says nothing.
"""

from collections.abc import Iterator, Mapping

from pipec.isa.specials import family_and_axis
from pipec.kir.ir import Branch, Kernel, Role, reached, run_once, successors
from pipec.kir.values.sameness import Sameness, own
from pipec.record import record
from pipec.sema import tree
from pipec.terms.registers import congruent
from pipec.terms.term import Atom, Operator, Term, number
from pipec.terms.walk import Substitution

_AXES = ("x", "y", "z")
_BITS = 32  # of a counter
# The leaves that may be another number in each block.
_OF_BLOCK = frozenset((Operator.UNKNOWN, Operator.WRITTEN_ELEMENT, Operator.ELECTED, Operator.SCHEDULER_ANSWER))
_COMMON_FAMILIES = ("grid", "clusters")


@record
class Taken:
    """A turn that every block takes as its number among the blocks along some axes, which share the counter, or none does: how many
    they are, and the number of turns that the statement names, both in terms of what the launch knows."""

    operation: tree.AwaitTurn
    axes: tuple[str, ...]
    blocks: Term
    turns: Term

    def too_many(self) -> int | None:
        """Blocks without a turn, or turns without a block, if negative; None if that differs between launches."""
        return congruent(self.blocks - self.turns, _BITS).number


def taken_by_all(kernel: Kernel) -> Iterator[Taken]:
    extents = dict(zip(_AXES, map(kernel.launch.term, kernel.grid), strict=True))
    of_launch = Substitution(lambda atom: extents.get(name.removeprefix("grid.")) if (name := _special(atom)) else None)
    for role in kernel.roles:
        once = {*run_once(role, tree.AwaitTurn)}
        for place, block in enumerate(role.blocks):
            for operation in block.operations:
                if not isinstance(operation, tree.AwaitTurn):
                    continue
                axes, blocks = _counted(role.values.of(operation.turn), extents)
                # In a branch or a loop some blocks may take a turn that others do not: their number is unrelated to the grid then.
                same = _of_blocks(role, axes) if axes else None
                if same is not None and _share(operation, same) and (operation in once or _all_come(role, place, same)):
                    yield Taken(operation, axes, blocks, of_launch(role.values.of(operation.turns)))


def _counted(turn: Term, extents: Mapping[str, Term]) -> tuple[tuple[str, ...], Term]:
    """The axes along which the turn counts the blocks, x fastest, then y, then z, and the number of blocks; no axes if it is no such count:
    earlier turns are blocks of lower index."""
    factors = {_special(atom): factor for atom, factor in turn.parts}
    axes, step, blocks = tuple[str, ...](), 1, number(1)
    for axis, extent in extents.items():
        if step and factors.get(f"block.{axis}") == step:
            axes, blocks, step = (*axes, axis), extent * step, step * (extent.number or 0)
    return (axes, blocks) if turn.constant == 0 and len(axes) == len(factors) else ((), blocks)


def _of_blocks(role: Role, axes: tuple[str, ...]) -> Sameness:
    """Two blocks at different places along the axes."""

    def see(atom: Atom, block: int) -> Term | None:
        differs = atom.operator in _OF_BLOCK or atom.operator is Operator.SPECIAL and not _is_common(atom, axes)
        return own(atom, block) if differs else None

    return Sameness(role.values, 2, see)


def _share(operation: tree.AwaitTurn, same: Sameness) -> bool:
    return not any(map(same.differs, operation.counter.coordinates))


def _all_come(role: Role, place: int, same: Sameness) -> bool:
    """Whether the blocks come to a place equally often: nothing that decides it differs between them."""
    ways = [successors(block.terminator) for block in role.blocks]
    loops = {loop.header: loop.statement for loop in role.loops}
    for at, block in enumerate(role.blocks):
        if isinstance(block.terminator, Branch):
            coming = {place in reached(ways, target, without=at) for target in ways[at]}
            differs = same.repeats_differ(loops[at]) if at in loops else same.differs(block.terminator.condition)
            if len(coming) > 1 and differs:
                return False
    return True


def _special(atom: Atom) -> str:
    """The name of a value of the hardware; empty for others."""
    return str(atom.operands[0]) if atom.operator is Operator.SPECIAL else ""


def _is_common(atom: Atom, axes: tuple[str, ...]) -> bool:
    """Whether it is uniform over the blocks along the axes; in particular, it must not be the position in a cluster."""
    family, axis = family_and_axis(_special(atom))
    return family in _COMMON_FAMILIES or (family == "block" and axis not in axes)


def left_over(kernel: Kernel) -> Iterator[tree.AwaitTurn]:
    """Turns of which it is not known that the last block resets the counter: the next launch relies on it."""
    for taken in taken_by_all(kernel):
        if taken.too_many() is None:
            yield taken.operation
