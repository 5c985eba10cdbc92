"""What one block of a kernel does for given sizes: bytes loaded, products, stores, and how often; counted on the typed tree.

Counting follows a block's roles statement by statement: loops count their bodies once, times their trips, with variables as they are
in the first trip. Bounds that only the GPU knows (elements of tensors, answers of the tile scheduler) make a loop or branch count as one
trip: such kernels are described roughly, and a figure made of it is worth as much.

Expressions are worked out with the numbers of one launch, of all blocks at once as arrays. The analysis of values (pipec.kir.values) says
what holds in every launch, in registers that wrap; nothing here decides whether a kernel is right.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import ceil, gcd, prod
from typing import Any, NamedTuple

import numpy as np

from pipec.arithmetic import MEANINGS
from pipec.interface import MULTIPROCESSORS
from pipec.kir.walk import subexpressions
from pipec.predict.work import Instructions, Slots, instructions, slots
from pipec.record import record, replace
from pipec.sema import tree

Number = int | float
Values = int | float | np.ndarray[Any, Any]
ROW_BYTES = 128  # of a box that one TMA row takes: the widest swizzle


@record
class Load:
    """Tiles of `rows` times `row_bytes` that come through a pipeline: `times` by the first block, `average` by one of those that run first.

    `shared`: CTAs of a cluster that one transfer serves. `inside`: the part of the tile's rows that lies in the tensor, on average.
    `distinct`: of the tiles that blocks running together load first, the part that are not the same.
    """

    tensor: str
    pipeline: str
    rows: int
    row_bytes: int
    times: float
    average: float
    shared: int
    inside: float
    distinct: float
    crooked: float  # the part of the rows that start within a line of the cache, so that a request for one touches two

    @property
    def boxes(self) -> int:
        return ceil(self.row_bytes / ROW_BYTES)

    @property
    def bytes(self) -> int:
        return self.rows * self.row_bytes


@record
class Product:
    """Matrix products of m x n over `k_bytes` of each operand's rows, by `instructions`; `late`: their stage is given back when the next
    ones run (wgmma)."""

    m: int
    n: int
    k: int
    k_bytes: int
    times: float
    average: float
    instructions: Instructions
    late: bool


@record
class Epilogue:
    """Tiles of `elements` that a role's threads store; `bytes` go to global memory."""

    elements: int
    bytes: int
    times: float
    average: float


@record
class RoleWork:
    name: str
    warps: int
    loads: tuple[Load, ...]
    products: tuple[Product, ...]
    epilogues: tuple[Epilogue, ...]
    slots: Slots  # of all tiles that the first block's threads evaluate


@record
class Workload:
    """`blocks` run altogether. `stages` of each pipeline with loads; `accumulators`: stages of the pipelines in tensor memory, the fewest
    of them. `tensors`: bytes of those that are loaded. `stays`: blocks walk over tiles, so that there are no more than fit."""

    blocks: int
    cluster: int  # blocks that start together, on multiprocessors of one group
    threads: int
    shared_bytes: int
    budgeted: bool  # roles have register budgets: the block takes all registers
    accumulator_registers: int  # per thread of the role that has most
    columns: int  # of tensor memory
    stages: Mapping[str, int]
    accumulators: int
    tensors: Mapping[str, int]
    stays: bool
    roles: tuple[RoleWork, ...]

    @property
    def held(self) -> int:
        return _held(self.shared_bytes, self.threads, self.budgeted, self.accumulator_registers, self.columns)

    @property
    def loads(self) -> Iterator[Load]:
        return (load for role in self.roles for load in role.loads)

    @property
    def flops(self) -> float:
        """16-bit operations of the whole launch; an 8-bit one counts half."""
        return self.blocks * sum(one.m * one.n * one.k_bytes * one.average for role in self.roles for one in role.products)

    @property
    def filled(self) -> float:
        """The part of what is multiplied that comes from inside the tensors: the rest is zeros."""
        return prod({load.tensor: load.inside for load in self.loads}.values())

    @property
    def evenness(self) -> float:
        """What an average block does of what the first one does."""
        products = [(one.times, one.average) for role in self.roles for one in role.products]
        done = products + [(one.times, one.average) for one in self.loads]
        first = sum(times for times, _ in done)
        return sum(average for _, average in done) / first if first else 1.0

    @property
    def tiles(self) -> float:
        """That the first block goes over."""
        return max((one.times for role in self.roles for one in role.epilogues), default=1.0)

    @property
    def last_wave(self) -> float:
        """Of blocks that stay: the part of them that has a tile when the last ones have theirs."""
        return 1.0 - (1.0 - self.evenness) * self.tiles

    @property
    def l2_bytes(self) -> float:
        """Loaded and stored by all blocks together."""
        loaded = sum(one.bytes * one.inside * one.average / one.shared for one in self.loads)
        stored = sum(one.bytes * one.average for role in self.roles for one in role.epilogues)
        return self.blocks * (loaded + stored)

    @property
    def operations(self) -> float:
        """Multiplications and additions of the whole launch, whatever their type."""
        return self.blocks * sum(2 * one.m * one.n * one.k * one.average for role in self.roles for one in role.products)


SHARED_BYTES = 227 * 1024  # of a multiprocessor, for its blocks together
BLOCK_BYTES = 1024  # of shared memory that the system keeps for each block
_SYSTEM_REGISTERS = 56  # that a thread needs beside its accumulators


def _held(shared_bytes: int, threads: int, budgeted: bool, accumulator_registers: int, columns: int) -> int:
    """Blocks that a multiprocessor holds at a time. All targets have as much of everything."""
    if budgeted:
        registers = 65_536 // threads
    else:
        registers = min(255, 8 * ceil((accumulator_registers + _SYSTEM_REGISTERS) / 8))
    by_registers = 65_536 // max(1, threads * registers)
    by_columns = 512 // columns if columns else 32
    return max(1, min(SHARED_BYTES // (shared_bytes + BLOCK_BYTES), by_registers, 2048 // threads, by_columns, 32))


def workload(kernel: tree.Kernel, sizes: Mapping[str, int], multiprocessors: int) -> Workload:
    """Of the first block, which has the most to do, when dimensions and scalars have these values."""
    nothing = _Count(kernel, sizes, multiprocessors, (1, 1, 1), 1)
    grid = [_whole(nothing.value(extent)) for extent in kernel.grid]
    threads = 32 * sum(role.warps for role in kernel.roles)
    shared = sum(
        _bytes(buffer.rows, buffer.columns, buffer.dtype.bits) * buffer.count
        for buffer in kernel.buffers
        if buffer.space == "shared"
    )
    shared += _staging_bytes(kernel, SHARED_BYTES - BLOCK_BYTES - shared)
    budgeted = any(role.registers is not None for role in kernel.roles)
    registers = max((nothing.registers(role) for role in kernel.roles), default=0)
    columns = _tensor_columns(kernel)
    together = multiprocessors * _held(shared, threads, budgeted, registers, columns)
    counter = _Count(kernel, sizes, multiprocessors, (grid[0], grid[1], grid[2]), together)
    roles = tuple(counter.role(role) for role in kernel.roles)
    if not _even(roles) and prod(grid) > together:
        everywhere = _Count(kernel, sizes, multiprocessors, (grid[0], grid[1], grid[2]), together, spread=True)
        roles = tuple(_averaged(here, everywhere.role(role)) for here, role in zip(roles, kernel.roles, strict=True))
    pipelines = {load.pipeline for role in roles for load in role.loads}
    tensors = {load.tensor for role in roles for load in role.loads}
    return Workload(
        prod(grid),
        kernel.cluster.size,
        threads,
        shared,
        budgeted,
        registers,
        columns,
        {pipeline.name: pipeline.stages for pipeline in kernel.pipelines if pipeline.name in pipelines},
        min((buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.owner is not None), default=2),
        {tensor.name: _tensor_bytes(tensor, sizes) for tensor in kernel.tensors if tensor.name in tensors},
        kernel.schedule is not None or _walks(kernel),
        roles,
    )


def _even(roles: tuple[RoleWork, ...]) -> bool:
    """Whether all blocks do the same."""
    done = [one.times == one.average for role in roles for one in role.loads]
    return all(done) and all(one.times == one.average for role in roles for one in role.products)


def _averaged(here: RoleWork, everywhere: RoleWork) -> RoleWork:
    """What the first block does, with the averages of blocks from the whole grid."""
    loads = tuple(replace(one, average=other.average) for one, other in zip(here.loads, everywhere.loads, strict=True))
    products = tuple(replace(one, average=other.average) for one, other in zip(here.products, everywhere.products, strict=True))
    epilogues = tuple(
        replace(one, average=other.average) for one, other in zip(here.epilogues, everywhere.epilogues, strict=True)
    )
    return RoleWork(here.name, here.warps, loads, products, epilogues, here.slots)


def _tensor_columns(kernel: tree.Kernel) -> int:
    """Of tensor memory, allocated by powers of two: 32-bit columns."""
    columns = sum(buffer.columns * buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.alias is None)
    return min(512, max(32, 1 << (columns - 1).bit_length())) if columns else 0


def _walks(kernel: tree.Kernel) -> bool:
    loops = (statement for role in kernel.roles for statement in role.body if isinstance(statement, tree.For))
    return any(map(goes_over_tiles, loops))


@cache
def goes_over_tiles(loop: tree.For) -> bool:
    """A block's loop over the tiles that are its own: from its number in steps of the number of blocks, or that many times."""
    if loop.step > 1 and isinstance(loop.start, tree.Special):
        return True
    return any(_shared_out(part) for part in subexpressions(loop.stop))


def _shared_out(expression: tree.Expression) -> bool:
    """A number of tiles over a number of blocks."""
    match expression:
        case tree.Call("ceildiv", (_, among)) | tree.Binary("//", _, among):
            return any(
                isinstance(part, tree.Special) and part.name.partition(".")[0] in ("grid", "clusters")
                for part in subexpressions(among)
            )
        case _:
            return False


def _bytes(rows: int, columns: int, bits: int) -> int:
    return rows * columns * bits // 8


_PANEL_BYTES = 128  # of a row: the widest swizzle
_FOUR_PANELS = (3, 4)  # of a tile that a role which adds up in registers stores at once, where there is room


def _staging_bytes(kernel: tree.Kernel, free: int) -> int:
    """Of shared memory, for tiles on their way to TMA stores: a panel for each role that stores so, two where they fit, or four (the plan,
    pipec.kir.plan.memory, has it exactly)."""
    strides, wide = [], []
    for role in kernel.roles:
        done = list(operations_in(role.body))
        stores = [one.placed for one in done if isinstance(one, tree.Store) and one.path == "tma"]
        if stores:
            strides.append(max(tile.rows * min(_PANEL_BYTES, _bytes(1, tile.columns, tile.dtype.bits)) for tile in stores))
            panels = max(_bytes(1, tile.columns, tile.dtype.bits) // _PANEL_BYTES for tile in stores)
            wide.append(panels in _FOUR_PANELS and any(isinstance(one, tree.RegisterMma) for one in done))
    if 2 * sum(strides) > free:
        return sum(strides)
    total = 2 * sum(strides)
    for stride, four in zip(strides, wide, strict=True):
        total += 2 * stride if four and total + 2 * stride <= free else 0
    return total


def _tensor_bytes(tensor: tree.TensorParameter, sizes: Mapping[str, int]) -> int:
    extents = (sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in tensor.shape)
    return prod(extents) * tensor.dtype.bits // 8


def _whole(value: Values | None) -> int:
    return 1 if value is None else max(0, int(_first(value)))


def _first(value: Values) -> Number:
    """Of the first block."""
    return value[0] if isinstance(value, np.ndarray) else value


class Times(NamedTuple):
    """How often the first block does something, and how often one of those that run first does on average."""

    first: float
    average: float


class _Count:
    """Goes through roles with what is known of variables, for the blocks that run together at once: a value is a number, or one for each of
    them. The first block says how often loops run and which branches are taken."""

    def __init__(
        self,
        kernel: tree.Kernel,
        sizes: Mapping[str, int],
        multiprocessors: int,
        grid: tuple[int, int, int],
        together: int,
        *,
        spread: bool = False,
    ) -> None:
        """Of the blocks that run first, or of as many from the whole grid."""
        self._kernel, self._sizes = kernel, sizes
        self._specials: dict[str, Values] = {MULTIPROCESSORS: multiprocessors}
        count = min(max(1, prod(grid)), together)
        place = np.arange(count) * max(1, prod(grid)) // count if spread else np.arange(count)
        self._together = len(place)
        for axis, extent, blocks in zip("xyz", kernel.cluster.shape, grid, strict=True):
            here, place = place % max(1, blocks), place // max(1, blocks)
            self._specials |= {f"block.{axis}": here, f"grid.{axis}": blocks, f"cta.{axis}": here % extent}
            self._specials |= {f"cluster.{axis}": here // extent, f"clusters.{axis}": blocks // extent}
        x, y, z = (self._specials[f"cta.{axis}"] for axis in "xyz")
        self._specials["cta.rank"] = kernel.cluster.rank((x, y, z))  # type: ignore[arg-type]
        self._variables: dict[tree.Variable, Values | None] = {}

    def registers(self, role: tree.Role) -> int:
        """32-bit registers per thread of the accumulators that a role adds up."""
        found = {operation.accumulator for operation in operations_in(role.body) if isinstance(operation, tree.RegisterMma)}
        return sum(one.rows * one.columns // (32 * role.warps) for one in found)

    def role(self, role: tree.Role) -> RoleWork:
        self._variables = {}
        loads: list[Load] = []
        products: list[Product] = []
        epilogues: list[Epilogue] = []
        plain = special = 0.0
        for operation, times in self._walk(role.body, Times(1.0, 1.0)):
            of = slots(operation, role.warps)
            plain, special = plain + of.plain * times.first, special + of.special * times.first
            match operation:
                case tree.TmaLoad() | tree.CopyAsync():
                    loads.append(self._load(operation, times))
                case tree.RegisterMma() | tree.Mma():
                    late = isinstance(operation, tree.RegisterMma)
                    result = operation.accumulator if isinstance(operation, tree.RegisterMma) else operation.accumulator.buffer
                    b = operation.b.buffer
                    depth = b.rows if operation.b.transposed else b.columns
                    k_bytes = depth * b.dtype.bits // 8
                    products.append(Product(result.rows, result.columns, depth, k_bytes, *times, instructions(operation), late))
                case tree.Store():
                    rows, columns = operation.placed.rows, operation.placed.columns
                    bits = operation.destination.tensor.dtype.bits
                    epilogues.append(Epilogue(rows * columns, _bytes(rows, columns, bits), *times))
                case tree.TmaStore():
                    tile = operation.source.buffer
                    epilogues.append(Epilogue(0, _bytes(tile.rows, tile.columns, tile.dtype.bits), *times))
                case _:
                    pass
        return RoleWork(role.name, role.warps, tuple(loads), tuple(products), tuple(epilogues), Slots(plain, special))

    def _load(self, operation: tree.TmaLoad | tree.CopyAsync, times: Times) -> Load:
        tile, source = operation.destination.buffer, operation.source
        multicast = operation.multicast if isinstance(operation, tree.TmaLoad) else None
        shared = self._kernel.cluster.shape["xyz".index(multicast)] if multicast is not None else 1
        extents = [self._sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in source.tensor.shape]
        rows = extents[-2] if len(extents) > 1 else 1
        starts = [self.value(coordinate) for coordinate in source.coordinates]
        # CTAs of a cluster go on side by side behind the tensor's end.
        span = tile.rows * self._in_cluster(starts[-2] if len(starts) > 1 else None)
        inside = min(1.0, rows / (ceil(rows / span) * span)) if rows else 1.0
        known = [np.broadcast_to(start, self._together) for start in starts if start is not None]
        distinct = len(np.unique(np.stack(known), axis=1).T) / self._together if known else 1.0
        stride = extents[-1] * tile.dtype.bits // 8 if len(extents) > 1 else 0
        crooked = 1 - gcd(stride, ROW_BYTES) / ROW_BYTES
        row_bytes = tile.columns * tile.dtype.bits // 8
        owner = tile.owner.name if tile.owner is not None else tile.name
        return Load(source.tensor.name, owner, tile.rows, row_bytes, *times, shared, inside, distinct, crooked)

    def _in_cluster(self, start: Values | None) -> int:
        """How many tiles lie side by side that the CTAs of one cluster load."""
        here = [self._specials[f"cluster.{axis}"] for axis in "xyz"]
        first = np.all([np.broadcast_to(one == _first(one), self._together) for one in here], axis=0)
        return 1 if start is None else len(np.unique(np.broadcast_to(start, self._together)[first]))

    # ----------------------------------------------------------------------------------------------------- statements

    def _walk(self, body: tuple[tree.Statement, ...], times: Times) -> Iterator[tuple[tree.Operation, Times]]:
        for statement in body:
            match statement:
                case tree.For():
                    start, stop = self.value(statement.start), self.value(statement.stop)
                    trips = 1 if start is None or stop is None else np.maximum(0, np.ceil((stop - start) / statement.step))
                    if np.any(trips):
                        self._variables[statement.variable] = start
                        inner = Times(times.first * float(_first(trips)), times.average * float(np.mean(trips)))
                        yield from self._walk(statement.body, inner)
                    self._variables[statement.variable] = None
                case tree.While() | tree.Elect():
                    yield from self._walk(statement.body, times)
                case tree.If():
                    holds = self.value(statement.condition)
                    taken = statement.then if holds is None or _first(holds) else statement.otherwise
                    yield from self._walk(taken, times)
                case tree.Assign():
                    self._variables[statement.variable] = self.value(statement.value)
                case _:
                    yield statement, times

    # ---------------------------------------------------------------------------------------------------- expressions

    def value(self, expression: tree.Expression) -> Values | None:
        """None for what only the GPU knows, and for what is no number."""
        match expression:
            case tree.Constant():
                return expression.value
            case tree.ReadDimension():
                return self._sizes.get(expression.name)
            case tree.ReadParameter():
                return self._sizes.get(expression.parameter.name)
            case tree.Special():
                return self._specials.get(expression.name)
            case tree.ReadVariable():
                return self._variables.get(expression.variable)
            case tree.Convert():
                return self.value(expression.operand)
            case tree.Unary("-"):
                return _applied("-", 0, self.value(expression.operand))
            case tree.Unary("not"):
                return _applied("==", 0, self.value(expression.operand))
            case tree.Binary():
                return _applied(expression.operator, self.value(expression.left), self.value(expression.right))
            case tree.Select():
                holds = self.value(expression.condition)
                return None if holds is None else self.value(expression.when_true if _first(holds) else expression.when_false)
            case tree.Call() if expression.function in ("min", "max", "ceildiv") and len(expression.arguments) == 2:
                left, right = (self.value(argument) for argument in expression.arguments)
                return _applied(expression.function, left, right)
            case _:
                return None


def operations_in(body: tuple[tree.Statement, ...]) -> Iterator[tree.Operation]:
    """All of them, whichever branches are taken."""
    for statement in body:
        match statement:
            case tree.For() | tree.While() | tree.Elect():
                yield from operations_in(statement.body)
            case tree.If():
                yield from operations_in(statement.then)
                yield from operations_in(statement.otherwise)
            case _:
                yield statement


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    **{name: MEANINGS[name] for name in ("+", "-", "*", "//", "%", "ceildiv", "<", "<=", ">", ">=", "==", "!=")},
    # Of many blocks at once; whether a branch is taken the first of them says.
    "min": lambda left, right: np.minimum(left, right) if _several(left, right) else min(left, right),
    "max": lambda left, right: np.maximum(left, right) if _several(left, right) else max(left, right),
    "and": lambda left, right: bool(_first(left) and _first(right)),
    "or": lambda left, right: bool(_first(left) or _first(right)),
}
_DIVISIONS = ("//", "%", "ceildiv")


def _several(left: Values, right: Values) -> bool:
    return isinstance(left, np.ndarray) or isinstance(right, np.ndarray)


def _applied(operator: str, left: Values | None, right: Values | None) -> Values | None:
    apply = _OPERATORS.get(operator)
    if apply is None or left is None or right is None or (operator in _DIVISIONS and not np.all(right)):
        return None
    found: Values = apply(left, right)
    return found
