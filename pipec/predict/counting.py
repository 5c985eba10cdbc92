"""What one block of a kernel does for given sizes: bytes loaded, products, stores, and how often; counted on the typed tree.

Counting follows a block's roles statement by statement: loops count their bodies once, times their trips, with variables as they are
in the first trip. Bounds that only the GPU knows (elements of tensors, answers of the tile scheduler) make a loop or branch count as one
trip: such kernels are described roughly, and a figure made of it is worth as much.

Expressions are worked out with the numbers of one launch, of all blocks at once as arrays. The analysis of values (pipec.kir.values) says
what holds in every launch, in registers that wrap; nothing here decides whether a kernel is right.
"""

from collections.abc import Callable, Iterator, Mapping
from math import ceil, gcd, prod
from typing import Any, NamedTuple

import numpy as np

from pipec.arithmetic import MEANINGS
from pipec.interface import MULTIPROCESSORS
from pipec.predict.occupancy import BLOCK_BYTES, SHARED_BYTES, held, launch_registers, staging_bytes, tensor_columns, tile_bytes
from pipec.predict.tile_loops import operations_in, walks_over_tiles
from pipec.predict.work import Slots, instructions, slots, tiles_read
from pipec.predict.workload import ROW_BYTES, Epilogue, Load, Product, RoleWork, Workload
from pipec.record import replace
from pipec.sema import tree

Number = int | float
Values = int | float | np.ndarray[Any, Any]


def workload(kernel: tree.Kernel, sizes: Mapping[str, int], multiprocessors: int) -> Workload:
    """Of the first block, which has the most to do, when dimensions and scalars have these values."""
    nothing = _Count(kernel, sizes, multiprocessors, (1, 1, 1), 1)
    grid = [_whole(nothing.value(extent)) for extent in kernel.grid]
    threads = 32 * sum(role.warps for role in kernel.roles)
    shared = sum(
        tile_bytes(buffer.rows, buffer.columns, buffer.dtype.bits) * buffer.count
        for buffer in kernel.buffers
        if buffer.space == "shared"
    )
    shared += staging_bytes(kernel, SHARED_BYTES - BLOCK_BYTES - shared)
    launched = launch_registers(kernel, threads)
    registers = max((nothing.registers(role) for role in kernel.roles), default=0)
    columns = tensor_columns(kernel)
    together = multiprocessors * held(shared, threads, launched, registers, columns)
    counter = _Count(kernel, sizes, multiprocessors, (grid[0], grid[1], grid[2]), together)
    roles = tuple(counter.role(role) for role in kernel.roles)
    if not _even(roles) and prod(grid) > together:
        everywhere = _Count(kernel, sizes, multiprocessors, (grid[0], grid[1], grid[2]), together, spread=True)
        roles = tuple(_averaged(here, everywhere.role(role)) for here, role in zip(roles, kernel.roles, strict=True))
    pipelines = {load.pipeline for role in roles for load in role.loads}
    tensors = {load.tensor for role in roles for load in (*role.loads, *role.reads)}
    return Workload(
        prod(grid),
        kernel.cluster.size,
        threads,
        shared,
        launched,
        registers,
        columns,
        {pipeline.name: pipeline.stages for pipeline in kernel.pipelines if pipeline.name in pipelines},
        min((buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.owner is not None), default=2),
        {tensor.name: _tensor_bytes(tensor, sizes) for tensor in kernel.tensors if tensor.name in tensors},
        kernel.schedule is not None or walks_over_tiles(kernel),
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
    reads = tuple(replace(one, average=other.average) for one, other in zip(here.reads, everywhere.reads, strict=True))
    return RoleWork(here.name, here.warps, loads, products, epilogues, reads, here.slots)


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
        reads: list[Load] = []
        plain = special = 0.0
        for operation, times in self._walk(role.body, Times(1.0, 1.0)):
            reads += (self._read(node, times) for node in tiles_read(operation))
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
                    epilogues.append(Epilogue(rows * columns, tile_bytes(rows, columns, bits), *times))
                case tree.TmaStore():
                    tile = operation.source.buffer
                    epilogues.append(Epilogue(0, tile_bytes(tile.rows, tile.columns, tile.dtype.bits), *times))
                case _:
                    pass
        return RoleWork(
            role.name, role.warps, tuple(loads), tuple(products), tuple(epilogues), tuple(reads), Slots(plain, special)
        )

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

    def _read(self, node: tree.ReadTensor, times: Times) -> Load:
        tile, tensor = node.type, node.source.tensor
        extents = [self._sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in tensor.shape]
        starts = [self.value(coordinate) for coordinate in node.source.coordinates]
        known = [np.broadcast_to(start, self._together) for start in starts if start is not None]
        distinct = len(np.unique(np.stack(known), axis=1).T) / self._together if known else 1.0
        rows, columns = extents[-2] if len(extents) > 1 else 1, extents[-1]
        # Nothing is read outside the tensor.
        inside = min(1.0, rows / (ceil(rows / tile.rows) * tile.rows)) if rows else 1.0
        inside *= min(1.0, columns / (ceil(columns / tile.columns) * tile.columns)) if columns else 1.0
        return Load(tensor.name, "", tile.rows, tile_bytes(1, tile.columns, tensor.dtype.bits), *times, 1, inside, distinct, 0.0)

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
                    yield statement, times
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
