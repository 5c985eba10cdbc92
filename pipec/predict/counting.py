"""What one block of a kernel does for given sizes: bytes loaded, products, stores, and how often; counted on the typed tree.

Counting follows a block's roles statement by statement: loops count their bodies once, times their trips, with variables as they are
in the first trip, or several times where loops in them depend on the trip. Bounds that only the GPU knows (elements of tensors, answers
of the tile scheduler) make a loop or branch count as one trip: such kernels are described roughly, and a figure made of it is worth as
much.

Expressions are worked out with the numbers of one launch, of all blocks at once as arrays. The analysis of values (pipec.kir.values) says
what holds in every launch, in registers that wrap; nothing here decides whether a kernel is right.
"""

from collections.abc import Iterator, Mapping
from math import ceil, gcd, prod
from typing import Any, NamedTuple

import numpy as np

from pipec.interface import MULTIPROCESSORS
from pipec.kir.walk import subexpressions
from pipec.predict.many_blocks import Values, applied, first
from pipec.predict.occupancy import held, launch_registers, shared_bytes, tensor_columns, tile_bytes
from pipec.predict.sharing import Places, Sharing
from pipec.predict.tile_loops import counts, goes_over_tiles, operations_in, statements_in, walks_over_tiles
from pipec.predict.work import Slots, instructions, slots, tiles_read
from pipec.predict.workload import ROW_BYTES, Epilogue, Load, Product, RoleWork, Workload
from pipec.record import replace
from pipec.sema import tree


def workload(kernel: tree.Kernel, sizes: Mapping[str, int], multiprocessors: int) -> Workload:
    """Of the block that has the most to do, the first one unless one at another end of the grid has more, when dimensions and scalars have
    these values."""
    nothing = _Count(kernel, sizes, multiprocessors, (1, 1, 1), np.arange(1))
    x, y, z = (_whole(nothing.value(extent)) for extent in kernel.grid)
    grid = x, y, z
    threads = 32 * sum(role.warps for role in kernel.roles)
    shared = shared_bytes(kernel)
    launched = launch_registers(kernel, threads)
    registers = max((nothing.registers(role) for role in kernel.roles), default=0)
    columns = tensor_columns(kernel)
    together = multiprocessors * held(shared, threads, launched, registers, columns)
    count = min(max(1, prod(grid)), together)
    stays = kernel.schedule is not None or walks_over_tiles(kernel)

    def counted(places: np.ndarray[Any, Any]) -> tuple[RoleWork, ...]:
        counter = _Count(kernel, sizes, multiprocessors, grid, places)
        return tuple(counter.role(role) for role in kernel.roles)

    lead, roles = 0, counted(np.arange(count))
    if not _even(roles):
        others = [] if stays or kernel.cluster.size > 1 else [x - 1, x * (y - 1), x * y * (z - 1)]
        lead = max((0, *others), key=lambda place: (_done(counted(np.array([place]))), -place) if place else (_done(roles), 0))
        if lead:
            roles = counted(np.array([lead, *range(1, count)]))
        if lead or prod(grid) > together:
            everywhere = np.arange(count) * max(1, prod(grid)) // count
            everywhere[0] = lead
            roles = tuple(map(_averaged, roles, counted(everywhere)))
    uses = _uses(roles)
    tensors = {load.tensor for role in roles for load in (*role.loads, *role.reads)}
    return Workload(
        prod(grid),
        kernel.cluster.size,
        threads,
        shared,
        launched,
        registers,
        columns,
        {pipeline.name: pipeline.stages for pipeline in kernel.pipelines if pipeline.name in uses},
        uses,
        min((buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.owner is not None), default=2),
        {tensor.name: _tensor_bytes(tensor, sizes) for tensor in kernel.tensors if tensor.name in tensors},
        stays,
        lead,
        roles,
        kernel.programmatic is not None,
    )


def _uses(roles: tuple[RoleWork, ...]) -> dict[str, float]:
    """How often the block that counts fills a stage of each ring: one acquire may be for the loads of several tensors, and several acquires
    for the tiles of several roles."""
    uses: dict[str, float] = {}
    for role in roles:
        fills: dict[tuple[str, int], float] = {}
        for load in role.loads:
            fills[load.pipeline, load.fill] = max(fills.get((load.pipeline, load.fill), 0.0), load.times)
        for ring in {ring for ring, _ in fills}:
            uses[ring] = max(uses.get(ring, 0.0), sum(times for (name, _), times in fills.items() if name == ring))
    return uses


def _even(roles: tuple[RoleWork, ...]) -> bool:
    """Whether all blocks do the same."""
    done = [one.times == one.average for role in roles for one in role.loads]
    return all(done) and all(one.times == one.average for role in roles for one in role.products)


def most_loads(
    kernel: tree.Kernel, sizes: Mapping[str, int], multiprocessors: int, grid: tuple[int, int, int], place: int
) -> float:
    """How often the block with this number loads or reads what it does most often."""
    counter = _Count(kernel, sizes, multiprocessors, grid, np.array([place]))
    return max((counter.most_loads(role) for role in kernel.roles), default=0.0)


def _done(roles: tuple[RoleWork, ...]) -> float:
    """By the block that counts."""
    return sum(one.times for role in roles for one in role.loads) + sum(one.times for role in roles for one in role.products)


def _averaged(here: RoleWork, everywhere: RoleWork) -> RoleWork:
    """What the block that counts does, with the averages of blocks from the whole grid."""
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
    return 1 if value is None else max(0, int(first(value)))


class Times(NamedTuple):
    """How often the block that counts does something, and how often each of those beside it does."""

    first: float
    each: Values

    def times(self, trips: Values) -> "Times":
        return Times(self.first * float(first(trips)), self.each * trips)

    def and_then(self, more: "Times") -> "Times":
        return Times(self.first + more.first, self.each + more.each)

    @property
    def average(self) -> float:
        return float(np.mean(self.each))


class _Count:
    """Goes through roles with what is known of variables, for the blocks of these numbers at once: a value is a number, or one for each of
    them. The first of them counts: it says how often loops run and which branches are taken."""

    def __init__(
        self,
        kernel: tree.Kernel,
        sizes: Mapping[str, int],
        multiprocessors: int,
        grid: tuple[int, int, int],
        places: np.ndarray[Any, Any],
    ) -> None:
        self._kernel, self._sizes = kernel, sizes
        self._specials: dict[str, Values] = {MULTIPROCESSORS: multiprocessors}
        self._together, place = len(places), places
        for axis, extent, blocks in zip("xyz", kernel.cluster.shape, grid, strict=True):
            here, place = place % max(1, blocks), place // max(1, blocks)
            self._specials |= {f"block.{axis}": here, f"grid.{axis}": blocks, f"cta.{axis}": here % extent}
            self._specials |= {f"cluster.{axis}": here // extent, f"clusters.{axis}": blocks // extent}
        x, y, z = (self._specials[f"cta.{axis}"] for axis in "xyz")
        self._specials["cta.rank"] = kernel.cluster.rank((x, y, z))  # type: ignore[arg-type]
        self._sharing = Sharing(self._together, kernel.cluster.size, self._specials)
        self._variables: dict[tree.Variable, Values | None] = {}
        self._at_last = False  # whether variables of loops are as they are in the last trip, but for those over tiles
        self._unlike = False  # whether the role has loops, not over tiles, that some blocks leave earlier than others
        self._fills: dict[Any, int] = {}  # of the role, the number of each acquire that loads

    def registers(self, role: tree.Role) -> int:
        """32-bit registers per thread of the accumulators that a role adds up."""
        found = {operation.accumulator for operation in operations_in(role.body) if isinstance(operation, tree.RegisterMma)}
        return sum(one.rows * one.columns // (32 * role.warps) for one in found)

    def role(self, role: tree.Role) -> RoleWork:
        loads: list[tuple[tree.Operation, Load]] = []
        products: list[tuple[tree.Operation, Product]] = []
        epilogues: list[tuple[tree.Operation, Epilogue]] = []
        reads: list[tuple[tree.Operation, Load]] = []
        done: dict[tree.Operation, Times] = {}
        places: dict[tree.TmaLoad | tree.CopyAsync, Places] = {}
        for operation, times in self._walked(role):
            if operation in done:  # again, in a later trip of a loop
                done[operation] = done[operation].and_then(times)
                continue
            done[operation] = times
            reads += ((operation, self._read(node)) for node in tiles_read(operation))
            match operation:
                case tree.TmaLoad() | tree.CopyAsync():
                    loads.append((operation, self._load(operation)))
                    places[operation] = self._places(operation)
                case tree.RegisterMma() | tree.Mma():
                    products.append((operation, _product(operation)))
                case tree.Store() | tree.TmaStore():
                    epilogues.append((operation, _epilogue(operation)))
                case _:
                    pass
        issued = Slots(0.0, 0.0)
        for operation, times in done.items():
            issued = issued.and_also(slots(operation, role.warps), times.first)
        counted = {operation: {"times": times.first, "average": times.average} for operation, times in done.items()}
        for operation, part in self._in_all_trips(role, places):
            counted[operation]["in_all"] = part
        return RoleWork(
            role.name,
            role.warps,
            tuple(replace(one, **counted[operation]) for operation, one in loads),
            tuple(replace(one, **counted[operation]) for operation, one in products),
            tuple(replace(one, **counted[operation]) for operation, one in epilogues),
            tuple(replace(one, **counted[operation]) for operation, one in reads),
            issued,
        )

    def _in_all_trips(
        self, role: tree.Role, begin: Mapping[tree.TmaLoad | tree.CopyAsync, Places]
    ) -> Iterator[tuple[tree.Operation, float]]:
        """`in_all` of the loads that `begin` at these places, where blocks do not keep in step: others see to it that it differs."""
        if not self._unlike:
            return
        self._at_last = True
        for operation, _ in self._walked(role):
            if isinstance(operation, tree.TmaLoad | tree.CopyAsync):
                tile = operation.destination.buffer
                extents = [*[1] * (len(operation.source.coordinates) - 2), tile.rows, tile.columns][-len(begin[operation]) :]
                part = self._sharing.in_all(begin[operation], self._places(operation), extents)
                if part is not None:
                    yield operation, part
        self._at_last = False

    def most_loads(self, role: tree.Role) -> float:
        done: dict[tree.Operation, float] = {}
        for operation, times in self._walked(role):
            if isinstance(operation, tree.TmaLoad | tree.CopyAsync) or tiles_read(operation):
                done[operation] = done.get(operation, 0.0) + times.first
        return max(done.values(), default=0.0)

    def _walked(self, role: tree.Role) -> Iterator[tuple[tree.Operation, Times]]:
        self._variables, self._fills, self._unlike = {}, {}, False
        self._assigned = {one.variable: one.value for one in operations_in(role.body) if isinstance(one, tree.Assign)}
        return self._walk(role.body, Times(1.0, np.ones(self._together)))

    def _load(self, operation: tree.TmaLoad | tree.CopyAsync) -> Load:
        tile, source = operation.destination.buffer, operation.source
        multicast = operation.multicast if isinstance(operation, tree.TmaLoad) else None
        shared = self._kernel.cluster.shape["xyz".index(multicast)] if multicast is not None else 1
        extents = [self._sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in source.tensor.shape]
        rows = extents[-2] if len(extents) > 1 else 1
        starts = self._places(operation)
        # CTAs of a cluster go on side by side behind the tensor's end.
        span = tile.rows * self._sharing.in_cluster(starts[-2] if len(starts) > 1 else None)
        inside = min(1.0, rows / (ceil(rows / span) * span)) if rows else 1.0
        distinct, requested = self._sharing.at_once(starts)
        stride = extents[-1] * tile.dtype.bits // 8 if len(extents) > 1 else 0
        crooked = 1 - gcd(stride, ROW_BYTES) / ROW_BYTES
        row_bytes = tile.columns * tile.dtype.bits // 8
        owner = tile.owner.name if tile.owner is not None else tile.name
        fill = self._fills.setdefault(operation.destination.handle, len(self._fills))
        if tile.dtype.is_scale:  # whole chunks, which lie in memory one after the other
            lines = tile_bytes(tile.rows, tile.columns, tile.dtype.bits) // ROW_BYTES
            return Load(source.tensor.name, owner, fill, lines, ROW_BYTES, 0.0, 0.0, shared, 1.0, distinct, requested, 0.0)
        fleeting = isinstance(operation, tree.TmaLoad) and operation.cache == "evict_first"
        return Load(
            source.tensor.name,
            owner,
            fill,
            tile.rows,
            row_bytes,
            0.0,
            0.0,
            shared,
            inside,
            distinct,
            requested,
            crooked,
            fleeting,
        )

    def _places(self, operation: tree.TmaLoad | tree.CopyAsync) -> Places:
        return [self.value(coordinate) for coordinate in operation.source.coordinates]

    def _read(self, node: tree.ReadTensor) -> Load:
        tile, tensor = node.type, node.source.tensor
        extents = [self._sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in tensor.shape]
        starts = [self.value(coordinate) for coordinate in node.source.coordinates]
        distinct, _ = self._sharing.at_once(starts)
        rows, columns = extents[-2] if len(extents) > 1 else 1, extents[-1]
        # Nothing is read outside the tensor.
        inside = min(1.0, rows / (ceil(rows / tile.rows) * tile.rows)) if rows else 1.0
        inside *= min(1.0, columns / (ceil(columns / tile.columns) * tile.columns)) if columns else 1.0
        return Load(
            tensor.name, "", 0, tile.rows, tile_bytes(1, tile.columns, tensor.dtype.bits), 0.0, 0.0, 1, inside, distinct, 1.0, 0.0
        )

    # ----------------------------------------------------------------------------------------------------- statements

    def _walk(self, body: tuple[tree.Statement, ...], times: Times) -> Iterator[tuple[tree.Operation, Times]]:
        for statement in body:
            match statement:
                case tree.For():
                    start, stop = self.value(statement.start), self.value(statement.stop)
                    trips = 1 if start is None or stop is None else np.maximum(0, np.ceil((stop - start) / statement.step))
                    most = int(np.max(trips))
                    some = self._some(statement, trips) if most > 1 else ()
                    if some and start is not None:
                        for number, share in some:
                            self._variables[statement.variable] = start + number * statement.step
                            yield from self._walk(statement.body, times.times(share))
                    elif most:
                        over_tiles = goes_over_tiles(statement)
                        self._unlike |= not over_tiles and isinstance(trips, np.ndarray) and bool(np.any(trips != most))
                        behind = (
                            0 if over_tiles or start is None or not self._at_last else np.maximum(trips - 1, 0) * statement.step
                        )
                        self._variables[statement.variable] = None if start is None else start + behind
                        yield from self._walk(statement.body, times.times(trips))
                    self._variables[statement.variable] = None
                case tree.While() | tree.Elect():
                    yield from self._walk(statement.body, times)
                case tree.If():
                    yield from self._branch(statement, times)
                case tree.Assign():
                    self._variables[statement.variable] = self.value(statement.value)
                    yield statement, times
                case _:
                    yield statement, times

    def _branch(self, statement: tree.If, times: Times) -> Iterator[tuple[tree.Operation, Times]]:
        """Where blocks come to their ends at different trips, each takes its own branch; otherwise all take that of the first one: CTAs of
        a cluster share the work that one of them does for all."""
        holds = self.value(statement.condition)
        if isinstance(holds, np.ndarray) and counts(statement) and self._of_trips(statement.condition):
            before = dict(self._variables)
            yield from self._walk(statement.then, times.times(holds))
            taken, self._variables = self._variables, before
            yield from self._walk(statement.otherwise, times.times(~holds))
            for variable in [one for one, value in taken.items() if value is not self._variables.get(one)]:
                self._variables[variable] = None
            return
        yield from self._walk(statement.then if holds is None or first(holds) else statement.otherwise, times)

    def _of_trips(self, condition: tree.Expression) -> bool:
        """Whether it depends on how far a loop has come, and not on which CTA of its cluster a block is."""
        nodes = [*subexpressions(condition, self._assigned)]
        in_cluster = any(isinstance(node, tree.Special) and node.name.startswith("cta.") for node in nodes)
        return not in_cluster and any(isinstance(node, tree.ReadVariable) for node in nodes)

    def _some(self, loop: tree.For, trips: Values) -> tuple[tuple[Values, Values], ...]:
        """Trips that are looked at, each with how many of its own it stands for in every block, if what the loop's body does depends on
        which trip it is. How long other loops run may be different in each; branches differ where tiles run out."""
        inner = [*statements_in(loop.body)]
        bounds = (bound for one in inner if isinstance(one, tree.For) for bound in (one.start, one.stop))
        conditions = (one.condition for one in inner if isinstance(one, tree.If) and counts(one))
        if self._mentions(bounds, loop.variable):
            return tuple(
                (np.maximum(0, np.minimum(number, trips - 1)), (trips > number) * share)
                for number, share in _spread(int(np.max(trips)))
            )
        if self._mentions(conditions, loop.variable):
            last = np.maximum(0, trips - 1)
            return (0, last), (last, np.minimum(1, trips))
        return ()

    def _mentions(self, expressions: Iterator[tree.Expression], variable: tree.Variable) -> bool:
        nodes = (node for one in expressions for node in subexpressions(one, self._assigned))
        return any(isinstance(node, tree.ReadVariable) and node.variable == variable for node in nodes)

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
                return applied("-", 0, self.value(expression.operand))
            case tree.Unary("not"):
                return applied("==", 0, self.value(expression.operand))
            case tree.Binary():
                return applied(expression.operator, self.value(expression.left), self.value(expression.right))
            case tree.Select():
                holds = self.value(expression.condition)
                return None if holds is None else self.value(expression.when_true if first(holds) else expression.when_false)
            case tree.Call() if expression.function in ("min", "max", "ceildiv") and len(expression.arguments) == 2:
                left, right = (self.value(argument) for argument in expression.arguments)
                return applied(expression.function, left, right)
            case _:
                return None


def _product(operation: tree.Mma | tree.RegisterMma) -> Product:
    late = isinstance(operation, tree.RegisterMma)
    result = operation.accumulator if isinstance(operation, tree.RegisterMma) else operation.accumulator.buffer
    b = operation.b.buffer
    depth = b.rows if operation.b.transposed else b.columns
    return Product(result.rows, result.columns, depth, depth * b.dtype.bits // 8, 0.0, 0.0, instructions(operation), late)


def _epilogue(operation: tree.Store | tree.TmaStore) -> Epilogue:
    if isinstance(operation, tree.Store):
        rows, columns = operation.placed.rows, operation.placed.columns
        return Epilogue(rows * columns, tile_bytes(rows, columns, operation.destination.tensor.dtype.bits), 0.0, 0.0)
    tile = operation.source.buffer
    return Epilogue(0, tile_bytes(tile.rows, tile.columns, tile.dtype.bits), 0.0, 0.0)


_LOOKED_AT = 8


def _spread(trips: int) -> tuple[tuple[int, float], ...]:
    """Of so many trips a few; the last one stands for itself, since fewer blocks may have it."""
    few = min(trips - 1, _LOOKED_AT)
    return (*(((2 * number + 1) * (trips - 1) // (2 * few), (trips - 1) / few) for number in range(few)), (trips - 1, 1.0))
