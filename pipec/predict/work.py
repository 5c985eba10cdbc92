"""The cost of an operation for the engine or the threads that execute it."""

from collections.abc import Mapping
from functools import cache, lru_cache
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from pipec.arithmetic import MEANINGS
from pipec.isa.scaling import CHUNK_BYTES
from pipec.isa.targets import WARP
from pipec.kir.plan.scales import reads_packed
from pipec.kir.plan.types import TmaPlan
from pipec.kir.walk import children, evaluated_tile
from pipec.predict.device import Device
from pipec.predict.occupancy import tile_bytes
from pipec.predict.tile_loops import operations_in
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType

LINE = 128  # bytes of a box row that the TMA engine processes in one step, and the widest swizzle
_BYTE = 8
_STEP = 32  # bytes of K per MMA instruction
SCHEDULERS = 4  # of a multiprocessor, each issues one instruction per cycle


@record
class Transfer:
    """One TMA operation of a CTA: instructions, rows of up to 128 bytes that the engine processes, bytes transferred."""

    instructions: int
    rows: int
    bytes: int


@cache
def transfer(operation: tree.TmaLoad | tree.TmaStore, plan: TmaPlan) -> Transfer:
    tile = operation.destination.buffer if isinstance(operation, tree.TmaLoad) else operation.source.buffer
    boxes = plan.row_boxes * plan.layout.panels
    rows = boxes * plan.box_rows
    if tile.dtype.is_scale:  # chunks, each of which is a row of the box
        return Transfer(boxes, rows * (CHUNK_BYTES // LINE), rows * CHUNK_BYTES)
    return Transfer(boxes, rows, rows * tile.columns * tile.dtype.bits // 8 // plan.layout.panels)


@record
class Instructions:
    """`count` MMA instructions of `rows` times `columns` per CTA over 32 bytes of K each, by a `group` of CTAs; `near`: A is in
    registers or tensor memory; `scale_bytes` are copied in addition."""

    count: int
    rows: int
    columns: int
    group: int
    near: bool
    narrow: bool
    scale_bytes: int


@cache
def instructions(operation: tree.Mma | tree.RegisterMma) -> Instructions:
    b = operation.b
    depth = b.buffer.rows if b.transposed else b.buffer.columns
    bits = b.buffer.dtype.bits
    if isinstance(operation, tree.RegisterMma) or not reads_packed(operation):
        bits = max(bits, _BYTE)  # the tensor cores read one element per byte
    count = ceil(depth * bits / _BYTE / _STEP)
    if isinstance(operation, tree.RegisterMma):
        accumulator, near = operation.accumulator, isinstance(operation.a, tree.ReadVariable)
        return Instructions(count, accumulator.rows, accumulator.columns, 1, near, bits <= _BYTE, 0)
    tile = operation.accumulator.buffer
    group = tile.owner.cta_group if tile.owner is not None else 1
    copied = sum(scales.buffer.rows * scales.buffer.columns for scales in operation.scales)
    return Instructions(count, tile.rows, tile.columns, group, operation.a.buffer.space == "tensor", bits <= _BYTE, copied)


def product_cycles(of: Instructions, device: Device) -> tuple[float, float]:
    """Cycles in the tensor cores, and the latency to the first one."""
    interval = device.interval(of.rows, of.columns, of.group, of.near) * device.product - (device.narrow if of.narrow else 0.0)
    copied = of.scale_bytes / device.machine.operand_bytes
    return of.count * interval + copied, device.latency(of.rows, of.columns, of.group, of.near)


# Instructions per element of a tile, by operation; those of a store are part of the machine's epilogue cost.
_READ = 1.0  # from tensor or shared memory, several elements at a time
_READ_GLOBAL = 2.0
_PLAIN = 1.0
# Functions by their numbers of special-function and other instructions (pipec/lower/emit/functions.py).
_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    "exp": (1, 4),
    "exp2": (1, 3),
    "exp2_ftz": (1, 0),
    "log": (1, 4),
    "log2": (1, 3),
    "sqrt": (1, 8),
    "rsqrt": (1, 2),
    "rcp": (1, 6),
    "rcp_approx": (1, 0),
    "/": (1, 8),
    "sigmoid": (2, 3),
    "tanh": (2, 8),
    "floor": (1, 0),
    "ceil": (1, 0),
    "round": (1, 0),
    "sin": (0, 22),
    "cos": (0, 22),
    "erf": (2, 12),
    "gelu": (2, 14),
}


class Slots(NamedTuple):
    """Issue slots of a scheduler: other instructions, those for the special-function units, f32 arithmetic, of which some devices
    process two elements per instruction (pipec/lower/emit/packed.py), and f32 minimum and maximum."""

    plain: float
    special: float
    paired: float = 0.0
    compared: float = 0.0

    def cycles(self, device: Device) -> float:
        return self.plain + device.transcendental * self.special + device.pair * self.paired + device.compare * self.compared

    @property
    def any(self) -> bool:
        return any(self)

    def and_also(self, other: "Slots", times: float = 1.0) -> "Slots":
        return Slots(*[mine + its * times for mine, its in zip(self, other, strict=True)])


_NONE = Slots(0.0, 0.0)


@cache
def slots(operation: tree.Operation, warps: int) -> Slots:
    """Per scheduler, for the tile that the role's threads evaluate."""
    tile = evaluated_tile(operation)
    if tile is None or not isinstance(tile.type, TileType):
        return _NONE
    each = tile.type.rows * tile.type.columns / (WARP * min(warps, SCHEDULERS))
    return _NONE.and_also(_instructions(tile), each)


@cache
def tiles_read(operation: tree.Operation) -> tuple[tree.ReadTensor, ...]:
    """The role's loads from global memory for the tile that it evaluates."""
    tile = evaluated_tile(operation)
    return () if tile is None else tuple(node for node in _nodes(tile) if isinstance(node, tree.ReadTensor))


def read(kernel: tree.Kernel) -> frozenset[str]:
    """The tensors of which it reads tiles."""
    found: set[str] = set()
    for role in kernel.roles:
        for operation in operations_in(role.body):
            if isinstance(operation, tree.TmaLoad | tree.CopyAsync):
                found.add(operation.source.tensor.name)
            else:
                found.update(one.source.tensor.name for one in tiles_read(operation))
    return frozenset(found)


@cache
def remote_words(operation: tree.Operation) -> float:
    """Words of four bytes that the role's threads read from the shared memory of other CTAs; the first CTA of a cluster is looked at."""
    tile = evaluated_tile(operation)
    reads = [node for node in (() if tile is None else _nodes(tile)) if isinstance(node, tree.ReadBuffer)]
    others = [node for node in reads if node.source.cta is not None and not _is_first(node.source.cta)]
    return sum(tile_bytes(node.type.rows, node.type.columns, node.type.dtype.bits) for node in others) / 4


def _is_first(cta: tree.Expression) -> bool:
    return isinstance(cta, tree.Constant) and cta.value == 0


def thread_cycles(operation: tree.Operation, warps: int, device: Device) -> float:
    """Cycles that the role's threads take to evaluate a tile and store it to global memory, with the multiprocessor to themselves."""
    tile = evaluated_tile(operation)
    if tile is None or not isinstance(tile.type, TileType):
        return 0.0
    stored = 0.0
    if isinstance(operation, tree.Store):
        adds = operation.reduce is not None
        stored = store_cycles(tile.type.rows * tile.type.columns, parts_stored(operation), device, adds)
    return slots(operation, warps).cycles(device) + stored


def parts_stored(operation: tree.Store) -> int:
    """Panels as wide as a swizzle allows are stored in one go, and what is left of a row in another."""
    row_bytes = operation.placed.columns * operation.placed.dtype.bits // _BYTE
    return (row_bytes >= LINE) + (row_bytes % LINE > 0) if operation.path == "tma" else 1


def store_cycles(elements: float, parts: int, device: Device, adds: bool = False) -> float:
    return device.tile * parts + (device.added_element if adds else device.element) * elements


def _instructions(tile: tree.Expression) -> Slots:
    """Per element; shared subexpressions count once, and those with fewer elements in proportion."""
    assert isinstance(tile.type, TileType)
    whole = tile.type.rows * tile.type.columns
    total = _NONE
    nodes = _nodes(tile)
    needed = dict.fromkeys(nodes, 0.0) | {tile: 1.0}  # for which fraction of the elements
    for node in nodes:
        assert isinstance(node.type, TileType)
        total = total.and_also(_of_node(node), needed[node] * node.type.rows * node.type.columns / whole)
        for child, part in _parts(node):
            if child in needed:
                needed[child] = min(1.0, needed[child] + needed[node] * part)
    return total


@lru_cache(maxsize=256)  # all figures of an operation are asked for in a row
def _nodes(tile: tree.Expression) -> tuple[tree.Expression, ...]:
    """The tiles in an expression, each once, in preorder."""
    found: dict[tree.Expression, None] = {}
    stack = [(tile, False)]
    while stack:
        node, done = stack.pop()
        if done:
            found[node] = None
        elif node not in found and isinstance(node.type, TileType):
            stack.append((node, True))
            stack += ((child, False) for child in children(node))
    return tuple(reversed(found))


def _parts(node: tree.Expression) -> list[tuple[tree.Expression, float]]:
    """The operands of an expression, with the fraction of its elements for which each is computed: if the side of a select is known per
    column, the other is not computed."""
    if isinstance(node, tree.Select) and isinstance(node.type, TileType):
        holds = _by_column(node.condition, node.type.columns)
        if holds is not None:
            chosen = float(np.mean(holds))
            return [(node.when_true, chosen), (node.when_false, 1 - chosen)]
    return [(child, 1.0) for child in children(node)]


def _by_column(expression: tree.Expression, columns: int) -> Any:
    """The value in each column, if it depends only on the column."""
    match expression:
        case tree.Constant():
            return expression.value
        case tree.Position(1):
            return np.arange(columns)
        case tree.Splat(operand) | tree.Convert(operand):
            return _by_column(operand, columns)
        case tree.Binary(operator, left, right) if operator in _OF_COLUMNS:
            sides = _by_column(left, columns), _by_column(right, columns)
            return None if sides[0] is None or sides[1] is None else MEANINGS[operator](*sides)
        case _:
            return None


_OF_COLUMNS = ("+", "-", "*", "//", "%", "<", "<=", ">", ">=", "==", "!=")


def _of_node(node: tree.Expression) -> Slots:
    match node:
        case tree.ReadBuffer() | tree.ReadReducedColumns():
            return Slots(_READ, 0.0)
        case tree.ReadTensor():
            return Slots(_READ_GLOBAL, 0.0)
        case tree.Call(function) | tree.Binary(function) if function in _FUNCTIONS:
            special, plain = _FUNCTIONS[function]
            return Slots(_PLAIN * plain, special)
        case tree.RowReduce(reduction, operand):
            assert isinstance(operand.type, TileType)
            count = _PLAIN * operand.type.columns
            return Slots(0.0, 0.0, 0.0, count) if reduction != "sum" else _arithmetic(operand.type, count)
        case tree.Binary("+" | "-" | "*") | tree.Call("fma") if isinstance(node.type, TileType):
            return _arithmetic(node.type, _PLAIN)
        case (
            tree.Constant() | tree.ReadVariable() | tree.ReadAccumulator() | tree.Splat() | tree.Position() | tree.Columns()
            | tree.Scattered()
        ):  # fmt: skip
            return _NONE
        case _:
            return Slots(_PLAIN, 0.0)


def _arithmetic(of: TileType, count: float) -> Slots:
    return Slots(0.0, 0.0, count) if of.dtype.name == "f32" else Slots(count, 0.0)
