"""Blocks that take turns through a counter in global memory (E061x)."""

from pipec.diag.catalogue.grid import global_memory as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.global_memory.counters import places
from pipec.kir.values.analysis import Values
from pipec.sema import tree
from pipec.terms.term import Atom, Operator, atom_of
from pipec.terms.walk import leaves

_AXES = ("block.x", "block.y", "block.z")
# The leaves that are uniform over the blocks along an axis of the grid.
_COMMON = frozenset((Operator.DIMENSION, Operator.PARAMETER, Operator.ELEMENT))
_COMMON_FAMILIES = ("grid", "clusters")


def check(kernel: ir.Kernel, sink: Sink) -> None:
    _within(kernel, sink)
    _as_many_as_blocks(kernel, sink)


def _within(kernel: ir.Kernel, sink: Sink) -> None:
    """Counters must be within their tensors. What is known only at launch is checked there."""
    for place in places(kernel):
        known = [form.constant for form in place.within() if not form.terms]
        if min(known, default=0) >= 0:
            continue
        counter = place.operation.counter
        outside = place.first if place.first.constant < 0 else place.last
        sink.report(
            messages.CounterOutside(
                tensor=counter.tensor.name,
                place=outside.constant,
                size=counter.tensor.shape[place.axis],
                at=counter.coordinates[place.axis].span,
                declared=counter.tensor.span,
            )
        )


def _as_many_as_blocks(kernel: ir.Kernel, sink: Sink) -> None:
    """If every block along an axis of the grid takes a turn, there must be as many turns as blocks."""
    for role in kernel.roles:
        # In a branch or a loop only some blocks take a turn, or several times: the number of turns is unrelated to the grid.
        for operation in ir.run_once(role, tree.AwaitTurn):
            axis = _axis(operation, role.values)
            if axis is None:
                continue
            blocks, turns = kernel.grid[_AXES.index(axis)], operation.turns
            known, stated = kernel.launch.term(blocks).number, role.values.of(turns).number
            # With too few turns two blocks enter at once; with too many the last block waits for one that does not exist. Sizes known only
            # at launch are not compared: either may be intended.
            if known is not None and stated is not None and known != stated:
                sink.report(
                    messages.TurnsOfGrid(
                        axis=axis.removeprefix("block."), blocks=known, turns=stated, at=operation.span, grid=blocks.span
                    )
                )


def _axis(operation: tree.AwaitTurn, values: Values) -> str | None:
    """The axis of the grid whose block index is the turn, if the blocks along it share a counter: earlier turns are blocks of lower
    index."""
    turn = atom_of(values.of(operation.turn))
    name = turn.operands[0] if turn is not None and turn.operator is Operator.SPECIAL else None
    if turn is None or not isinstance(name, str) or name not in _AXES:
        return None
    where = [atom for coordinate in operation.counter.coordinates for atom in leaves(values.of(coordinate))]
    return name if all(_is_common(atom, name) for atom in where) else None


def _is_common(atom: Atom, axis: str) -> bool:
    """Whether the value is uniform over the blocks along an axis; in particular, it must not be the position in a cluster."""
    if atom.operator is not Operator.SPECIAL:
        return atom.operator in _COMMON
    name = str(atom.operands[0])
    return name.partition(".")[0] in _COMMON_FAMILIES or (name in _AXES and name != axis)
