"""`tiles = TileScheduler(...)` and `for tile in tiles:` in the roles.

A tile is the work of one cluster. Every role iterates over the tiles of its cluster in a loop of its own; the scheduler decides which
tiles those are, identically for all roles.

Mode "static": a cluster starts at its own number and steps by the number of clusters. Mode "clc" (cluster launch control): the first tile
is the cluster's own number, and each further one is the response to a request, sent to the hardware by a one-warp role that the compiler
adds. The responses pass through a pipeline that all iterating roles consume; a second pipeline, produced by the role that runs ahead of
the others, throttles the requests, so that at most one tile beyond the one being loaded is claimed.
"""

from pipec.diag.catalogue.grid import scheduling as messages
from pipec.interface import MULTIPROCESSORS
from pipec.isa.specials import AXES
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.declarations.launch_values import launch_uniform
from pipec.sema.language.operation import RING, SCHEDULER
from pipec.sema.meanings import Tile
from pipec.sema.types import BOOL, I32
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import coordinate, known, known_int
from pipec.sema.values.tile_order import Order, tile_count
from pipec.source import Span
from pipec.syntax import ast
from pipec.vocabulary import ScheduleMode, Side, one_of

SIGNATURE = f'{SCHEDULER}(x, y, z, mode="static", blocks=148, group=8)'
MODES: tuple[ScheduleMode, ...] = ("static", "clc")
# Responses in flight: the tile being loaded and two that the other roles still work on.
_RESPONSES = 3


def worker(context: Context, at: Span) -> tuple[tree.Expression, tree.Expression]:
    """This worker's number, and the number of workers. A worker is a cluster; clusters are laid out along x."""
    one, all_ = ("block.x", "grid.x") if context.cluster.size == 1 else ("cluster.x", "clusters.x")
    return tree.Special(one, I32, at), tree.Special(all_, I32, at)


def _workers(context: Context, schedule: tree.Schedule, blocks: int) -> int:
    """The number of clusters made up of that many CTAs."""
    size = context.cluster.size
    if blocks < size:
        context.sink.report(
            messages.HalfACluster(blocks=blocks, size=size, at=schedule.span, cluster=context.cluster.span or schedule.span)
        )
    return max(1, blocks // size)


# ------------------------------------------------------------------------------------------------------------ declaration


def declare_scheduler(context: Context, target: ast.Name, node: ast.Call) -> None:
    """`tiles = TileScheduler(x, y, z, ...)` at kernel level; a kernel has one."""
    context.walks.declared = True
    bound = bind_arguments(context, node, SCHEDULER, ("x",), ("y", "z", "mode", "blocks", "group"), signature=SIGNATURE)
    first = context.walks.schedule
    if first is not None:
        context.fail(messages.SecondScheduler(name=target.name, other=first.name, at=node.span, first=first.span))
    x, y, z = (_extent(context, bound.get(axis), axis, node.span) for axis in AXES)
    mode = _mode(context, bound["mode"]) if "mode" in bound else MODES[0]
    blocks = _blocks(context, bound["blocks"]) if "blocks" in bound else None
    group = _at_least_one(context, bound["group"], "group") if "group" in bound else None
    responses = throttle = None
    if mode == "clc":
        # Ordinary pipelines, so that checks, proof and lowering need no special rules for the responses.
        responses = tree.Pipeline(target.name, SCHEDULER, _RESPONSES, target.span)
        throttle = tree.Pipeline(f"{target.name}.throttle", RING, _RESPONSES, target.span)
    schedule = tree.Schedule(target.name, mode, (x, y, z), blocks, group, target.span, responses, throttle)
    context.define(target, schedule)
    context.walks.schedule = schedule


def _extent(context: Context, node: ast.Expression | None, axis: str, span: Span) -> tree.Expression:
    if node is None:
        return tree.Constant(1, I32, span)
    extent = coordinate(context, node)
    launch_uniform(context, extent, f"the number of tiles along {axis}")
    if isinstance(extent, tree.Constant) and extent.value < 0:
        context.fail(messages.NegativeExtent(axis=axis, extent=int(extent.value), at=node.span))
    return extent


def _mode(context: Context, node: ast.Expression) -> ScheduleMode:
    written = known(context, node, str, "the mode", " or ".join(f'`"{mode}"`' for mode in MODES))
    mode = one_of(MODES, written)
    if mode is None:
        context.fail(messages.UnknownMode(mode=written, at=node.span))
    return mode


def _blocks(context: Context, node: ast.Expression) -> int | None:
    """None: as many as the GPU has multiprocessors."""
    with context.for_launch():
        stated = context.elaborate(node)
    return None if isinstance(stated, tree.Special) and stated.name == MULTIPROCESSORS else _at_least_one(context, node, "blocks")


def _at_least_one(context: Context, node: ast.Expression, what: str) -> int:
    value = known_int(context, node, f"`{what}`")
    if not 1 <= value < 2**31:
        message = messages.NoBlocks if what == "blocks" else messages.EmptyGroup
        context.fail(message(value=value, at=node.span))
    return value


def derived_grid(context: Context, schedule: tree.Schedule) -> tuple[tree.Expression, tree.Expression, tree.Expression]:
    """One cluster per tile, except in mode "static" with more tiles than CTAs fit on the GPU."""
    at, clusters = schedule.span, tile_count(schedule)
    if schedule.mode == "static":
        # A block without a tile would start and exit without work.
        clusters = tree.Call("min", (clusters, _resident(context, schedule)), I32, at)
    x, y, z = (tree.Constant(extent, I32, at) for extent in context.cluster.shape)
    return clusters if x.value == 1 else tree.Binary("*", x, clusters, I32, at), y, z


def _resident(context: Context, schedule: tree.Schedule) -> tree.Expression:
    """The most clusters that mode "static" runs."""
    at, size = schedule.span, context.cluster.size
    if schedule.blocks is not None:
        return tree.Constant(_workers(context, schedule, schedule.blocks), I32, at)
    multiprocessors = tree.Special(MULTIPROCESSORS, I32, at)
    if size == 1:
        return multiprocessors
    one, all_ = tree.Constant(1, I32, at), tree.Constant(size, I32, at)
    return tree.Call("max", (one, tree.Binary("//", multiprocessors, all_, I32, at)), I32, at)


# ------------------------------------------------------------------------------------------------------------------ loops


def walk(context: Context, statement: ast.For, schedule: tree.Schedule) -> None:
    """`for tile in tiles:` in a role."""
    _once_and_by_itself(context, statement, schedule)
    name, at = statement.target.name, statement.target.span
    index = tree.Variable(f"{name}.index", I32, at)
    tile = Tile(name, schedule, index, {})
    context.walks.targets.add(at)
    with context.block(statement.span) as inner:
        inner.bind_again(name, tile, at)
        inner.run_body(statement.body)
    body = (*Order(schedule, name, index, at).assignments(tile.places), *inner.statements)
    if schedule.mode == "static":
        _count(context, statement, schedule, index, body)
    else:
        _claim(context, statement, schedule, index, body)


def _once_and_by_itself(context: Context, statement: ast.For, schedule: tree.Schedule) -> None:
    assert context.role is not None
    role = context.role.name.name
    scheduler, at = schedule.name, statement.span
    first = context.walks.loops.get(role)
    context.walks.loops.setdefault(role, statement.span)
    # Inside a loop or a branch the role's trip count would differ from that of the other roles, so their tiles would diverge.
    if context.inside is not None:
        context.fail(messages.WalkedInside(role=role, scheduler=scheduler, at=at, inside=context.inside))
    if first is not None:
        context.fail(messages.WalkedTwice(role=role, scheduler=scheduler, at=at, first=None if first is at else first))


def _count(
    context: Context, statement: ast.For, schedule: tree.Schedule, index: tree.Variable, body: tuple[tree.Statement, ...]
) -> None:
    """If fewer clusters than `blocks` run, each has at most one tile, so the step may be `blocks` in any case."""
    at = statement.target.span
    (own, workers), tiles = worker(context, at), tile_count(schedule)
    if schedule.blocks is not None:
        context.emit(tree.For(index, own, tiles, _workers(context, schedule, schedule.blocks), body, statement.span))
        return
    zero, count = tree.Constant(0, I32, at), tree.Variable(f"{index.name}.count", I32, at)
    left = tree.Call("max", (tree.Binary("-", tiles, own, I32, at), zero), I32, at)
    trips = tree.Call("ceildiv", (left, workers), I32, at)
    walked = tree.Binary("*", tree.ReadVariable(count, at), workers, I32, at)
    step = tree.Assign(index, tree.Binary("+", own, walked, I32, at), at)
    way = tree.Walk(index, own, tiles, workers)
    context.emit(tree.For(count, zero, trips, 1, (step, *body), statement.span, way))


def _claim(
    context: Context, statement: ast.For, schedule: tree.Schedule, index: tree.Variable, body: tuple[tree.Statement, ...]
) -> None:
    """Each iteration ends with the response to the request for the next tile."""
    at = statement.span
    assert schedule.responses is not None and schedule.throttle is not None and context.role is not None
    # The first tile needs no request: it is the one that the hardware launched this cluster for.
    context.emit(tree.Assign(index, worker(context, at)[0], at))
    throttled: tuple[tree.Statement, ...] = ()
    if _runs_ahead(context):
        throttled = _turn(schedule.throttle, "producer", at)
    context.emit(_walk_loop(index, (*throttled, *body, *_next_tile(schedule.responses, index, at)), at))


def _runs_ahead(context: Context) -> bool:
    """Whether this role sets the pace: the first iterating role that consumes no pipeline, since it waits only for free stages.

    It must run in every CTA of a cluster.
    """
    assert context.role is not None
    walks = context.walks
    alone = any(argument.name == "on" for argument in context.role.arguments)
    if walks.throttling is None and not alone and not any(clause.word == "consumes" for clause in context.role.clauses):
        walks.throttling = context.role.name.name
    return walks.throttling == context.role.name.name


def _walk_loop(index: tree.Variable, body: tuple[tree.Statement, ...], at: Span) -> tree.While:
    more = tree.Binary(">=", tree.ReadVariable(index, at), tree.Constant(0, I32, at), BOOL, at)
    return tree.While(more, body, at, tile=index)


def _turn(pipeline: tree.Pipeline, side: Side, at: Span) -> tuple[tree.Statement, ...]:
    """Acquires a stage and releases it at once, with its signal."""
    handle = tree.Handle(pipeline.name, pipeline, side, "scoped", at)
    return tree.Acquire(handle, at), tree.Release(handle, True, at)


def _next_tile(responses: tree.Pipeline, index: tree.Variable, at: Span) -> tuple[tree.Statement, ...]:
    handle = tree.Handle(responses.name, responses, "consumer", "scoped", at)
    answer = tree.ReadResponse(handle, I32, at)
    return tree.Acquire(handle, at), tree.Assign(index, answer, at), tree.Release(handle, True, at)


# ------------------------------------------------------------------------------------------------------------- the kernel


def clauses_of_walk(context: Context, role: str) -> tuple[tuple[tree.Pipeline, ...], tuple[tree.Pipeline, ...]]:
    """The scheduler's pipelines that the role produces, and those it consumes."""
    walks = context.walks
    if walks.schedule is None or walks.schedule.responses is None or role not in walks.loops:
        return (), ()
    assert walks.schedule.throttle is not None
    return ((walks.schedule.throttle,) if walks.throttling == role else ()), (walks.schedule.responses,)


def scheduler_role(context: Context) -> tuple[tree.Role | None, tuple[tree.Pipeline, ...]]:
    """The role that sends the requests, and the scheduler's pipelines; none of it in mode "static"."""
    walks, schedule = context.walks, context.walks.schedule
    if schedule is None or schedule.responses is None or not walks.loops:
        return None, ()
    assert schedule.throttle is not None
    at, responses = schedule.span, schedule.responses
    index = tree.Variable(f"{schedule.name}.index", I32, at)
    throttles = () if walks.throttling is None else (schedule.throttle,)
    held_back = _turn(schedule.throttle, "consumer", at) if throttles else ()
    # Like the others, this role reads the responses that it requested: a response without a tile ends its loop, too.
    request = tree.Handle(f"{schedule.name}.request", responses, "producer", "scoped", at)
    body = (
        *held_back,
        tree.Acquire(request, at),
        tree.RequestTile(request, at),
        tree.Release(request, True, at),
        *_next_tile(responses, index, at),
    )
    begin = tree.Assign(index, tree.Constant(0, I32, at), at)
    role = tree.Role(
        f"{schedule.name}.scheduler",
        1,
        None,
        (responses,),
        (*throttles, responses),
        (begin, _walk_loop(index, body, at)),
        at,
        at,
    )
    return role, (responses, *throttles)


def refuse_unused(context: Context) -> None:
    """Rejects a scheduler that no role iterates over."""
    schedule = context.walks.schedule
    if schedule is not None and not context.walks.loops:
        context.sink.report(messages.NeverWalked(scheduler=schedule.name, at=schedule.span))


def refuse_assignment(context: Context, target: ast.Name) -> None:
    """The tile is the scheduler's choice."""
    binding = context.scope.find(target.name)
    if binding is not None and isinstance(binding.meaning, Tile):
        context.fail(messages.TileAssigned(tile=target.name, at=target.span, loop=binding.span))
