"""The verifier of the kernel IR: the invariants that every pass may rely on. A violation is an error of pipec, never of the user's
kernel."""

from collections.abc import Callable

from pipec.kir import ir
from pipec.kir.walk import operands, references, subexpressions
from pipec.sema import tree
from pipec.sema.types import dtype_of
from pipec.vocabulary import SIDES

_THREADS = frozenset(("all", "one", "some", "unknown"))


class MalformedKernel(Exception):
    """The IR violates one of its invariants."""


def verify(kernel: ir.Kernel) -> None:
    """Raises MalformedKernel at the first violated invariant."""
    buffers, pipelines = set(kernel.buffers), set(kernel.pipelines)
    for buffer in kernel.buffers:
        _require(buffer.owner is None or buffer.owner in pipelines, kernel.name, f"buffer {buffer.label} has a foreign owner")
    for role in kernel.roles:
        place = f"{kernel.name}.{role.name}"
        _require(bool(role.blocks), place, "no blocks")
        _require(pipelines.issuperset((*role.produces, *role.consumes)), place, "declares a pipeline the kernel lacks")
        _verify_graph(role, place)
        _verify_loops(role, place)
        _verify_operations(role, place, pipelines, buffers)


def _require(holds: bool, place: str, text: str | Callable[[], str]) -> None:
    if not holds:
        raise MalformedKernel(f"{place}: {text if isinstance(text, str) else text()}")


def _verify_graph(role: ir.Role, place: str) -> None:
    count = len(role.blocks)
    reached, open_blocks, exits = {0}, [0], 0
    while open_blocks:
        number = open_blocks.pop()
        block = role.blocks[number]
        exits += isinstance(block.terminator, ir.Exit)
        for target in ir.successors(block.terminator):
            _require(0 < target < count, place, f"block {number}: no such target: {target}")
            if target not in reached:
                reached.add(target)
                open_blocks.append(target)
    _require(len(reached) == count, place, f"blocks never reached: {sorted(set(range(count)) - reached)}")
    _require(exits == 1, place, f"{exits} exits; a role ends in one place")


def _verify_loops(role: ir.Role, place: str) -> None:
    for index, loop in enumerate(role.loops):
        where = f"{place} loop {index}"
        header = role.blocks[loop.header].terminator
        _require(loop.header in loop.blocks, where, "the header is not part of the loop")
        _require(isinstance(header, ir.Branch), where, "the header does not branch")
        if isinstance(header, ir.Branch):
            _require(
                header.then in loop.blocks and header.otherwise not in loop.blocks, where, "the header does not leave the loop"
            )
        _require(
            len({loop.variable is None, loop.start is None, loop.stop is None, loop.step is None}) == 1, where, "half a `for`"
        )
        _require(loop.step != 0, where, "step 0")
        if loop.parent is not None:
            _require(loop.parent < index, where, "the parent comes later")
            _require(loop.blocks < role.loops[loop.parent].blocks, where, "not inside its parent")


def _verify_operations(role: ir.Role, place: str, pipelines: set[tree.Pipeline], buffers: set[tree.Buffer]) -> None:
    acquired: set[tree.Handle] = set()
    peeked: dict[tree.Handle, tree.Variable] = {}
    for number, block in enumerate(role.blocks):
        participation = block.participation
        where = f"{place} block {number}"
        _require(participation.threads in _THREADS, where, f"participation {participation.threads!r}")
        _require((participation.chosen is not None) == (participation.threads == "some"), where, "threads without a guard")
        for operation in block.operations:
            _verify_operation(operation, where, pipelines, buffers)
            if isinstance(operation, tree.Acquire) and operation.first:
                _require(operation.handle not in acquired, where, f"`{operation.handle.name}` is acquired in two places")
                acquired.add(operation.handle)
            elif isinstance(operation, tree.Peek):
                ready = peeked.setdefault(operation.token, operation.ready)
                _require(ready is operation.ready, where, f"`{operation.token.name}` has two results")
        if isinstance(block.terminator, ir.Branch):
            condition = block.terminator.condition
            _require(str(condition.type) == "bool", where, f"branch on a {condition.type}")


def _verify_operation(operation: tree.Operation, where: str, pipelines: set[tree.Pipeline], buffers: set[tree.Buffer]) -> None:
    handles = [reference.handle for reference in references(operation)]
    tiles = list(references(operation))
    match operation:
        case tree.Assign():
            _require(operation.variable.type == operation.value.type, where, lambda: f"types differ in `{operation.text()}`")
        case tree.ExpectBytes():
            handles.append(operation.handle)
        case tree.Move():
            handles += [operation.target, operation.source]
        case tree.Vote():
            told = (operation.condition.type, operation.result.type)
            _require({str(dtype_of(one)) for one in told} == {"bool"}, where, "a vote is on bools")
        case tree.Peek():
            _require(str(operation.ready.type) == "bool", where, "the result of a peek is a bool")
            handles.append(operation.token)
        case _:
            pass
    handed = operation.effects.hands_over
    if isinstance(handed, tree.Pipeline):
        _require(handed in pipelines, where, lambda: f"foreign pipeline in `{operation.text()}`")
    elif handed is not None:
        handles.append(handed)
    for value in operands(operation):
        for node in subexpressions(value):
            if isinstance(node, tree.ReadBuffer):
                tiles.append(node.source)
                handles.append(node.source.handle)
            elif isinstance(node, tree.StageIndex | tree.ReadResponse):
                handles.append(node.handle)
    for handle in handles:
        _require(handle.pipeline in pipelines, where, lambda: f"foreign pipeline in `{operation.text()}`")
        _require(handle.side in SIDES, where, f"side {handle.side!r}")
    for tile in tiles:
        _require(tile.buffer in buffers, where, lambda: f"foreign buffer in `{operation.text()}`")
        _require(tile.buffer.owner in (None, tile.handle.pipeline), where, lambda: f"`{operation.text()}` mixes pipelines")
