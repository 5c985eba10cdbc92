"""What an operation costs the engine or the threads that do it."""

from collections.abc import Mapping
from functools import cache
from math import ceil

from pipec.isa.targets import WARP
from pipec.kir.plan.scales import reads_packed
from pipec.kir.plan.types import TmaPlan
from pipec.kir.walk import children, evaluated_tile
from pipec.predict.device import Device
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType

LINE = 128  # bytes of a box row that the TMA engine takes in one step, and the widest swizzle
_BYTE = 8
_STEP = 32  # bytes of K that one MMA instruction multiplies
_SCHEDULERS = 4  # of a multiprocessor, each issues one instruction a cycle


@record
class Transfer:
    """One TMA operation of a CTA: instructions, rows that the engine walks, bytes that arrive through it."""

    instructions: int
    rows: int
    bytes: int


@cache
def transfer(operation: tree.TmaLoad | tree.TmaStore, plan: TmaPlan) -> Transfer:
    tile = operation.destination.buffer if isinstance(operation, tree.TmaLoad) else operation.source.buffer
    panels = plan.layout.panels
    rows = plan.box_rows * plan.row_boxes * panels
    return Transfer(plan.row_boxes * panels, rows, rows * tile.columns * tile.dtype.bits // 8 // panels)


@cache
def product_cycles(operation: tree.Mma | tree.RegisterMma, device: Device) -> tuple[float, float]:
    """Cycles in the tensor cores, and from the start to their first."""
    b = operation.b
    depth, columns = (b.buffer.rows, b.buffer.columns) if b.transposed else (b.buffer.columns, b.buffer.rows)
    bits = b.buffer.dtype.bits
    if isinstance(operation, tree.RegisterMma) or not reads_packed(operation):
        bits = max(bits, _BYTE)  # the tensor cores read one element from each byte
    count = ceil(depth * bits / _BYTE / _STEP)
    if isinstance(operation, tree.RegisterMma):
        rows, group, near = operation.accumulator.rows, 1, isinstance(operation.a, tree.ReadVariable)
        columns = operation.accumulator.columns
    else:
        accumulator = operation.accumulator.buffer
        group = accumulator.owner.cta_group if accumulator.owner is not None else 1
        rows, columns, near = (
            accumulator.rows * (group if group == 2 else 1),
            accumulator.columns,
            operation.a.buffer.space == "tensor",
        )
        rows = rows // 2 if group == 2 else rows
    interval = device.interval(rows, columns, group, near) - (device.narrow if bits <= _BYTE else 0.0)
    scales = operation.scales if isinstance(operation, tree.Mma) else ()
    copied = sum(tile.buffer.rows * tile.buffer.columns for tile in scales) / device.machine.operand_bytes
    return count * interval + copied, device.latency(rows, columns, group, near)


# Instructions for one element of a tile, by what is computed; a store's own are part of the machine's figure for an epilogue.
_READ = 1.0  # from tensor or shared memory, several elements at a time
_READ_GLOBAL = 2.0
_PLAIN = 1.0
# Functions by the instructions of the special-function units that they become, and the others beside them (pipec/lower/emit/functions.py).
_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    "exp": (1, 4),
    "exp2": (1, 3),
    "exp2_ftz": (1, 0),
    "log": (1, 4),
    "log2": (1, 3),
    "sqrt": (1, 8),
    "rsqrt": (1, 2),
    "rcp": (1, 6),
    "/": (1, 8),
    "sigmoid": (2, 3),
    "silu": (2, 4),
    "tanh": (2, 8),
    "erf": (2, 12),
    "gelu": (2, 14),
    "sin": (1, 2),
    "cos": (1, 2),
}


def thread_cycles(operation: tree.Operation, warps: int, device: Device) -> float:
    """Cycles that the role's threads take for the tile that they evaluate, and for storing it to global memory, had they the
    multiprocessor for themselves."""
    tile = evaluated_tile(operation)
    if tile is None or not isinstance(tile.type, TileType):
        return 0.0
    elements = tile.type.rows * tile.type.columns
    computing = _instructions(tile, device) * elements / (WARP * min(warps, _SCHEDULERS))
    if isinstance(operation, tree.Store):
        return computing + device.machine.tile + device.machine.element * elements
    return computing


def _instructions(tile: tree.Expression, device: Device) -> float:
    """Of one element; parts that the expression shares count once, and those with fewer elements in proportion."""
    assert isinstance(tile.type, TileType)
    whole = tile.type.rows * tile.type.columns
    seen: set[tree.Expression] = set()
    stack: list[tree.Expression] = [tile]
    total = 0.0
    while stack:
        node = stack.pop()
        if node in seen or not isinstance(node.type, TileType):
            continue
        seen.add(node)
        total += _of_node(node, device) * node.type.rows * node.type.columns / whole
        stack.extend(children(node))
    return total


def _of_node(node: tree.Expression, device: Device) -> float:
    match node:
        case tree.ReadBuffer():
            return _READ
        case tree.ReadTensor():
            return _READ_GLOBAL
        case tree.Call(function) | tree.Binary(function) if function in _FUNCTIONS:
            special, plain = _FUNCTIONS[function]
            return device.transcendental * special + _PLAIN * plain
        case tree.RowReduce(_, operand):
            assert isinstance(operand.type, TileType)
            return _PLAIN * operand.type.columns
        case tree.Constant() | tree.ReadVariable() | tree.ReadAccumulator() | tree.Splat() | tree.Position() | tree.Columns():
            return 0.0
        case _:
            return _PLAIN
