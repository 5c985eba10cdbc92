"""The work of one block of a kernel for given sizes: bytes loaded, products, stores, and how often; counted on the typed tree."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from pipec.predict.many_blocks import Values, first
from pipec.predict.occupancy import launch_registers, registers_of, resident_blocks, shared_bytes, tensor_columns
from pipec.predict.role_work import Counter
from pipec.predict.tile_loops import walks_over_tiles
from pipec.predict.workload import RoleWork, Workload
from pipec.record import replace
from pipec.sema import tree


def workload(
    kernel: tree.Kernel, sizes: Mapping[str, int], multiprocessors: int, stages: Mapping[str, int] | None = None
) -> Workload:
    """For the block with the most work, the first one unless one at another end of the grid has more, with these values of dimensions
    and scalars; `stages` overrides the stage counts of the pipelines that it names."""
    count_of = {pipeline.name: pipeline.stages for pipeline in kernel.pipelines} | dict(stages or {})
    nothing = Counter(kernel, sizes, multiprocessors, (1, 1, 1), np.arange(1))
    x, y, z = (_whole(nothing.value(extent)) for extent in kernel.grid)
    grid = x, y, z
    threads = 32 * sum(role.warps for role in kernel.roles)
    shared = shared_bytes(kernel, stages)
    launched = launch_registers(kernel, threads)
    registers = max((nothing.registers(role) for role in kernel.roles), default=0)
    columns = tensor_columns(kernel)
    together = multiprocessors * resident_blocks(shared, threads, registers_of(launched, registers), columns)
    count = min(max(1, prod(grid)), together)
    stays = kernel.schedule is not None or walks_over_tiles(kernel)

    def counted(places: np.ndarray[Any, Any]) -> tuple[RoleWork, ...]:
        counter = Counter(kernel, sizes, multiprocessors, grid, places)
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
        {ring: count for ring, count in count_of.items() if ring in uses},
        uses,
        min((buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.owner is not None), default=2),
        {tensor.name: _tensor_bytes(tensor, sizes) for tensor in kernel.tensors if tensor.name in tensors},
        stays,
        lead,
        roles,
        kernel.programmatic is not None,
    )


def _uses(roles: tuple[RoleWork, ...]) -> dict[str, float]:
    """How often the reference block fills a stage of each ring: one acquire may cover the loads of several tensors, and several acquires
    the tiles of several roles."""
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
    """How often the block with this number executes its most frequent load."""
    counter = Counter(kernel, sizes, multiprocessors, grid, np.array([place]))
    return max((counter.most_loads(role) for role in kernel.roles), default=0.0)


def _done(roles: tuple[RoleWork, ...]) -> float:
    """By the reference block."""
    return sum(one.times for role in roles for one in role.loads) + sum(one.times for role in roles for one in role.products)


def _averaged(here: RoleWork, everywhere: RoleWork) -> RoleWork:
    """The work of the reference block, with averages over blocks from the whole grid."""
    loads = tuple(replace(one, average=other.average) for one, other in zip(here.loads, everywhere.loads, strict=True))
    products = tuple(replace(one, average=other.average) for one, other in zip(here.products, everywhere.products, strict=True))
    epilogues = tuple(
        replace(one, average=other.average) for one, other in zip(here.epilogues, everywhere.epilogues, strict=True)
    )
    reads = tuple(replace(one, average=other.average) for one, other in zip(here.reads, everywhere.reads, strict=True))
    return RoleWork(here.name, here.warps, loads, products, epilogues, reads, here.slots, here.remote)


def _tensor_bytes(tensor: tree.TensorParameter, sizes: Mapping[str, int]) -> int:
    extents = (sizes.get(extent, 1) if isinstance(extent, str) else extent for extent in tensor.shape)
    return prod(extents) * tensor.dtype.bits // 8


def _whole(value: Values | None) -> int:
    return 1 if value is None else max(0, int(first(value)))
