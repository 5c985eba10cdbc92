"""Tensor copies between global and shared memory: one instruction per box of the tile."""

from collections.abc import Iterator

from pipec.kir.plan_types import TmaPlan
from pipec.lower.context import RoleContext
from pipec.lower.llvm import FALSE, Value, integer
from pipec.lower.pipelines import barrier, shared_tile
from pipec.lower.scalars import scalar
from pipec.sema import tree


def load(role: RoleContext, operation: tree.TmaLoad) -> None:
    builder = role.builder
    row = role.kernel.plan.tma[id(operation)]
    handle = operation.destination.handle
    origin = coordinates(role, operation.source)
    with role.one_thread("load"):
        full = barrier(role, handle.pipeline, "producer", role.stage(handle))
        tile = shared_tile(role, operation.destination)
        for offset, rows, columns in boxes(row):
            target = builder.shared_pointer(builder.add(tile, offset))
            at = box_coordinates(role, origin, rows, columns)
            builder.call(f"tma.load.{len(at)}d", target, full, Value("ptr", f"%{row.symbol}"), *at, integer(0, "i64"), FALSE)


def store(role: RoleContext, operation: tree.TmaStore) -> None:
    builder = role.builder
    row = role.kernel.plan.tma[id(operation)]
    origin = coordinates(role, operation.destination)
    with role.one_thread("store"):
        tile = shared_tile(role, operation.source)
        for offset, rows, columns in boxes(row):
            issue_store(role, row, builder.add(tile, offset), box_coordinates(role, origin, rows, columns), operation.reduce)
        builder.call("bulk.commit_group")


def issue_store(role: RoleContext, row: TmaPlan, source: Value, at: list[Value], reduce: str | None) -> None:
    builder = role.builder
    pointer = builder.shared_pointer(source)
    name = "store" if reduce is None else f"reduce.{reduce}"
    builder.call(f"tma.{name}.{len(at)}d", pointer, Value("ptr", f"%{row.symbol}"), *at, integer(0, "i64"), FALSE)


def boxes(row: TmaPlan) -> Iterator[tuple[int, int, int]]:
    """(byte offset in the tile, first row, first column) of each box."""
    for panel in range(row.layout.panels):
        for part in range(row.row_boxes):
            rows = part * row.box_rows
            yield panel * row.layout.panel_bytes + rows * row.layout.span_bytes, rows, panel * row.inner


def coordinates(role: RoleContext, source: tree.TensorSlice) -> list[Value]:
    """Outermost first; a 1-D tensor is the only row of its 2-D map."""
    values = [scalar(role, coordinate) for coordinate in source.coordinates]
    return values if len(values) > 1 else [integer(0), *values]


def box_coordinates(role: RoleContext, origin: list[Value], rows: int | Value, columns: int | Value) -> list[Value]:
    """In the order of the instruction: innermost first."""
    *outer, row, column = origin
    row, column = role.builder.add(row, rows), role.builder.add(column, columns)
    return [column, row, *reversed(outer)]
