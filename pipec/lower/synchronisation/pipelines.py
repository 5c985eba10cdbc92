"""Pipeline operations: waits, signals, and the stage and phase that each role tracks.

A role has one cursor (stage, phase) per pipeline and side. An acquire waits at the cursor, records its stage in the handle and advances
the cursor, so that handles acquired one after the other have different stages. The producer's phase starts at 1: a wait with the parity
of the phase preceding a fresh barrier's first one returns at once (hardware.md 1.1).
"""

from pipec.isa.targets import WARPGROUP_WARPS
from pipec.kir.clusters import LEADER
from pipec.kir.plan.memory import BARRIER_BYTES
from pipec.kir.plan.types import ZeroFill
from pipec.lower import bases, twins
from pipec.lower.context import RoleContext, counted_loop
from pipec.lower.emit.value import FALSE, Value, integer
from pipec.lower.emit.variables import Slot
from pipec.lower.scalars import scalar
from pipec.lower.synchronisation import clusters, global_order, mma_waits, watchdog
from pipec.lower.synchronisation.cursors import Cursor
from pipec.lower.table import lowers
from pipec.sema import tree
from pipec.sema.language.operation import SCHEDULER
from pipec.vocabulary import OTHER_SIDE, SIDES, Completion, Side

_ZERO_COLUMNS = 32  # columns that one tcgen05.st clears


def start_cursors(role: RoleContext) -> None:
    """Creates the cursors of the pipelines that the role uses."""
    builder = role.builder
    for side, pipelines in zip(SIDES, (role.plan.role.produces, role.plan.role.consumes), strict=True):
        for pipeline in pipelines:
            hint = f"{role.prefix}.{pipeline.name}.{side}"
            role.cursors[pipeline, side] = Cursor.start(builder, pipeline.stages, side, hint, biased=bases.hides(role))
    watchdog.start_counts(role)
    clusters.start(role)


def join_cursors(role: RoleContext) -> None:
    """At the start of a block: cursors that are always equal there share the registers of one."""
    for first, *others in role.plan.in_step:
        for other in others:
            role.cursors[other].follow(role.cursors[first])


def barrier(role: RoleContext, pipeline: tree.Pipeline, side: Side, stage: Value, sub_stage: int = 0) -> Value:
    """The barrier of a stage's sub-stage that `side` completes."""
    builder, offsets = role.builder, role.kernel.plan.barrier_offsets
    if pipeline.stages == 1:
        return twins.barrier(role, pipeline, side, sub_stage * BARRIER_BYTES)
    stride = pipeline.sub_stages(side) * BARRIER_BYTES
    if not bases.keeps_barriers(role):
        place = builder.multiply(stage, stride)
        return builder.offset_pointer(twins.barrier(role, pipeline, side, sub_stage * BARRIER_BYTES), place)
    place, ahead = builder.multiple(stage, stride)
    offset = offsets[pipeline, side] + sub_stage * BARRIER_BYTES
    # Copies and commits take no offset, so the base address is that of the barrier they complete, and a wait adds one.
    own = offsets[pipeline, "producer" if pipeline in role.plan.role.produces else "consumer"]
    pointer = builder.offset_pointer(bases.barriers(role, own, ahead), place)
    return pointer if offset == own else builder.offset_pointer(pointer, integer(offset - own))


def leaders_barrier(role: RoleContext, handle: tree.Handle) -> Value:
    """The corresponding barrier in the leader of this CTA's pair, for a TMA load of the pair."""
    builder, pipeline = role.builder, handle.pipeline
    if not bases.hides(role) or pipeline.stages == 1:
        return clusters.in_leader(role, barrier(role, pipeline, handle.side, role.stage(handle)))
    place, ahead = builder.multiple(role.stage(handle), pipeline.sub_stages(handle.side) * BARRIER_BYTES)
    own = bases.barriers(role, role.kernel.plan.barrier_offsets[pipeline, handle.side], ahead)
    with builder.early():
        first = clusters.in_leader(role, own)
    return builder.offset_pointer(first, place)


def wait(
    role: RoleContext, pipeline: tree.Pipeline, pointer: Value, parity: Value, turn: Value, ready: Value | None = None
) -> None:
    """Loops on try_wait, which returns after some microseconds whatever its hint says (hardware.md 1.2). Skipped if `ready`.

    `turn` is for the watchdog's report: the number of earlier waits.
    """
    builder = role.builder
    again, done = builder.label(f"{role.prefix}.wait.{pipeline.name}"), builder.label(f"{role.prefix}.ready.{pipeline.name}")
    if ready is None:
        builder.jump(again)
    else:
        # The peek has seen the phase complete; it stays so until the stage is signalled again.
        builder.branch(ready, done, again)
    if role.kernel.alarm is not None:
        watchdog.wait(role, role.kernel.alarm, pipeline, pointer, parity, turn, again, done)
    else:
        builder.place(again, head=True)
        builder.branch(clusters.try_wait(role, pipeline, pointer, parity), done, again)
    builder.place(done)


def _wait_at_cursor(
    role: RoleContext,
    pipeline: tree.Pipeline,
    side: Side,
    sub_stage: int = 0,
    ready: Value | None = None,
    *,
    apart: bool = False,
) -> tuple[Value, Value, Value]:
    """Waits for the other side at the cursor, advances the cursor, and returns the stage, the parity waited for and the turn. Lanes left
    `apart` reconverge at a later wait."""
    cursor = role.cursors[pipeline, side]
    stage, phase = cursor.read()
    turn = watchdog.count(role, pipeline, side)
    wait(role, pipeline, barrier(role, pipeline, OTHER_SIDE[side], stage, sub_stage), phase, turn, ready)
    if not apart:
        role.reconverge()
    cursor.step()
    return stage, phase, turn


@lowers(tree.Peek)
def peek(role: RoleContext, operation: tree.Peek) -> None:
    """One try_wait on the cursor's stage, without advancing the cursor."""
    token = operation.token
    stage, phase = role.cursors[token.pipeline, token.side].read()
    pointer = barrier(role, token.pipeline, OTHER_SIDE[token.side], stage)
    role.variables[operation.ready].write(clusters.try_wait(role, token.pipeline, pointer, phase))


@lowers(tree.Acquire)
def acquire(role: RoleContext, operation: tree.Acquire) -> None:
    builder = role.builder
    handle = operation.handle
    pipeline = handle.pipeline
    if not operation.first:
        _wait_again(role, operation)
        return
    ready = role.variables[operation.ready].read() if operation.ready is not None else None
    if handle.side == "producer" and ready is None:
        ready = clusters.others_ask(role, pipeline)
    announces = handle.side == "producer" and "tma" in _kinds(role, handle)
    # Nothing is signalled before the next wait has ended: until then no barrier can complete two phases that a lane has not seen.
    apart = role.plan.whole_warp and role.waits_next and not announces
    stage, parity, turn = _wait_at_cursor(role, pipeline, handle.side, operation.sub_stage, ready, apart=apart)
    if announces:
        global_order.hand_over_by_one(role)  # the bytes are announced below
    _meet(role, handle)
    if handle not in role.stages:
        role.stages[handle] = builder.variable("i32", f"{role.prefix}.{handle.label}.stage")
    role.cursors[pipeline, handle.side].keep(stage, role.stages[handle])
    if pipeline.sub_stages(OTHER_SIDE[handle.side]) > 1:
        role.parities[handle] = builder.variable("i32", f"{role.prefix}.{handle.label}.parity")
        # The barriers of all sub-stages of a stage are in the same phase, so one parity serves all later waits for it.
        role.parities[handle].write(parity)
        watchdog.keep(role, handle, turn)
    # The barrier orders tensor memory only together with this fence (hardware.md 3.8).
    if pipeline in role.plan.tensor_stages:
        builder.call("tcgen05.fence.after")
    # The accumulator may hold an earlier tile: the first MMA of this stage must overwrite it.
    for (written, accumulator), slot in role.written.items():
        if written is handle:
            slot.write(FALSE)
            if (target := role.targets.get((handle, accumulator))) is not None:
                target.write(accumulator_address(role, accumulator, stage))
    if announces:
        _expect_bytes(role, handle, stage)
    if handle.side == "consumer" and role.plan.uses_tensor:
        for buffer, fill in role.kernel.plan.zero_fills.items():
            if fill.pipeline is pipeline:
                _read_as_zero(role, handle, buffer, stage, fill)


def _wait_again(role: RoleContext, operation: tree.Acquire) -> None:
    """For another sub-stage of a held stage: the cursor has advanced, so the parity is that of the first wait."""
    handle = operation.handle
    pointer = barrier(role, handle.pipeline, OTHER_SIDE[handle.side], role.stage(handle), operation.sub_stage)
    wait(role, handle.pipeline, pointer, role.parities[handle].read(), watchdog.kept(role, handle))
    role.reconverge()
    _meet(role, handle)
    if handle.pipeline in role.plan.tensor_stages:
        role.builder.call("tcgen05.fence.after")


def _meet(role: RoleContext, handle: tree.Handle) -> None:
    """Ensures that all warps of the role have seen the wait end before one thread signals for all.

    After that signal the other side may complete the awaited barrier twice more: a warp that tests it only then finds the parity of a
    later phase, and waits for ever or for the wrong one. If threads or warps arrive themselves, none is left behind.
    """
    if role.whole and (handle.pipeline, handle.side) in role.plan.meets:
        role.synchronise()


def _kinds(role: RoleContext, handle: tree.Handle) -> tuple[Completion, ...]:
    return role.kernel.plan.signals[handle.pipeline, handle.side].how[role.plan.role.name]


def _expect_bytes(role: RoleContext, handle: tree.Handle, stage: Value) -> None:
    """The barrier of a pair is in the leader, which announces the bytes of both CTAs."""
    expected = role.kernel.plan.expected_bytes.get(handle, 0)
    for_pair = clusters.reach_of(role, handle.pipeline, "producer").to == LEADER
    told = clusters.leads(role) if for_pair else None
    # The barrier counts this arrival whether or not a path loads anything.
    name, operands = ("mbarrier.arrive.expect_tx", [integer(expected)]) if expected else ("mbarrier.arrive", [integer(1)])
    if role.plan.whole_warp and expected:
        # Separate from later actions of the elected lane: in a long section ptxas elects again, and recomputes the number.
        pointer = barrier(role, handle.pipeline, "producer", stage)
        alone = role.leader if told is None else role.builder.binary("and", role.leader, told)
        role.builder.call(f"{name}.if", pointer, *operands, alone)
        return
    with role.one_thread("expect"), role.only_if(told, "expect.leader"):
        role.builder.call(name, barrier(role, handle.pipeline, "producer", stage), *operands)


@lowers(tree.Signal)
def _explicit_signal(role: RoleContext, operation: tree.Signal) -> None:
    signal(role, operation)


def signal(role: RoleContext, operation: tree.Signal | tree.Release) -> None:
    """Every signal that this role owes the handle's own barrier for this stage, except the bytes, which complete by themselves."""
    if not role.plan.whole_warp:
        _signal(role, operation)
        return
    if _speaks_for_lanes(_kinds(role, operation.handle)):
        role.reconverge()
    with role.one_thread("signal"):
        _signal(role, operation)


def _signal(role: RoleContext, operation: tree.Signal | tree.Release) -> None:
    builder, handle = role.builder, operation.handle
    sub_stage = operation.sub_stage if isinstance(operation, tree.Signal) else 0
    pointer = barrier(role, handle.pipeline, handle.side, role.stage(handle), sub_stage)
    # A side may owe several signals for one stage (register MMAs and reads by threads): the barrier's count includes each.
    for kind in _kinds(role, handle):
        match kind:
            case "commit":
                with role.one_thread("commit"):
                    if handle.side == "producer":
                        _note_written(role, handle, pointer)
                    clusters.commit(role, handle, pointer)
            case "warps":
                global_order.hand_over_by_one(role)
                mma_waits.give_back(role, operation, pointer)
            case "read":
                global_order.hand_over_by_one(role)
                with role.one_thread("stored"):
                    # Waiting for the read suffices: the stage may be refilled while its bytes are on their way to global memory.
                    builder.call("bulk.wait_group.read", integer(0))
                    clusters.arrive(role, handle, pointer)
            case "copies":
                # Arrives once this thread's copies have landed, so nothing waits for them here. The barrier counts one arrival per thread
                # (noinc).
                builder.call("cp.async.mbarrier.arrive", pointer)
            case "threads" if handle.pipeline.kind == SCHEDULER:
                clusters.arrive(role, handle, pointer)  # the response has been read, and the read fenced
            case "threads":
                hand_over_fences(role, handle.pipeline)
                clusters.arrive(role, handle, pointer)
            case "met":
                hand_over_fences(role, handle.pipeline)
                role.synchronise()
                with role.one_thread("written"):
                    clusters.arrive(role, handle, pointer)
            case _:
                pass


def _speaks_for_lanes(kinds: tuple[Completion, ...]) -> bool:
    """Whether the signal means that the threads of the role are done, rather than copies or MMAs: then all lanes must be."""
    return not {"threads", "warps", "met"}.isdisjoint(kinds)


def hand_over_fences(role: RoleContext, pipeline: tree.Pipeline | None = None) -> None:
    """Orders this thread's accesses to stages of a pipeline (None: of any) before an arrival that covers them.

    Generic accesses to shared memory on this side conflict with the async proxy on the other (TMA, MMA): both directions require a fence
    (hardware.md 4). Reads of tensor memory are ordered by a fence of their own.
    """
    global_order.hand_over(role)
    if role.plan.proxied if pipeline is None else pipeline in role.plan.proxied:
        role.builder.call("fence.proxy.async.shared")
    if role.plan.tensor_stages if pipeline is None else pipeline in role.plan.tensor_stages:
        role.builder.call("tcgen05.fence.before")


@lowers(tree.Release)
def release(role: RoleContext, operation: tree.Release) -> None:
    """The cursor was advanced at the acquire; only the signal remains, unless it was given."""
    copies = "copies" in _kinds(role, operation.handle)  # they signal by themselves, like bytes
    if (operation.signals or copies) and operation.handle not in role.signalled:
        signal(role, operation)


@lowers(tree.Move)
def move(role: RoleContext, operation: tree.Move) -> None:
    """Both are kept as their cursor keeps a stage."""
    role.stages[operation.target].write(role.stages[operation.source].read())
    for (handle, buffer), unwritten in list(role.unwritten.items()):
        if handle is operation.source:
            _unwritten(role, operation.target, buffer).write(unwritten.read())


@lowers(tree.Drain)
def drain(role: RoleContext, operation: tree.Drain) -> None:
    """Waits for every stage, in the phase for which the next fills would wait. A stage that was never filled counts as released."""
    pipeline = operation.pipeline
    cursor = role.cursors[pipeline, "producer"]
    with counted_loop(role.kernel, pipeline.stages, f"{role.prefix}.drain"):
        stage, phase = cursor.read()
        turn = watchdog.count(role, pipeline, "producer")
        for sub_stage in range(pipeline.sub_stages("consumer")):
            wait(role, pipeline, barrier(role, pipeline, "consumer", stage, sub_stage), phase, turn)
        role.reconverge()
        cursor.step()
    # One full turn of the ring: the cursor is back at its stage, but nothing was filled, so its phase is the previous one.
    cursor.turn_back()
    watchdog.take_back(role, pipeline, "producer", pipeline.stages)


@lowers(tree.Skip)
def skip(role: RoleContext, operation: tree.Skip) -> None:
    """Advances the cursor, and marks its ring in the PTX, where stage and phase are just numbers."""
    pipeline = operation.pipeline
    cursor = role.cursors[pipeline, "consumer"]
    stage, phase = cursor.read()
    role.builder.call("mbarrier.not_awaited", barrier(role, pipeline, "producer", stage), phase)
    watchdog.count(role, pipeline, "consumer")
    cursor.step()


# ------------------------------------------------------------------------------------- accumulators that no MMA wrote


def _flag_pointer(role: RoleContext, buffer: tree.Buffer, fill: ZeroFill, stage: Value) -> Value:
    assert fill.flag_offset is not None
    base = role.kernel.shared_pointer(fill.flag_offset)
    return base if buffer.count == 1 else role.builder.offset_pointer(base, role.builder.multiply(stage, 4))


def _note_written(role: RoleContext, handle: tree.Handle, pointer: Value) -> None:
    """Writes the flags, with an arrival of their own: a commit's arrival would not publish a store of this thread."""
    builder = role.builder
    fills = role.kernel.plan.zero_fills
    noted = [buffer for buffer, fill in fills.items() if fill.pipeline is handle.pipeline and fill.flag_offset is not None]
    for buffer in noted:
        slot = role.written.get((handle, buffer))
        written = FALSE if slot is None else slot.read()
        flag = _flag_pointer(role, buffer, fills[buffer], role.stage(handle))
        clusters.tell(role, handle, flag, builder.cast("zext", written, "i32"))
    if noted:
        clusters.arrive(role, handle, pointer)


def _read_as_zero(role: RoleContext, handle: tree.Handle, buffer: tree.Buffer, stage: Value, fill: ZeroFill) -> None:
    """The reader clears, not the MMA role: it covers all lanes anyway (hardware.md 3.9), and it waits here. Of several roles that read the
    same stage none may write to it: each takes zeros in place of what it loads."""
    builder = role.builder
    if fill.condition is not None:
        unwritten = scalar(role, fill.condition)
    else:
        unwritten = builder.compare("eq", builder.load("i32", _flag_pointer(role, buffer, fill, stage), 4), integer(0))
    if sum(fill.pipeline in other.role.consumes for other in role.kernel.plan.roles) > 1:
        _unwritten(role, handle, buffer).write(unwritten)
    else:
        _clear(role, buffer, stage, unwritten)


def _unwritten(role: RoleContext, handle: tree.Handle, buffer: tree.Buffer) -> Slot:
    if (handle, buffer) not in role.unwritten:
        role.unwritten[handle, buffer] = role.builder.variable("i1", f"{role.prefix}.{handle.label}.unwritten")
    return role.unwritten[handle, buffer]


def _clear(role: RoleContext, buffer: tree.Buffer, stage: Value, unwritten: Value) -> None:
    """Each warp clears its lanes of the stage if no MMA wrote it, so that the common case costs one branch.

    If several warps share lanes, those of the first warpgroup clear them, and the others wait.
    """
    builder, shares_lanes = role.builder, shares_tensor_lanes(role)
    clear, done = builder.label(f"{role.prefix}.clear"), builder.label(f"{role.prefix}.cleared")
    builder.branch(unwritten, clear, done)
    builder.place(clear)
    # tcgen05.st comes in powers of two, and must not run into the next accumulator's columns.
    width = _ZERO_COLUMNS
    while buffer.width % width:
        width //= 2
    first = builder.compare("ult", role.role_warp, integer(WARPGROUP_WARPS)) if shares_lanes else None
    with role.only_if(first, "clear.first"):
        base = builder.binary("add", accumulator_address(role, buffer, stage), lane_quarter(role))
        with counted_loop(role.kernel, buffer.width // width, f"{role.prefix}.clear.columns") as index:
            address = builder.binary("add", base, builder.multiply(index, width))
            builder.call(f"tcgen05.st.32x32b.x{width}", builder.tensor_pointer(address), *[integer(0)] * width)
        builder.call("tcgen05.wait.st")
    if shares_lanes:
        meet_at_tensor_memory(role)
    builder.jump(done)
    builder.place(done)


def shares_tensor_lanes(role: RoleContext) -> bool:
    """Whether several warps of the role access the same lanes."""
    return role.plan.role.warps > WARPGROUP_WARPS


def meet_at_tensor_memory(role: RoleContext) -> None:
    """What the threads of the role have done in tensor memory comes before what they do there next."""
    role.builder.call("tcgen05.fence.before")
    role.synchronise()
    role.builder.call("tcgen05.fence.after")


def accumulator_address(role: RoleContext, buffer: tree.Buffer, stage: Value) -> Value:
    """The tensor-memory address of a stage's first column, in lane 0."""
    plan = role.kernel.plan
    if buffer.count == 1 and (bases.hides(role) or role.plan.single_thread):
        return bases.tensor(role, plan.columns[buffer])
    first = role.builder.add(twins.tensor_base(role, buffer), plan.columns[buffer])
    if buffer.count == 1:
        return first
    return role.builder.add(first, role.builder.multiply(stage, plan.column_stride[buffer]))


def tensor_address(role: RoleContext, reference: tree.BufferRef, column: Value) -> Value:
    """The address of an element's column in the lanes of this warp."""
    builder = role.builder
    if reference.buffer in role.kernel.plan.packed:
        column = builder.bits("udiv", column, 32 // reference.buffer.dtype.bits)
    address = builder.binary("add", accumulator_address(role, reference.buffer, role.stage(reference.handle)), column)
    return builder.binary("add", address, lane_quarter(role))


def lane_quarter(role: RoleContext) -> Value:
    """The lane field of this warp's quarter: warp w of a warpgroup can access only lanes 32w .. 32w + 31 (hardware.md 3.9)."""
    quarter = role.role_warp if role.plan.role.warps <= 4 else role.builder.bits("and", role.role_warp, 3)
    # A quarter has 32 lanes, and the lane field starts at bit 16: hardware.md 3.6.
    return role.builder.bits("shl", quarter, 21)


def shared_tile(role: RoleContext, reference: tree.BufferRef, *, by_threads: bool = False) -> Value:
    """The shared address (i32) of the referenced tile; `by_threads`: each thread adds the offset of its elements."""
    plan = role.kernel.plan
    buffer = reference.buffer
    place, ahead = integer(0), 0
    if buffer.count > 1:
        stage = role.stage(reference.handle, by_threads=by_threads)
        place, ahead = role.builder.multiple(stage, plan.buffer_strides[buffer])
    if bases.hides(role):
        return role.builder.add(place, bases.shared(role, plan.buffer_offsets[buffer], ahead))
    return role.builder.add(role.builder.add(place, twins.shared(role, buffer)), ahead)
