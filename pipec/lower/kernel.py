"""A whole kernel: prologue, one dispatch by warp, the roles, and teardown."""

from collections.abc import Sequence

from pipec.budgets import BudgetEnded, Meter
from pipec.interface import (
    DimensionParameter,
    Parameter,
    PointerParameter,
    ScalarParameter,
    StrideParameter,
    TensorMapParameter,
    WatchdogParameter,
)
from pipec.isa.dtypes import DTYPES
from pipec.kir.plan.types import Plan, RegisterGroup, RolePlan
from pipec.lower import bases, twins, walks
from pipec.lower.context import FULL_WARP, SHARED_SYMBOL, KernelContext, RoleContext
from pipec.lower.emit.debug import Metadata
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import GLOBAL, Value, integer
from pipec.lower.role import lower_role
from pipec.lower.scalars import counts_by_place, crowded
from pipec.lower.synchronisation import clusters, timestamps, watchdog
from pipec.source import Source
from pipec.vocabulary import SIDES

_TRIPLE = "nvptx64-nvidia-cuda"


def lower(plans: Sequence[Plan], source: Source) -> str:
    """One LLVM module, as text, with an entry for each plan."""
    metadata = Metadata(source)
    lines = [
        f'target triple = "{_TRIPLE}"',
        # Tiles start at multiples of 1,024 bytes, the period of every swizzle: hardware.md 2.3 and 5.2.
        f"{SHARED_SYMBOL} = external addrspace(3) global [0 x i8], align 1024",
    ]
    if any(plan.interface.watchdog for plan in plans):
        lines.append(watchdog.COUNTER_DEFINITION)
    meter, structures = Meter("machine code"), dict[str, str]()
    kernels = [line for plan in plans for line in _kernel(plan, metadata, meter, structures)]
    types = [f"{name} = type {members}" for name, members in structures.items()]
    return "\n".join([*lines, *types, *kernels, *metadata.text(), ""])


def _kernel(plan: Plan, metadata: Metadata, meter: Meter, structures: dict[str, str]) -> list[str]:
    builder = Builder(meter)
    function = metadata.function(plan.kernel.name, plan.kernel.span)
    builder.location = metadata.location(plan.kernel.span, function)
    thread = builder.call("thread.x")
    # Broadcast from lane 0, so that ptxas knows the number to be warp-uniform: the dispatch is then a uniform branch.
    warp = builder.call("shuffle.idx", FULL_WARP, builder.bits("lshr", thread, 5), integer(0), integer(31))
    kernel = KernelContext(plan, builder, metadata, function, thread, warp)
    kernel.walks, kernel.crowded = walks.find(plan.kernel), crowded(plan.kernel)
    kernel.counts_by_place = counts_by_place(plan.kernel)
    if any(row.whole_warp or row.mma_waits is not None for row in plan.roles):
        # After the dispatch the number itself is known.
        kernel.copied_warp = builder.call("copy", warp)
    watchdog.start(kernel)
    timestamps.start(kernel)
    _prologue(kernel)
    join = builder.label("join")
    loops = Meter("loops")
    for role in plan.kernel.roles:
        for loop in role.loops:
            loops.spend(at=loop.span)
    try:
        _dispatch(kernel, join)
    except BudgetEnded as ended:
        raise BudgetEnded(ended.budget, kernel.place) from None
    builder.place(join)
    kernel.at(plan.kernel.span)
    _teardown(kernel)
    watchdog.finish(kernel)
    parameters = ", ".join(_parameter(parameter) for parameter in plan.interface.parameters)
    # (An indirect branch is slower than a few comparisons, and the proof does not support it.)
    attributes = [f'"nvvm.reqntid"="{plan.threads}"', '"no-jump-tables"="true"']
    if plan.kernel.cluster.span is not None:
        attributes.append(f'"nvvm.cluster_dim"="{",".join(map(str, plan.kernel.cluster.shape))}"')
    if plan.launch_registers is not None:
        attributes.append(f'"nvvm.maxnreg"="{plan.launch_registers}"')
    head = f"define ptx_kernel void @{plan.kernel.name}({parameters}) {' '.join(attributes)} !dbg !{function} {{"
    structures |= builder.structures
    return [head, "entry:", builder.body(), "}"]


def _parameter(parameter: Parameter) -> str:
    match parameter:
        case TensorMapParameter(symbol):
            return f'ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %{symbol}'
        case PointerParameter(symbol) | WatchdogParameter(symbol):
            return f"{GLOBAL} %{symbol}"
        case StrideParameter(symbol):
            return f"i64 %{symbol}"
        case DimensionParameter(symbol):
            return f"i32 %{symbol}"
        case ScalarParameter(symbol, _, dtype):
            return f"{DTYPES[dtype].llvm} %{symbol}"


# --------------------------------------------------------------------------------------------------------------- prologue


def _prologue(kernel: KernelContext) -> None:
    builder, plan = kernel.builder, kernel.plan
    maps = any(isinstance(parameter, TensorMapParameter) for parameter in plan.interface.parameters)
    if not (maps or plan.kernel.pipelines or plan.allocated_columns or plan.crosses_ctas):
        return  # nothing is initialised that all threads have to see
    first, rest = builder.label("setup"), builder.label("setup.done")
    builder.branch(builder.compare("eq", kernel.thread, integer(0)), first, rest)
    builder.place(first)
    for parameter in plan.interface.parameters:
        if isinstance(parameter, TensorMapParameter):
            # A descriptor is fetched like data. Otherwise the first copy of each role would wait for it.
            builder.call("prefetch.tensormap", Value("ptr", f"%{parameter.symbol}"))
    for pipeline in plan.kernel.pipelines:
        kernel.at(pipeline.span)
        for side in SIDES:
            count = integer(plan.signals[pipeline, side].count)
            for number in range(pipeline.stages * pipeline.sub_stages(side)):
                builder.call("mbarrier.init", kernel.shared_pointer(plan.barrier_offsets[pipeline, side] + 8 * number), count)
    kernel.at(plan.kernel.span)
    # Copies access the barriers through the async proxy, and other CTAs may signal them: the fence makes the initialisation visible to
    # both.
    builder.call("fence.mbarrier_init")
    builder.jump(rest)
    builder.place(rest)
    # Thread 0 diverged from its warp, but the aligned instructions below require convergence.
    builder.call("barrier.warp", FULL_WARP)
    if plan.crosses_ctas:
        # Before the allocation: that of a pair requires the peer CTA, which may not have been launched yet.
        _meet_cluster(kernel)
    if plan.allocated_columns:
        _allocate(kernel)
        builder.call("barrier.cta", integer(0))
        bases.read_tensor_base_for_all(kernel)
    elif not plan.crosses_ctas:
        builder.call("barrier.cta", integer(0))


def _meet_cluster(kernel: KernelContext) -> None:
    """Only synchronises all threads of the cluster; what crosses CTAs is published otherwise: the initialised barriers by their own
    fence, and data by the arrivals that hand it over."""
    kernel.builder.call("barrier.cluster.arrive.relaxed")
    kernel.builder.call("barrier.cluster.wait")


def _leave_cluster(kernel: KernelContext) -> None:
    """Synchronises all threads of the cluster, after their signals to other CTAs have arrived: a relaxed arrival could overtake such a
    signal, which would then fault in a CTA that has exited."""
    kernel.builder.call("barrier.cluster.arrive.relaxed" if kernel.plan.all_arrived else "barrier.cluster.arrive")
    kernel.builder.call("barrier.cluster.wait")


def _allocate(kernel: KernelContext) -> None:
    builder, plan = kernel.builder, kernel.plan
    assert plan.tensor_address_offset is not None
    inside, after = builder.label("allocate"), builder.label("allocated")
    builder.branch(builder.compare("eq", kernel.warp, integer(plan.allocating_warp)), inside, after)
    builder.place(inside)
    builder.call(
        f"tcgen05.alloc.cg{plan.cta_group}", kernel.shared_pointer(plan.tensor_address_offset), integer(plan.allocated_columns)
    )
    # No further allocation follows: another CTA of the multiprocessor need not wait for this one to exit.
    builder.call(f"tcgen05.relinquish.cg{plan.cta_group}")
    # One warp allocates and others use the memory: this is a hand-over of tensor memory like any other (hardware.md 3.8). What follows the
    # barrier is in the roles that use it.
    builder.call("tcgen05.fence.before")
    builder.jump(after)
    builder.place(after)


# --------------------------------------------------------------------------------------------------------------- dispatch


def _dispatch(kernel: KernelContext, join: str) -> None:
    """Dispatches by warp number; with register budgets first by warpgroup, which sets its budget as a whole."""
    builder, plan = kernel.builder, kernel.plan
    sharing = {twin.row.role.name: name for name, others in plan.twins.items() for twin in others}
    own = [row for row in plan.roles if row.role.name not in sharing]
    entries = {row.role.name: builder.label(f"role.{row.role.name}") for row in own}
    entries |= {name: entries[first] for name, first in sharing.items()}
    if not plan.register_groups:
        _dispatch_roles(kernel, plan.roles, entries, join, 0)
    for index, group in enumerate(plan.register_groups):
        last = group.first_warp + group.warps
        inside, after = builder.label("registers"), builder.label("registers.other")
        if index + 1 < len(plan.register_groups):
            builder.branch(builder.compare("ult", kernel.warp, integer(last)), inside, after)
            builder.place(inside)
        _set_registers(kernel, group)
        # The budget is set before a warpgroup's warps branch to their roles: all of them must execute setmaxnreg with the same value
        # (hardware.md 7).
        roles = tuple(row for row in plan.roles if group.first_warp <= row.first_warp < last)
        _dispatch_roles(kernel, roles, entries, join, group.first_warp)
        if index + 1 < len(plan.register_groups):
            builder.place(after)
    for row in own:
        builder.place(entries[row.role.name])
        _role(kernel, row, join)


def _set_registers(kernel: KernelContext, group: RegisterGroup) -> None:
    launch = kernel.plan.launch_registers
    if group.registers is None or launch is None or group.registers == launch:
        return
    # The instruction specifies the direction, since only an increase waits for registers that others release (hardware.md 7).
    direction = "inc" if group.registers > launch else "dec"
    kernel.builder.call(f"setmaxnreg.{direction}", integer(group.registers))


def _dispatch_roles(
    kernel: KernelContext, roles: Sequence[RolePlan], entries: dict[str, str], join: str, first_warp: int
) -> None:
    """A chain of comparisons in warp order; warps between or after the roles go to the join."""
    builder = kernel.builder
    warp = first_warp
    last_warp = kernel.plan.threads // 32
    for row in roles:
        for bound, target in ((row.first_warp, join), (row.first_warp + row.role.warps, entries[row.role.name])):
            if bound == warp:
                continue
            if bound == last_warp:
                builder.jump(target)
                return
            other = builder.label("dispatch")
            builder.branch(builder.compare("ult", kernel.warp, integer(bound)), target, other)
            builder.place(other)
            warp = bound
    builder.jump(join)


def _role(kernel: KernelContext, row: RolePlan, join: str) -> None:
    builder = kernel.builder
    kernel.at(row.role.span)
    end = builder.label(f"{row.role.name}.end")
    role = RoleContext(kernel, row, twins=kernel.plan.twins.get(row.role.name, ()))
    alone = row.single_thread and not row.whole_warp
    if row.role.leader and not alone:
        _only_in_leader(role, end)
    # Elected before the role runs: `elect` needs all lanes, and must choose the same one throughout.
    elected = builder.extract(builder.call("elect", FULL_WARP), 1, "i1")
    if row.whole_warp:
        role.leader = elected
    elif alone:
        body = builder.label(f"{row.role.name}.elected")
        # A role with only one-thread operations is run by a single thread: the others would only wait at every barrier.
        builder.branch(elected, body, end)
        builder.place(body)
        # In this order: ptxas knows that one thread runs what follows an election, and keeps addresses in uniform registers. If a branch
        # on the rank comes first, it does not (attention in pairs: 305 instructions instead of 170).
        if row.role.leader:
            _only_in_leader(role, end)
    else:
        role.lane = builder.call("lane")
        _number_threads(role)
        first = builder.compare("eq", role.role_warp, integer(0))
        role.leader = elected if row.role.warps == 1 else builder.binary("and", elected, first)
    builder.begin_prelude()
    twins.keep_numbers(role)
    lower_role(role, end)
    builder.end_prelude()
    # The lanes that did not run the role wait here: the barriers of the teardown require whole warps.
    builder.place(end)
    builder.call("barrier.warp", FULL_WARP)
    builder.jump(join)


def _number_threads(role: RoleContext) -> None:
    """The threads and warps of a role, and its named barrier; for roles that share code, those of the running one."""
    builder, kernel, rows = role.builder, role.kernel, [role.plan, *(twin.row for twin in role.twins)]
    if not role.twins:
        role.role_thread = builder.add(kernel.thread, -role.plan.first_warp * 32)
        role.role_warp = builder.add(kernel.warp, -role.plan.first_warp)
    else:
        role.role_thread = builder.binary("sub", kernel.thread, twins.number(role, *(row.first_warp * 32 for row in rows)))
        role.role_warp = builder.binary("sub", kernel.warp, twins.number(role, *(row.first_warp for row in rows)))
    if role.plan.named_barrier is not None:
        role.named_barrier = twins.number(role, *(row.named_barrier or 0 for row in rows))


def _only_in_leader(role: RoleContext, end: str) -> None:
    builder = role.builder
    here = builder.label(f"{role.prefix}.leader")
    builder.branch(clusters.leads(role), here, end)
    builder.place(here)


def _teardown(kernel: KernelContext) -> None:
    """Tensor memory must be freed after its last use and before the CTA exits, and no CTA may exit while another of the cluster may
    still access its memory. If neither applies, roles exit independently."""
    builder, plan = kernel.builder, kernel.plan
    if plan.allocated_columns:
        builder.call("tcgen05.fence.before")
    if plan.crosses_ctas:
        _leave_cluster(kernel)
    elif plan.allocated_columns:
        builder.call("barrier.cta", integer(0))
    if plan.allocated_columns:
        assert plan.tensor_address_offset is not None
        inside, after = builder.label("deallocate"), builder.label("done")
        builder.branch(builder.compare("eq", kernel.warp, integer(plan.allocating_warp)), inside, after)
        builder.place(inside)
        builder.call("tcgen05.fence.after")
        base = kernel.tensor_base or builder.load("i32", kernel.shared_pointer(plan.tensor_address_offset), 4)
        allocated = builder.tensor_pointer(base), integer(plan.allocated_columns)
        builder.call(f"tcgen05.dealloc.cg{plan.cta_group}", *allocated)
        builder.jump(after)
        builder.place(after)
    builder.returns()
