"""Which threads of a role take part: one, all, or those under a guard; and which values must be uniform (E04xx)."""

from collections.abc import Iterator

from pipec.checks.summary import READ, RoleSummary, Touch
from pipec.diag.catalogue.stages import participation as messages
from pipec.diag.message import Sink
from pipec.isa.targets import WARP
from pipec.kir import ir
from pipec.kir.values.sameness import of_elected, of_threads
from pipec.kir.walk import subexpressions
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import Threads


def check_participation(role: RoleSummary, sink: Sink) -> None:
    _needs_elect(role.role, sink)
    # Everything under one guard has the same cause, and moving the guard fixes all of it.
    told: set[tuple[str, Span | None]] = set()  # one message per kind of error and guard
    for number, block in enumerate(role.role.blocks):
        threads, guard = block.participation.threads, block.participation.guard
        for operation, touches in zip(block.operations, role.touches[number], strict=True):
            asked = operation.effects.threads
            one = asked if isinstance(asked, tree.OneThread) else None
            doing = None if one else _doing(operation, touches)
            key = ("one" if one else "wide", guard if guard else operation.span)
            if (one is None and doing is None) or key in told:
                continue
            if one is not None and _report_one_thread(one, operation, block.participation, sink):
                told.add(key)
            if doing is not None and _report_role_wide(role.role, doing, operation, threads, guard, sink):
                told.add(key)
        if isinstance(block.terminator, ir.ElectBranch) and threads != "all":
            _report_elect(role.role, block, block.terminator, sink)


def _doing(operation: tree.Operation, touches: tuple[Touch, ...]) -> str | None:
    """What all threads of the role must do together here; None if any thread may run the operation."""
    threads = operation.effects.threads
    if isinstance(threads, tree.AllThreads):
        return threads.doing
    return "reading a tile" if any(touch.kind == READ for touch in touches) else None


def _needs_elect(role: ir.Role, sink: Sink) -> None:
    """One message for all one-thread operations that every thread of a larger role would issue: one `elect()` can contain them."""
    # There the lowering elects the thread.
    if role.warps == 1:
        return
    sites = [
        (operation.effects.threads, operation.span)
        for block in role.blocks
        if block.participation.threads == "all"
        for operation in block.operations
        if isinstance(operation.effects.threads, tree.OneThread)
    ]
    if not sites:
        return
    (first, span), *others = sites
    sink.report(
        messages.NeedsElect(
            operation=first.name,
            role=role.name,
            threads=role.warps * WARP,
            warps=role.warps,
            consequence=first.otherwise,
            at=span,
            others=tuple(other for _, other in others),
            declared=role.span,
        )
    )


def _report_one_thread(one: tree.OneThread, operation: tree.Operation, participation: ir.Participation, sink: Sink) -> bool:
    threads, guard = participation.threads, participation.guard
    # For all threads, `_needs_elect` has one message for all such operations of the role. Each of several lanes would issue the copy or
    # the MMA again, and multiply the bytes and arrivals.
    if threads in ("one", "all"):
        return False
    single = participation.chosen is not None and len(participation.chosen) == 1
    sink.report(
        messages.OneThreadInGuard(
            operation=one.name,
            condition=guard.text() if guard else "its thread",
            issued="one thread gets here, but not the one that acts for the role elsewhere"
            if single
            else "issued by each thread that gets here",
            consequence="what one thread has issued, another one neither commits nor waits for" if single else one.otherwise,
            at=operation.span,
            guard=guard,
        )
    )
    return True


def _report_role_wide(
    role: ir.Role, name: str, operation: tree.Operation, threads: Threads, guard: Span | None, sink: Sink
) -> bool:
    if threads == "all":
        return False
    if isinstance(operation, tree.Signal) and threads == "some":
        return False  # `if lane_id() < 4: stage.arrive()` determines the arrival count
    # The barrier's count is fixed at initialisation, before it is known how many threads pass this guard.
    if isinstance(operation, tree.Signal) and threads == "unknown":
        handle = operation.handle
        sink.report(
            messages.ArriveInUnknownGuard(
                role=role.name, stage=handle.name, pipeline=handle.pipeline.name, at=operation.span, guard=guard
            )
        )
        return True
    message = messages.RoleWideInElect if threads == "one" else messages.RoleWideInGuard
    asked = operation.effects.threads
    consequence = (asked if isinstance(asked, tree.AllThreads) else tree.AllThreads(name)).otherwise
    sink.report(message(operation=name, role=role.name, consequence=consequence, at=operation.span, guard=guard))
    return True


def _report_elect(role: ir.Role, block: ir.Block, elect: ir.ElectBranch, sink: Sink) -> None:
    once = block.participation.threads == "one"
    sink.report(
        messages.NestedElect(
            role=role.name,
            found="only one runs here" if once else "only some take this branch",
            fix="remove the inner `elect()`" if once else "move it out of the branch",
            at=elect.span,
            guard=block.participation.guard,
        )
    )


def check_shared_values(role: RoleSummary, sink: Sink) -> None:
    """The address of a tile and the scalars combined with it must not depend on the thread."""
    threads, elected = of_threads(role.role.values), of_elected(role.role.values)
    for block in role.role.blocks:
        # Values computed by one thread are uniform; which thread it is remains unspecified.
        sameness = elected if block.participation.threads == "one" else threads
        for operation in block.operations:
            for what, value in _shared_values(operation):
                # The instruction takes one value for all of its threads; which thread's is undefined.
                if sameness.differs(value):
                    hint = _instead(operation, value)
                    sink.report(messages.DiffersBetweenThreads(what=what, hint=hint, at=value.span, operation=operation.span))
                    break


def _instead(operation: tree.Operation, value: tree.Expression) -> str | None:
    """How a tile is written that has something else in each row."""
    tile = operation.effects.tile
    if isinstance(operation, tree.Store) and value in operation.destination.coordinates:
        return 'rows go to places of their own with `store.direct(t[0, j], tile, at=numbers, reduce="add")`, with a number for each row'
    if tile is None:
        return None
    for node in subexpressions(tile):
        if isinstance(node, tree.ReadTensor) and value in node.source.coordinates:
            return "rows stand in places of their own with `load(t[0, j], rows, columns, at=numbers)`, with a number for each row"
        if isinstance(node, tree.Splat) and node.operand is value:
            return "what differs along a tile is a tile: `per_row(v[i], rows)`, `row_index(rows)`, `column_index(columns)`"
    return None


def _shared_values(operation: tree.Operation) -> Iterator[tuple[str, tree.Expression]]:
    yield from operation.effects.shared
    tile = operation.value if isinstance(operation, tree.Assign) else operation.effects.tile  # including lazy tiles
    if tile is not None and isinstance(tile.type, TileType):
        yield from _shared_parts(tile)


def _shared_parts(value: tree.Expression) -> Iterator[tuple[str, tree.Expression]]:
    """The scalars in a tile's expression."""
    for node in subexpressions(value):
        match node:
            case tree.Splat(operand):
                yield "a number in a tile's expression", operand
            case tree.ReadBuffer(source=source) if source.cta is not None:
                yield "the rank of the CTA whose tile is read", source.cta
            case tree.ReadTensor(source):
                yield from (("a coordinate", coordinate) for coordinate in source.coordinates)
            case _:
                pass
