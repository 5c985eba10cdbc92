"""Everything the compiler derives from a kernel: warp numbers, barrier counts, bytes, memory layout, tensor maps.

`plan(kernel, target)` is pure and never fails: a plan that exceeds a limit is still a plan, and `pipec.checks.memory.resources` reports
it. The lowering follows the plan and derives nothing itself.
"""

from collections.abc import Mapping

from pipec.isa.targets import Target
from pipec.kir.clusters import kernel_sharing
from pipec.kir.global_memory.accesses import collect, written_tensors
from pipec.kir.ir import Kernel
from pipec.kir.plan.exit import Exit, plan_exit
from pipec.kir.plan.global_memory import plan_global
from pipec.kir.plan.grids import plan_grids
from pipec.kir.plan.in_step import plan_in_step
from pipec.kir.plan.interface import plan_interface, plan_parameters
from pipec.kir.plan.invariants import plan_invariants
from pipec.kir.plan.memory import packed_buffers, plan_shared, plan_tensor, tile_layouts
from pipec.kir.plan.proxies import plan_proxies, plan_tensor_only, plan_tensor_stages
from pipec.kir.plan.roles import plan_registers, plan_rewrites, plan_roles, plan_row_maps, stays_together
from pipec.kir.plan.signals import expected_bytes, plan_meetings, plan_signals
from pipec.kir.plan.twins import plan_twins
from pipec.kir.plan.types import (
    GlobalOrder,
    Plan,
    RegisterGroup,
    RolePlan,
    RowMap,
    SharedItem,
    SideSignals,
    Staging,
    TileLayout,
    TmaPlan,
    ZeroFill,
)
from pipec.kir.plan.zero import plan_zero
from pipec.record import replace
from pipec.sema import tree
from pipec.vocabulary import Side


def plan(kernel: Kernel, target: Target) -> Plan:
    roles, threads = plan_roles(kernel)
    groups, launch_registers = plan_registers(roles, threads, target)
    layouts = tile_layouts(kernel)
    row_maps = plan_row_maps(roles)
    packed = packed_buffers(kernel)
    columns, column_stride, scale_columns, allocated = plan_tensor(kernel, packed)
    unwritten = plan_zero(kernel)
    shared_by = kernel_sharing(kernel)
    expected = expected_bytes(kernel, shared_by)
    signals = plan_signals(kernel, roles, expected, unwritten, shared_by)
    noting = (pipeline for pipeline, condition in unwritten.values() if condition is None)
    leaving = plan_exit(kernel, signals, shared_by, noting)
    accesses = collect(kernel)
    orders = plan_global(kernel, accesses)
    roles = _with_order(kernel, roles, signals, leaving, orders, row_maps)
    shared = plan_shared(kernel, target, roles, layouts, row_maps, unwritten, allocated)
    parameters, symbols, tma, stored = plan_parameters(kernel, layouts, shared.staging)
    interface = plan_interface(kernel, roles, threads, signals, shared, allocated, parameters, accesses)
    issuers = [row for row in roles if row.uses_tensor and row.single_thread]
    planned = Plan(
        kernel=kernel,
        target=target,
        roles=roles,
        threads=threads,
        register_groups=groups,
        launch_registers=launch_registers,
        sharing=shared_by,
        all_arrived=leaving.all_arrived,
        tensor_only=plan_tensor_only(kernel, orders),
        cta_group=max((pipeline.cta_group for pipeline in kernel.pipelines), default=1),
        left_filled=leaving.left_filled,
        signals=signals,
        expected_bytes=expected,
        layouts=layouts,
        buffer_offsets=shared.buffer_offsets,
        buffer_strides=shared.buffer_strides,
        barrier_offsets=shared.barrier_offsets,
        response_offset=shared.response_offset,
        staging=shared.staging,
        stored=stored,
        exchanges=shared.exchanges,
        reduced_offsets=shared.reduced_offsets,
        row_maps=row_maps,
        zero_fills=shared.zero_fills,
        shared_items=shared.items,
        shared_bytes=shared.bytes,
        columns=columns,
        column_stride=column_stride,
        scale_columns=scale_columns,
        packed=packed,
        allocated_columns=allocated,
        allocating_warp=issuers[0].first_warp if issuers else 0,
        tensor_address_offset=shared.tensor_address_offset,
        tma=tma,
        accesses=accesses,
        symbols=symbols,
        interface=interface,
        twins={},
    )
    return replace(planned, twins=plan_twins(planned))


def _with_order(
    kernel: Kernel,
    roles: tuple[RolePlan, ...],
    signals: Mapping[tuple[tree.Pipeline, Side], SideSignals],
    leaving: Exit,
    orders: Mapping[str, GlobalOrder],
    row_maps: Mapping[tree.Operation, RowMap],
) -> tuple[RolePlan, ...]:
    """The roles with what orders the work of their threads: barriers, fences, and waits at their end and for preceding grids."""
    meetings, written = plan_meetings(roles, signals), written_tensors(kernel)
    proxied, in_tensor = plan_proxies(kernel), plan_tensor_stages(kernel)
    found = (
        replace(
            row,
            drains=leaving.drains.get(row.role.name, ()),
            proxied=proxied[row.role.name],
            tensor_stages=in_tensor if row.uses_tensor else frozenset(),
            meets=meetings.get(row.role.name, frozenset()),
            rewrites=plan_rewrites(row.role, row_maps),
            global_order=orders.get(row.role.name, GlobalOrder()),
            invariants=plan_invariants(row.role),
            in_step=plan_in_step(row.role),
            whole_warp=row.single_thread
            and row.role.name not in orders
            # If consumers skip each other's stages, the proof has as many situations for the producer as with one thread.
            and not any(signals[pipeline, "consumer"].in_turn for pipeline in row.role.produces)
            and stays_together(row.role, written),
        )
        for row in roles
    )
    return plan_grids(kernel, tuple(found))


__all__ = [
    "Plan",
    "RegisterGroup",
    "RolePlan",
    "RowMap",
    "SharedItem",
    "SideSignals",
    "Staging",
    "TileLayout",
    "TmaPlan",
    "ZeroFill",
    "plan",
]
