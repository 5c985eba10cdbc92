"""The resources of a whole plan, against the limits of a thread block (E07xx)."""

from pipec.diag.catalogue.tiles import resources as messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.targets import REGISTER_STEP, WARP
from pipec.kir.plan.memory import tensor_width
from pipec.kir.plan.scales import scale_columns
from pipec.kir.plan.types import Plan
from pipec.sema import tree

_LARGEST_ITEMS = 4
_FEWEST_REGISTERS = 24  # of a budget (hardware.md 7)


def check(plan: Plan, sink: Sink) -> None:
    _threads(plan, sink)
    _registers(plan, sink)
    _named_barriers(plan, sink)
    _shared_memory(plan, sink)
    _tensor_memory(plan, sink)


def _threads(plan: Plan, sink: Sink) -> None:
    if plan.threads <= plan.target.max_threads:
        return
    kernel = plan.kernel
    warps = ", ".join(f"`{row.role.name}` {row.role.warps}" for row in plan.roles)
    sink.report(
        messages.Threads(
            kernel=kernel.name,
            threads=plan.threads,
            most=plan.target.max_threads,
            list=f"warps of 32 threads: {warps}; {plan.threads // WARP} in all, with those that fill up groups of 4",
            at=kernel.span,
            roles=tuple(role.span for role in kernel.roles),
        )
    )


def _registers(plan: Plan, sink: Sink) -> None:
    total, parts = 0, []
    for group in plan.register_groups:
        registers = group.registers if group.registers is not None else plan.launch_registers or 0
        total += group.warps * WARP * registers
        parts.append(f"warps {group.first_warp} to {group.first_warp + group.warps - 1}: {registers} each")
    launch = plan.launch_registers or 0
    pool = launch * plan.threads
    consequence = "; the role that asks for the last ones waits for ever"
    # Without budgets there is no waiting: the driver rejects a block that needs more registers than the multiprocessor has.
    if not plan.register_groups and launch:
        consequence = " at most, or the block cannot be launched"
        total, pool = pool, plan.target.registers
        launch = pool // plan.threads
        parts.append(f"all {plan.threads // WARP} warps: {plan.launch_registers} each")
    if total <= pool:
        return
    kernel = plan.kernel
    sink.report(
        messages.RegisterTotal(
            kernel=kernel.name,
            total=total,
            most=pool,
            threads=plan.threads,
            launch=launch,
            consequence=consequence,
            list="; ".join(parts),
            hint=_less(plan, total - pool),
            at=kernel.span,
            roles=tuple(role.span for role in kernel.roles if role.registers is not None),
        )
    )


def _less(plan: Plan, over: int) -> str | None:
    """Budgets that would fit: fewer for the groups that have none, or else for those with the most."""
    groups = plan.register_groups
    if any(group.registers is None for group in groups):
        return (
            f"a role without a budget keeps the {plan.launch_registers} of the launch: give those that only copy `registers=24`, "
            "and the others what they need"
        )
    if not groups:
        return None
    most = max(group.registers or 0 for group in groups)
    threads = sum(group.warps * WARP for group in groups if group.registers == most)
    fitting = (most - -(-over // threads)) // REGISTER_STEP * REGISTER_STEP
    return f"write `registers={fitting}` where it is {most}" if fitting >= _FEWEST_REGISTERS else None


def _named_barriers(plan: Plan, sink: Sink) -> None:
    most = plan.target.max_named_barriers - 1  # barrier 0 is that of the whole block
    count = sum(row.named_barrier is not None for row in plan.roles)
    # A one-warp role synchronises without a named barrier, so most kernels use few.
    if count > most:
        sink.report(messages.NamedBarriers(kernel=plan.kernel.name, count=count, most=most, at=plan.kernel.span))


# -------------------------------------------------------------------------------------------------------- shared memory


def _shared_memory(plan: Plan, sink: Sink) -> None:
    limit = plan.target.shared_bytes
    if plan.shared_bytes <= limit:
        return
    # The largest ones: to get below the limit, one of them has to shrink.
    largest = sorted(plan.shared_items, key=lambda item: -item.bytes)
    shown = ", ".join(f"{item.name} {item.bytes}" for item in largest[:_LARGEST_ITEMS])
    pipeline = _largest_pipeline(plan)
    hint = None
    if pipeline is not None:
        fitting = _fitting_stages(plan, pipeline)
        hint = f"`{pipeline.name}` fits with `stages={fitting}`" if fitting else "use smaller tiles: not even one stage fits"
    sink.report(
        messages.SharedMemory(
            kernel=plan.kernel.name,
            bytes=plan.shared_bytes,
            most=limit,
            over=plan.shared_bytes - limit,
            share=f"{_pipeline_bytes(plan, pipeline)} bytes" if pipeline else None,
            list=f"the largest parts, in bytes: {shown}",
            hint=hint,
            at=plan.kernel.span,
            largest=pipeline.span if pipeline else None,
        )
    )


def _pipeline_bytes(plan: Plan, pipeline: tree.Pipeline) -> int:
    return sum(plan.buffer_strides[buffer] * buffer.count for buffer in plan.layouts if buffer.owner is pipeline)


def _largest_pipeline(plan: Plan) -> tree.Pipeline | None:
    found = max(plan.kernel.pipelines, key=lambda pipeline: _pipeline_bytes(plan, pipeline), default=None)
    return found if found is not None and _pipeline_bytes(plan, found) else None


def _fitting_stages(plan: Plan, pipeline: tree.Pipeline) -> int:
    """The largest number of stages that fits; 0 if none does. (Over the limit, staging is at its smallest already.)"""
    stage = sum(plan.buffer_strides[buffer] for buffer in plan.layouts if buffer.owner is pipeline)
    over = plan.shared_bytes - plan.target.shared_bytes
    return max(0, pipeline.stages - -(-over // stage))


# -------------------------------------------------------------------------------------------------------- tensor memory


def _tensor_memory(plan: Plan, sink: Sink) -> None:
    accumulators = [buffer for buffer in plan.kernel.buffers if buffer.space == "tensor" and buffer.alias is None]
    spans = {
        buffer: plan.column_stride[buffer] * (buffer.count - 1) + tensor_width(buffer, plan.packed) for buffer in accumulators
    }
    factors = scale_columns(plan.kernel, 0)[1]
    columns = sum(spans[buffer] for buffer in accumulators) + factors
    limit = plan.target.tensor_columns
    if columns <= limit:
        return
    largest = max(accumulators, key=lambda buffer: spans[buffer])
    own, stride = spans[largest], plan.column_stride[largest]
    each = own - stride * (largest.count - 1)
    # Stages are one stride apart, but the last one takes only its own width, which is added back before dividing.
    fitting = (limit - columns + own - each) // stride + 1
    others = ", ".join(f"{buffer.label} {spans[buffer]}" for buffer in accumulators if buffer is not largest)
    if factors:
        others = ", ".join(filter(None, (others, f"scale factors {factors}")))
    word = "stages" if largest.owner else "count"
    sink.report(
        messages.TensorMemory(
            kernel=plan.kernel.name,
            columns=columns,
            most=limit,
            own=own,
            count=counted(largest.count, "accumulator"),
            each=each,
            apart=f", {stride} from one to the next" if largest.count > 1 and stride != each else "",
            list=f"{'besides' if factors else 'the other accumulators'}: {others}" if others else None,
            hint=f"write `{word}={fitting}`" if 1 <= fitting < largest.count else "use accumulators with fewer columns",
            at=largest.span,
        )
    )
