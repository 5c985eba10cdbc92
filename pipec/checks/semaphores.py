"""Blocks that take turns by a counter in global memory (E061x), and what the absence of deadlocks then rests on."""

from collections.abc import Iterator

from pipec.diag.catalogue import global_memory as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.walk import subexpressions
from pipec.sema import tree

_AXES = ("block.x", "block.y", "block.z")
Assignments = dict[tree.Variable, list[tree.Expression]]


def check(kernel: ir.Kernel, sink: Sink) -> None:
    """Where every block along an axis of the grid takes a turn, there are as many turns as blocks."""
    for role in kernel.roles:
        assigned: Assignments = {}
        for block in role.blocks:
            for operation in block.operations:
                if isinstance(operation, tree.Assign):
                    assigned.setdefault(operation.variable, []).append(operation.value)
        for operation in _on_every_path(role):
            if not isinstance(operation, tree.AwaitTurn):
                continue
            axis = _axis(operation, assigned)
            if axis is None:
                continue
            blocks, turns = kernel.grid[_AXES.index(axis)], operation.turns
            if isinstance(blocks, tree.Constant) and isinstance(turns, tree.Constant) and blocks.value != turns.value:
                sink.report(
                    messages.TurnsOfGrid(
                        axis=axis.removeprefix("block."),
                        blocks=int(blocks.value),
                        turns=int(turns.value),
                        at=operation.span,
                        grid=blocks.span,
                    )
                )


def _on_every_path(role: ir.Role) -> Iterator[tree.Operation]:
    """The operations of the blocks that nothing branches around."""
    number = 0
    while True:
        yield from role.blocks[number].operations
        after = ir.successors(role.blocks[number].terminator)
        if len(after) != 1 or after[0] <= number:
            return
        number = after[0]


def assumption(kernel: tree.Kernel) -> str:
    """What the launch must give so that every turn comes; the end of a sentence, empty where no block waits for another."""
    parts: dict[str, str] = {}
    for role in kernel.roles:
        assigned: Assignments = {}
        awaited: list[tree.AwaitTurn] = []
        _collect(role.body, assigned, awaited)
        for operation in awaited:
            name = operation.counter.tensor.name
            ordered = _axis(operation, assigned) is not None
            parts.setdefault(name, "blocks start in the order of their numbers" if ordered else "all blocks run at the same time")
    return "".join(f", given that {needed} (turns by `{name}`)" for name, needed in parts.items())


def _collect(statements: tuple[tree.Statement, ...], assigned: Assignments, awaited: list[tree.AwaitTurn]) -> None:
    for statement in statements:
        match statement:
            case tree.Assign():
                assigned.setdefault(statement.variable, []).append(statement.value)
            case tree.AwaitTurn():
                awaited.append(statement)
            case tree.If():
                _collect((*statement.then, *statement.otherwise), assigned, awaited)
            case tree.For() | tree.While() | tree.Elect():
                _collect(statement.body, assigned, awaited)
            case _:
                pass


def _axis(operation: tree.AwaitTurn, assigned: Assignments) -> str | None:
    """The axis of the grid whose place is the turn, where the blocks along it share a counter: earlier turns are blocks of lower number."""
    turn: tree.Expression = operation.turn
    while isinstance(turn, tree.ReadVariable) and len(assigned.get(turn.variable, ())) == 1:
        turn = assigned[turn.variable][0]
    if not isinstance(turn, tree.Special) or turn.name not in _AXES:
        return None
    shared = not any(_depends(coordinate, turn.name, assigned, frozenset()) for coordinate in operation.counter.coordinates)
    return turn.name if shared else None


def _depends(expression: tree.Expression, axis: str, assigned: Assignments, seen: frozenset[tree.Variable]) -> bool:
    for node in subexpressions(expression):
        if isinstance(node, tree.Special) and node.name == axis:
            return True
        if isinstance(node, tree.ReadVariable) and node.variable not in seen:
            values = assigned.get(node.variable)
            if values is None:  # of a loop
                return True
            inner = seen | {node.variable}
            if any(_depends(value, axis, assigned, inner) for value in values):
                return True
    return False
