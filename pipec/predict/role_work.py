"""The work of a role for given sizes: its loads, products, stores and reads, and how often, for several blocks at once."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from math import ceil, gcd, prod
from typing import Any

import numpy as np

from pipec.kir.walk import evaluated_tile
from pipec.predict.occupancy import tile_bytes
from pipec.predict.sharing import Places, Sharing
from pipec.predict.tile_loops import operations_in
from pipec.predict.walk import Times, Walk
from pipec.predict.work import Slots, instructions, parts_stored, remote_words, slots, tiles_read
from pipec.predict.workload import ROW_BYTES, SECTOR_BYTES, Epilogue, Load, Product, RoleWork
from pipec.record import replace
from pipec.sema import tree


class Counter:
    """For the roles of a kernel, in the blocks at these `places` in a grid."""

    def __init__(
        self,
        kernel: tree.Kernel,
        sizes: Mapping[str, int],
        multiprocessors: int,
        grid: tuple[int, int, int],
        places: np.ndarray[Any, Any],
    ) -> None:
        self._walk = Walk(kernel, sizes, multiprocessors, grid, places)
        self._kernel, self._sizes, self.value = kernel, sizes, self._walk.value
        self._fills: dict[Any, int] = {}  # of the role, the number of each acquire that loads

    @cached_property
    def _sharing(self) -> Sharing:
        return Sharing(self._walk.together, self._kernel.cluster.size, self._walk.specials)

    def registers(self, role: tree.Role) -> int:
        """32-bit registers per thread for a role's accumulators."""
        found = {operation.accumulator for operation in operations_in(role.body) if isinstance(operation, tree.RegisterMma)}
        return sum(one.rows * one.columns // (32 * role.warps) for one in found)

    def role(self, role: tree.Role) -> RoleWork:
        self._fills = {}
        loads: list[tuple[tree.Operation, Load]] = []
        products: list[tuple[tree.Operation, Product]] = []
        epilogues: list[tuple[tree.Operation, Epilogue]] = []
        reads: list[tuple[tree.Operation, Load]] = []
        done: dict[tree.Operation, Times] = {}
        computing: list[tree.Operation] = []
        places: dict[tree.TmaLoad | tree.CopyAsync, Places] = {}
        for operation, times in self._walk.walked(role):
            if operation in done:  # again, in a later trip of a loop
                done[operation] = done[operation].and_then(times)
                continue
            done[operation] = times
            if evaluated_tile(operation) is not None:
                computing.append(operation)
                reads += ((operation, self._read(node)) for node in tiles_read(operation))
            match operation:
                case tree.TmaLoad() | tree.CopyAsync():
                    places[operation] = starts = self._places(operation)
                    loads.append((operation, self._load(operation, starts)))
                case tree.RegisterMma() | tree.Mma():
                    products.append((operation, _product(operation)))
                case tree.Store() | tree.TmaStore():
                    epilogues.append((operation, self._epilogue(operation)))
                case _:
                    pass
        issued, remote = Slots(0.0, 0.0), 0.0
        for operation in computing:
            issued = issued.and_also(slots(operation, role.warps), done[operation].first)
            remote += remote_words(operation) * done[operation].first
        listed = (operation for part in (loads, products, epilogues, reads) for operation, _ in part)
        counted = {operation: {"times": done[operation].first, "average": done[operation].average} for operation in listed}
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
            remote,
        )

    def _in_all_trips(
        self, role: tree.Role, begin: Mapping[tree.TmaLoad | tree.CopyAsync, Places]
    ) -> Iterator[tuple[tree.Operation, float]]:
        """`in_all` of the loads that start at these places, if blocks are not in lockstep; otherwise it is not needed."""
        if not self._walk.unlike:
            return
        self._walk.at_last = True
        for operation, _ in self._walk.walked(role):
            if isinstance(operation, tree.TmaLoad | tree.CopyAsync):
                tile = operation.destination.buffer
                extents = [*[1] * (len(operation.source.coordinates) - 2), tile.rows, tile.columns][-len(begin[operation]) :]
                part = self._sharing.in_all(begin[operation], self._places(operation), extents)
                if part is not None:
                    yield operation, part
        self._walk.at_last = False

    def most_loads(self, role: tree.Role) -> float:
        done: dict[tree.Operation, float] = {}
        for operation, times in self._walk.walked(role):
            if isinstance(operation, tree.TmaLoad | tree.CopyAsync) or tiles_read(operation):
                done[operation] = done.get(operation, 0.0) + times.first
        return max(done.values(), default=0.0)

    def _load(self, operation: tree.TmaLoad | tree.CopyAsync, starts: Places) -> Load:
        tile, rows_loaded, source = operation.destination.buffer, operation.destination.rows, operation.source
        multicast = operation.multicast if isinstance(operation, tree.TmaLoad) else None
        shared = self._kernel.cluster.shape["xyz".index(multicast)] if multicast is not None else 1
        extents = self._extents(source.tensor)
        rows = extents[-2] if len(extents) > 1 else 1
        # CTAs of a cluster continue side by side beyond the tensor's end.
        span = rows_loaded * self._sharing.in_cluster(starts[-2] if len(starts) > 1 else None)
        inside = _inside(rows, span)
        distinct, requested = self._sharing.at_once(starts)
        crooked, cut = _misplaced(extents, tile.dtype.bits)
        row_bytes = tile.columns * tile.dtype.bits // 8
        owner = tile.owner.name if tile.owner is not None else tile.name
        fill = self._fills.setdefault(operation.destination.handle, len(self._fills))
        if tile.dtype.is_scale:  # whole chunks, contiguous in memory
            lines = tile_bytes(tile.rows, tile.columns, tile.dtype.bits) // ROW_BYTES
            return Load(source.tensor.name, owner, fill, lines, ROW_BYTES, 0.0, 0.0, shared, 1.0, distinct, requested, 0.0, 0.0)
        fleeting = isinstance(operation, tree.TmaLoad) and operation.cache == "evict_first"
        return Load(
            source.tensor.name,
            owner,
            fill,
            rows_loaded,
            row_bytes,
            0.0,
            0.0,
            shared,
            inside,
            distinct,
            requested,
            crooked,
            cut,
            fleeting,
        )

    def _places(self, operation: tree.TmaLoad | tree.CopyAsync) -> Places:
        return [self.value(coordinate) for coordinate in operation.source.coordinates]

    def _read(self, node: tree.ReadTensor) -> Load:
        tile, tensor = node.type, node.source.tensor
        extents = self._extents(tensor)
        starts = [self.value(coordinate) for coordinate in node.source.coordinates]
        distinct, _ = self._sharing.at_once(starts)
        rows, columns = extents[-2] if len(extents) > 1 else 1, extents[-1]
        # Nothing is read outside the tensor.
        inside = _inside(rows, tile.rows) * _inside(columns, tile.columns)
        return Load(
            tensor.name,
            "",
            0,
            tile.rows,
            tile_bytes(1, tile.columns, tensor.dtype.bits),
            0.0,
            0.0,
            1,
            inside,
            distinct,
            1.0,
            0.0,
            0.0,
        )

    def _epilogue(self, operation: tree.Store | tree.TmaStore) -> Epilogue:
        tensor = operation.destination.tensor
        extents = self._extents(tensor)
        if isinstance(operation, tree.Store):
            height, width = operation.placed.rows, operation.placed.columns
            elements, parts = height * width, parts_stored(operation)
        else:
            height, width = operation.source.buffer.rows, operation.source.buffer.columns
            elements, parts = 0, 1
        inside = _inside(extents[-1], width) * (_inside(extents[-2], height) if len(extents) > 1 else 1.0)
        size, row = (tile_bytes(rows, width, tensor.dtype.bits) for rows in (height, 1))
        engine = height * ceil(row / ROW_BYTES) if isinstance(operation, tree.TmaStore) or operation.path == "tma" else 0
        adds = operation.reduce is not None
        whole, misplaced = prod(extents) * tensor.dtype.bits // 8, _misplaced(extents, tensor.dtype.bits, row)
        return Epilogue(whole, elements, parts, size, engine, inside, *misplaced, adds, 0.0, 0.0)

    def _extents(self, tensor: tree.TensorParameter) -> list[int]:
        return [self._sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in tensor.shape]


def _inside(extent: int, span: int) -> float:
    """The average fraction inside a tensor of tiles that cover this extent of it."""
    return min(1.0, extent / (ceil(extent / span) * span)) if extent else 1.0


def _misplaced(extents: Sequence[int], bits: int, row_bytes: int = ROW_BYTES) -> tuple[float, float]:
    """The fractions of the rows of tiles side by side that start within a cache line, and within a sector of one."""
    stride = gcd(extents[-1] * bits // 8 if len(extents) > 1 else 0, row_bytes)
    return 1 - gcd(stride, ROW_BYTES) / ROW_BYTES, 1 - gcd(stride, SECTOR_BYTES) / SECTOR_BYTES


def _product(operation: tree.Mma | tree.RegisterMma) -> Product:
    late = isinstance(operation, tree.RegisterMma)
    result = operation.accumulator if isinstance(operation, tree.RegisterMma) else operation.accumulator.buffer
    b = operation.b.buffer
    depth = b.rows if operation.b.transposed else b.columns
    return Product(result.rows, result.columns, depth, depth * b.dtype.bits // 8, 0.0, 0.0, instructions(operation), late)
