"""Copies that threads issue: what each takes from its thread and from the copy engine, and when its data is there."""

from typing import NamedTuple

from pipec.predict.following.events import Busy, Engine, Why, because, later_of
from pipec.predict.following.threads import NOTHING, Threads
from pipec.predict.work import LINE, Transfer, transfer
from pipec.sema import tree

_FILLED = 64  # bytes per L2 request


def copy_async(threads: Threads, into: tree.BufferRef) -> None:
    lines = into.buffer.columns * into.buffer.dtype.bits / 8 / LINE
    late = threads.device.load + threads.around.conditions.farther + lines
    threads.lands(into.handle, threads.now.later(because(Why.LATENCY, into.buffer.label), late))


class Load(NamedTuple):
    """What a load takes each time: `instructions` of TMA, cycles to issue one of them, cycles of the copy `engine`, cycles in which the L2
    has `served` it; and the rows and bytes that it brings."""

    handle: tree.Handle
    instructions: int
    issue: float
    walking: float
    engine: Engine
    served: float
    rows: int
    bytes: int


def load_of(threads: Threads, operation: tree.TmaLoad) -> Load:
    copy = transfer(operation, threads.block.plan.tma[operation])
    conditions, device, tensor = threads.around.conditions, threads.device, operation.source.tensor.name
    parts = _parts(threads, operation, copy)
    walking, engine = _walking(threads, copy, parts, tensor)
    issue = device.issue + device.issue_row * copy.rows / copy.instructions
    served = copy.bytes * parts * conditions.inside.get(tensor, 1.0) * conditions.served.get(tensor, 0.0) * conditions.stalled
    handle = operation.destination.handle
    return Load(handle, copy.instructions, issue, walking, engine, served, copy.rows * parts, copy.bytes * parts)


def load(threads: Threads, one: Load) -> None:
    handle, around, device = one.handle, threads.around, threads.device
    pipeline = handle.pipeline.name
    if threads.landed[handle] == NOTHING:
        threads.now = threads.now.later(because(Why.ISSUE, threads.name), device.turn)
        around.busy[Busy(Engine.ISSUE, threads.name)] += device.turn
    started, begin = threads.now, later_of(threads.now, around.copies)
    for _ in range(one.instructions):
        around.copies = later_of(threads.now, around.copies).later(because(Why.WALK, pipeline), one.walking / one.instructions)
        threads.now = threads.now.later(because(Why.ISSUE, threads.name), one.issue)
    threads.stretch(f"issue loads of {pipeline}", started.time, threads.now.time)
    around.busy[Busy(Engine.ISSUE, threads.name)] += threads.now.time - started.time
    threads.engine(Engine.COPIES, pipeline, begin, around.copies, 0.0)
    around.busy[Busy(one.engine)] += one.walking
    around.instructions[threads.name] += one.instructions
    around.served = later_of(begin, around.served).later(because(Why.WALK, pipeline), one.served)
    around.busy[Busy(Engine.SERVED)] += one.served
    rows, size = threads.landed[handle]
    rows, size = rows + one.rows, size + one.bytes
    threads.landed[handle] = rows, size
    # A request transfers at least 64 bytes, so that shorter rows find half of theirs already there.
    far = around.conditions.farther * min(1.0, size / rows / _FILLED)
    late = device.load + far + rows * device.load_row + size / LINE * device.load_line
    threads.lands(handle, later_of(around.copies, around.served).later(because(Why.LATENCY, pipeline), late))


def _parts(threads: Threads, operation: tree.TmaLoad, copy: Transfer) -> int:
    """The number of CTAs of the cluster that load a tile together."""
    if threads.block.plan.tma[operation].line is None:
        return 1
    shares = operation.destination.buffer.rows * copy.instructions // max(1, copy.rows)
    return min(threads.block.plan.kernel.cluster.size, max(1, shares))


def _walking(threads: Threads, copy: Transfer, parts: int, tensor: str) -> tuple[float, Engine]:
    """Cycles of the copy engine, for rows inside the tensor, which need requests, and for those outside, which are zero-filled; and
    whether the engine or the L2 is the limit."""
    conditions = threads.around.conditions
    inside = conditions.inside.get(tensor, 1.0)
    requests = conditions.requests.get(tensor, 1.0)
    there = copy.rows * inside * requests * threads.device.row * conditions.slower * conditions.stalled
    moved = copy.bytes * inside * requests / conditions.bytes_per_cycle * conditions.stalled
    if threads.block.multicasts:
        moved = max(moved, copy.bytes * parts * inside / threads.device.multicast_rate)
    filled = copy.rows * (1 - inside) * max(threads.device.row, threads.device.outside * conditions.busy)
    return max(there, moved) + filled, Engine.L2 if moved > there + filled else Engine.COPIES


def store(threads: Threads, operation: tree.TmaStore) -> None:
    copy = transfer(operation, threads.block.plan.tma[operation])
    around = threads.around
    begin = later_of(threads.now, around.stores)
    around.stores = begin.later(because(Why.STORE, operation.destination.tensor.name), copy.rows * threads.device.row)
    threads.engine(Engine.STORES, operation.destination.tensor.name, begin, around.stores, copy.rows * threads.device.row)
    threads.lands(
        operation.source.handle,
        around.stores.later(because(Why.LATENCY, operation.destination.tensor.name), threads.device.load / 2),
    )
    threads.now = threads.now.later(because(Why.ISSUE, threads.name), copy.instructions * threads.device.issue)
