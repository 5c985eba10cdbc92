"""Tensor copies between global and shared memory: one instruction per box of the tile."""

from collections.abc import Collection, Iterator

from pipec.kir.clusters import LEADER
from pipec.kir.plan.types import TmaPlan
from pipec.lower import bases
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import FALSE, TRUE, Value, integer
from pipec.lower.scalars import scalar
from pipec.lower.synchronisation import clusters
from pipec.lower.synchronisation.pipelines import barrier, leaders_barrier, shared_tile
from pipec.lower.table import lowers
from pipec.sema import tree


@lowers(tree.TmaLoad)
def load(role: RoleContext, operation: tree.TmaLoad) -> None:
    builder = role.builder
    row = role.kernel.plan.tma[operation]
    handle = operation.destination.handle
    origin = coordinates(role, operation.source)
    with role.one_thread("load"):
        full = barrier(role, handle.pipeline, "producer", role.stage(handle))
        tile = shared_tile(role, operation.destination)
        # The plain form for all others: it names no CTA, so it needs no cluster and works on targets without clusters.
        if row.line is not None or clusters.reach_of(role, handle.pipeline, "producer").to == LEADER:
            _load_into_cluster(role, operation, row, tile, full, origin)
            return
        for offset, rows, columns in boxes(row):
            target = builder.shared_pointer(builder.add(tile, offset))
            at = _load_coordinates(role, operation, origin, rows, columns, integer(0))
            policy = role.cache_policy(operation.cache)
            builder.call(f"tma.load.{len(at)}d", target, full, bases.tensor_map(role, row.symbol), *at, *policy)


def _load_into_cluster(
    role: RoleContext, operation: tree.TmaLoad, row: TmaPlan, tile: Value, full: Value, origin: list[Value]
) -> None:
    """By multicast, this CTA's part of the rows to the same address in every CTA of the line; a pair's bytes are counted by its leader."""
    builder, pipeline = role.builder, operation.destination.handle.pipeline
    in_pair = clusters.reach_of(role, pipeline, "producer").to == LEADER
    # The bytes of both CTAs are counted where the MMA waits for them, in the leader.
    if in_pair:
        full = leaders_barrier(role, operation.destination.handle)
    mask, first = integer(0, "i16"), integer(0)
    if row.line is not None:
        first = _share(role, row)
        with builder.early():
            # In a cluster that is one line the mask is a constant, which ptxas would move to a register in each iteration.
            mask = builder.cast("trunc", bases.own(role, clusters.line_mask(role, row.line, 1)), "i16")
            aside = builder.multiply(first, row.layout.span_bytes)
        # Each CTA of the line loads its share and sends it to all: every byte is read from the L2 once per line.
        tile = builder.binary("add", tile, aside)
    # Cache policy, whether multicast, whether with that policy, CTA group.
    policy, stated = role.cache_policy(operation.cache)
    tail = policy, TRUE if row.line is not None else FALSE, stated, integer(2 if in_pair else 0)
    for offset, rows, columns in boxes(row):
        target = builder.cluster_pointer(builder.add(tile, offset))
        at = _load_coordinates(role, operation, origin, rows, columns, first)
        symbol = bases.tensor_map(role, row.symbol)
        builder.call(f"tma.load.cluster.{len(at)}d", target, full, symbol, *at, mask, *tail)


def _share(role: RoleContext, row: TmaPlan) -> Value:
    """The first row of a tile that this CTA loads."""
    if row.line is None:
        return integer(0)
    with role.builder.early():
        return role.builder.multiply(clusters.line_coordinate(role, row.line), row.box_rows * row.row_boxes)


def keep_coordinates(role: RoleContext, operation: tree.TmaLoad, expressions: Collection[tree.Expression]) -> None:
    """Computes the coordinates that are invariant in the following loop before it. A copy takes its operands from consecutive registers,
    so ptxas would otherwise move each one in every iteration."""
    row, given = role.kernel.plan.tma[operation], operation.source.coordinates
    added = {(len(given) - 1, columns) for _, _, columns in boxes(row)} | {(len(given) - 2, rows) for _, rows, _ in boxes(row)}
    for axis, expression in enumerate(given):
        if expression in expressions:
            start = role.invariants[expression]
            if axis == len(given) - 2:
                start = role.builder.add(start, _share(role, row))
            offsets = sorted({offset for where, offset in added if where == axis} or {0})
            for offset in offsets:
                value = role.builder.add(start, offset)
                kept = len(offsets) == 1 and _keeps(role, value)
                role.coordinates[operation, axis, offset] = value if kept else bases.own(role, value)


def _keeps(role: RoleContext, coordinate: Value) -> bool:
    """Whether ptxas keeps a coordinate in a register of its own without being made to: if it is no constant, and no other copy's. Not so
    in the attention kernels for Hopper, where it moves such numbers in each iteration."""
    own = role.kernel.plan.allocated_columns > 0 and not coordinate.name.isdigit()
    return own and coordinate not in role.coordinates.values()


def _load_coordinates(
    role: RoleContext, operation: tree.TmaLoad, origin: list[Value], rows: int, columns: int, first: Value
) -> list[Value]:
    """In instruction order, like `box_coordinates`; `first`: the first row of the tile for this CTA."""
    found = box_coordinates(role, origin, role.builder.add(first, rows), columns)
    last = len(operation.source.coordinates) - 1
    for axis, offset in enumerate((columns, rows)):
        found[axis] = role.coordinates.get((operation, last - axis, offset), found[axis])
    for axis in range(2, len(origin)):
        found[axis] = role.coordinates.get((operation, last - axis, 0), found[axis])
    return [bases.constant(role, int(value.name)) if value.name.isdigit() else value for value in found]


@lowers(tree.TmaStore)
def store(role: RoleContext, operation: tree.TmaStore) -> None:
    builder = role.builder
    row = role.kernel.plan.tma[operation]
    origin = coordinates(role, operation.destination)
    with role.one_thread("store"):
        tile = shared_tile(role, operation.source)
        for offset, rows, columns in boxes(row):
            issue_store(role, operation, row, builder.add(tile, offset), box_coordinates(role, origin, rows, columns))
        # One group for the whole tile: it is waited for and released as one.
        builder.call("bulk.commit_group")


def issue_store(role: RoleContext, operation: tree.TmaStore | tree.Store, row: TmaPlan, source: Value, at: list[Value]) -> None:
    builder, reduce = role.builder, operation.reduce
    pointer = builder.shared_pointer(source)
    name = "store" if reduce is None else f"reduce.{reduce}"
    builder.call(f"tma.{name}.{len(at)}d", pointer, bases.tensor_map(role, row.symbol), *at, *role.cache_policy(operation.cache))


def boxes(row: TmaPlan) -> Iterator[tuple[int, int, int]]:
    """(byte offset in the tile, first row, first column) of each box."""
    for panel in range(row.layout.panels):
        for part in range(row.row_boxes):
            rows = part * row.box_rows
            offset = panel * row.layout.panel_bytes + (row.first_row + rows) * row.layout.span_bytes
            yield offset, rows, panel * row.inner


def coordinates(role: RoleContext, source: tree.TensorSlice) -> list[Value]:
    """Outermost first; a 1-D tensor is the only row of its 2-D map."""
    values = [scalar(role, coordinate) for coordinate in source.coordinates]
    return values if len(values) > 1 else [integer(0), *values]


def box_coordinates(role: RoleContext, origin: list[Value], rows: int | Value, columns: int | Value) -> list[Value]:
    """In instruction order: innermost first."""
    *outer, row, column = origin
    row, column = role.builder.add(row, rows), role.builder.add(column, columns)
    return [column, row, *reversed(outer)]
