"""Kernels that overlap preceding grids must wait for them before touching what those may write (E047x)."""

from pipec.diag.catalogue.grid import grids as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.lazy_tiles import TileNames, lazy_tiles
from pipec.kir.plan.grids import early, early_in_condition, needs_wait, touched, waits
from pipec.kir.plan.roles import operations
from pipec.sema import tree
from pipec.source import Span


def check(kernel: ir.Kernel, sink: Sink) -> None:
    if kernel.programmatic is None:
        for role in kernel.roles:
            for operation in operations(role):
                if isinstance(operation, tree.AwaitGrids):
                    sink.report(messages.WaitWithoutStatement(kernel=kernel.name, at=operation.span, declared=kernel.span))
        return
    written = _written(kernel)
    _stored_and_ready(kernel, kernel.programmatic, written, sink)
    # Some role must wait on every path. Otherwise this grid may end before the preceding one, and a third grid that waits only for this
    # one would read what the first has not written yet.
    always = any(needs_wait(kernel, role) and not waits(role) for role in kernel.roles)
    reported = len(sink.diagnostics)
    for role in kernel.roles:
        if waits(role) and not _wait_of_some(role):
            always = _role(kernel, role, written, sink) or always
    if not always and len(sink.diagnostics) == reported and not any(_wait_of_some(role) for role in kernel.roles):
        stated = [
            operation.span for role in kernel.roles for operation in operations(role) if isinstance(operation, tree.AwaitGrids)
        ]
        sink.report(messages.MayEndFirst(kernel=kernel.name, at=kernel.programmatic.span, waits=tuple(stated)))


def _wait_of_some(role: ir.Role) -> bool:
    """Whether only some threads wait, which the check of participation reports."""
    return any(
        isinstance(operation, tree.AwaitGrids) and block.participation.threads != "all"
        for block in role.blocks
        for operation in block.operations
    )


def _written(kernel: ir.Kernel) -> dict[tree.TensorParameter, Span]:
    """The tensors that the kernel writes, and where it first does."""
    found: dict[tree.TensorParameter, Span] = {}
    for role in kernel.roles:
        names = lazy_tiles(role)
        for operation in operations(role):
            for tensor, writes in touched(operation, names):
                if writes:
                    found.setdefault(tensor, operation.span)
    return found


def _stored_and_ready(
    kernel: ir.Kernel, statement: tree.ProgrammaticLaunch, written: dict[tree.TensorParameter, Span], sink: Sink
) -> None:
    """Reports the tensors that no preceding grid is to write, although one may be a launch of the same kernel, which does."""
    for tensor, at in zip(statement.ready, statement.named, strict=True):
        if tensor in written:
            sink.report(
                messages.StoresWhatIsReady(
                    tensor=tensor.name, kernel=kernel.name, at=at, written=written[tensor], declared=tensor.span
                )
            )


def _role(kernel: ir.Kernel, role: ir.Role, written: dict[tree.TensorParameter, Span], sink: Sink) -> bool:
    """Reports the first access on each path that precedes the wait; returns whether every path through the role waits."""
    names = lazy_tiles(role)
    waited = _waited(role)
    first = next(operation.span for operation in operations(role) if isinstance(operation, tree.AwaitGrids))
    for block, before in zip(role.blocks, waited, strict=True):
        found = _early_in(kernel, block, before, names)
        if found is not None:
            tensor, at = found
            removed = "remove it so that the role waits at its start"
            assert kernel.programmatic is not None
            named = ", ".join(one.name for one in (*kernel.programmatic.ready, tensor))
            remedies = f"or {removed}" if tensor in written else f"{removed}, or write `programmatic_launch({named})`"
            sink.report(
                messages.BeforeWait(
                    role=role.name, tensor=tensor.name, remedies=remedies, at=at, wait=first, declared=tensor.span
                )
            )
            break
    return all(
        _after(block, before) for block, before in zip(role.blocks, waited, strict=True) if isinstance(block.terminator, ir.Exit)
    )


def _early_in(kernel: ir.Kernel, block: ir.Block, waited: bool, names: TileNames) -> tuple[tree.TensorParameter, Span] | None:
    for operation in block.operations:
        if isinstance(operation, tree.AwaitGrids):
            return None
        tensor = None if waited else early(kernel, operation, names)
        if tensor is not None:
            return tensor, operation.span
    tensor = None if waited else early_in_condition(kernel, block, names)
    if tensor is None:
        return None
    assert isinstance(block.terminator, ir.Branch)
    return tensor, block.terminator.span


def _after(block: ir.Block, waited: bool) -> bool:
    return waited or any(isinstance(operation, tree.AwaitGrids) for operation in block.operations)


def _waited(role: ir.Role) -> list[bool]:
    """For each block, whether every path to it waits. A loop may run zero times."""
    # Greatest fixed point: every block but the first is assumed to follow a wait until a path shows otherwise.
    entries = [number > 0 for number in range(len(role.blocks))]
    changed = True
    while changed:
        changed = False
        for number, block in enumerate(role.blocks):
            after = _after(block, entries[number])
            for target in ir.successors(block.terminator):
                if entries[target] and not after:
                    entries[target], changed = False, True
    return entries
