"""Which stages of a role have been signalled explicitly on the way to a point, so that a release need not signal them."""

from pipec.kir import ir
from pipec.sema import tree

# Handles that have been signalled on the path to a point.
Signalled = frozenset[tree.Handle]


def after(given: Signalled, operation: tree.Operation) -> Signalled:
    match operation:
        case tree.Acquire(handle):
            return given - {handle}
        case tree.Signal(handle):
            return given | {handle}
        case tree.Move(target, source):
            return given - {target, source} | ({target} if source in given else frozenset())
        case _:
            return given


def at_entry(role: ir.Role) -> list[Signalled]:
    """Per block. Paths to a block agree on the handles still held there, or only some threads took the signalling path.

    The linearity check ensures this: a signal on any path is a signal on all. Blocks are numbered so that only loops jump backwards, and
    an iteration has released what it signalled.
    """
    entries: list[Signalled] = [frozenset()] * len(role.blocks)
    for number, block in enumerate(role.blocks):
        given = entries[number]
        for operation in block.operations:
            given = after(given, operation)
        for next_ in ir.successors(block.terminator):
            entries[next_] |= given
    return entries


def signalling_releases(role: ir.Role) -> frozenset[tree.Release]:
    """The releases before which no explicit signal stands: they give it."""
    found = set()
    for block, given in zip(role.blocks, at_entry(role), strict=True):
        for operation in block.operations:
            if isinstance(operation, tree.Release) and operation.handle not in given:
                found.add(operation)
            given = after(given, operation)
    return frozenset(found)
