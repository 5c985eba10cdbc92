"""Bounded waits: an expired wait reports to the host which role waits for what, lets the others report as well, and traps.

A report is a record of `pipec.watchdog`. The kernel has one block that writes it, to which every wait jumps and from which none returns.
A warp that gets there stays for as long as a wait may take: by then all other blocked warps have reported, too.
"""

from collections.abc import Callable

from pipec.lower.context import SHARED_SYMBOL, Alarm, KernelContext, RoleContext
from pipec.lower.emit.llvm import Builder
from pipec.lower.emit.value import GLOBAL, SHARED, Value, integer
from pipec.lower.synchronisation import clusters
from pipec.sema import tree
from pipec.vocabulary import Side
from pipec.watchdog import CAPACITY, MARK, NO_BARRIER, RECORD_BYTES, WORDS

# The number of records written. A module variable: after the first record the context is lost, so it need not be reset.
COUNTER = "@$watchdog"
COUNTER_DEFINITION = f"{COUNTER} = internal addrspace(1) global i32 0, align 4"
_LOOKS = 8  # tests of the clock within the time limit, if try_wait respects its own
_LONGEST_PAUSE = 2**32 - 1  # nanoseconds, the largest limit of a try_wait
_LONGEST_NAP = 1_000_000  # nanoseconds, the maximum of nanosleep (PTX ISA 9.7.20.2)


def start(kernel: KernelContext) -> None:
    """Creates the variables for reports; no effect without a watchdog."""
    if kernel.plan.interface.watchdog is None:
        return
    builder = kernel.builder
    kernel.alarm = Alarm(
        label=builder.label("watchdog"),
        started=builder.variable("i64", "watchdog.started"),
        barrier=builder.variable("i32", "watchdog.barrier"),
        parity=builder.variable("i32", "watchdog.parity"),
        iteration=builder.variable("i32", "watchdog.iteration"),
        line=builder.variable("i32", "watchdog.line"),
        column=builder.variable("i32", "watchdog.column"),
    )


def count(role: RoleContext, pipeline: tree.Pipeline, side: Side) -> Value:
    """The number of earlier waits at this cursor; counts this one."""
    if role.kernel.alarm is None:
        return integer(0)
    slot = role.turns.get((pipeline, side))
    if slot is None:
        raise AssertionError(f"{role.prefix} has no cursor of {pipeline.name}")
    turn = slot.read()
    slot.write(role.builder.add(turn, 1))
    return turn


def start_counts(role: RoleContext) -> None:
    """Creates a counter for every cursor."""
    for pipeline, side in role.cursors if role.kernel.alarm is not None else ():
        slot = role.turns[pipeline, side] = role.builder.variable("i32", f"{role.prefix}.{pipeline.name}.{side}.turn")
        slot.write(integer(0))


def take_back(role: RoleContext, pipeline: tree.Pipeline, side: Side, turns: int) -> None:
    """Uncounts the last waits, which were not uses of stages."""
    if role.kernel.alarm is not None:
        slot = role.turns[pipeline, side]
        slot.write(role.builder.add(slot.read(), -turns))


def keep(role: RoleContext, handle: tree.Handle, turn: Value) -> None:
    """Keeps the count of a stage whose other sub-stages may be waited for later."""
    if role.kernel.alarm is not None:
        role.turns.setdefault(handle, role.builder.variable("i32", f"{role.prefix}.{handle.label}.turn")).write(turn)


def kept(role: RoleContext, handle: tree.Handle) -> Value:
    return integer(0) if role.kernel.alarm is None else role.turns[handle].read()


def wait(
    role: RoleContext, alarm: Alarm, pipeline: tree.Pipeline, pointer: Value, parity: Value, turn: Value, again: str, done: str
) -> None:
    """Replaces the loop on try_wait: the same first attempt, then attempts with a limit until the time is over."""
    builder = role.builder
    assert role.kernel.plan.interface.watchdog is not None
    limit = role.kernel.plan.interface.watchdog.nanoseconds
    blocked, late = builder.label(f"{again}.blocked"), builder.label(f"{again}.late")
    expired = builder.label(f"{again}.expired")
    begin = builder.label(f"{again}.begin")
    builder.place(again)
    # The clock is read only if the first attempt fails: a wait that has already completed costs nothing extra.
    builder.branch(clusters.try_wait(role, pipeline, pointer, parity), done, begin)
    builder.place(begin)
    started = builder.call("globaltimer")
    builder.jump(blocked)
    builder.place(blocked, head=True)
    pause = max(1, min(limit // _LOOKS, _LONGEST_PAUSE))
    ready = clusters.try_wait(role, pipeline, pointer, parity, integer(pause))
    builder.branch(ready, done, late)
    builder.place(late)
    passed = builder.binary("sub", builder.call("globaltimer"), started)
    builder.branch(builder.compare("uge", passed, integer(limit, "i64")), expired, blocked)
    builder.place(expired)
    _sound(role, alarm, started, builder.emit("i32", f"ptrtoint {pointer} to i32"), parity, turn)


def poll(role: RoleContext, alarm: Alarm, look: Callable[[], Value], wanted: Value, done: str) -> None:
    """Goes to `done` once `look` returns the wanted number, within the time limit of a wait."""
    builder = role.builder
    assert role.kernel.plan.interface.watchdog is not None
    # A poll has no barrier to suspend the warp, so lingering must sleep explicitly.
    alarm.polls = True
    limit = role.kernel.plan.interface.watchdog.nanoseconds
    again, late, expired = (builder.label(f"{role.prefix}.poll.{part}") for part in ("again", "late", "expired"))
    started = builder.call("globaltimer")
    builder.jump(again)
    builder.place(again, head=True)
    found = look()
    builder.branch(builder.compare("eq", found, wanted), done, late)
    builder.place(late)
    passed = builder.binary("sub", builder.call("globaltimer"), started)
    builder.branch(builder.compare("uge", passed, integer(limit, "i64")), expired, again)
    builder.place(expired)
    _sound(role, alarm, started, integer(NO_BARRIER), wanted, found)


def _sound(role: RoleContext, alarm: Alarm, started: Value, barrier: Value, parity: Value, iteration: Value) -> None:
    place = role.kernel.place
    assert place is not None
    alarm.used = True
    alarm.started.write(started)
    alarm.barrier.write(barrier)
    alarm.parity.write(parity)
    alarm.iteration.write(iteration)
    alarm.line.write(integer(place.shown_line))
    alarm.column.write(integer(place.shown_column))
    role.builder.jump(alarm.label)


def finish(kernel: KernelContext) -> None:
    """Emits the block that reports, after everything else."""
    alarm = kernel.alarm
    if alarm is None or not alarm.used:
        return
    builder = kernel.builder
    builder.place(alarm.label)
    mask, lane = builder.call("activemask"), builder.call("lane")
    # One record for the lanes that arrive together, by the lowest of them: one per lane would fill the table with a single wait.
    lowest = builder.binary("and", mask, builder.binary("sub", integer(0), mask))
    chosen = builder.compare("eq", lowest, builder.binary("shl", integer(1), lane))
    claim, store, written = (builder.label(f"watchdog.{part}") for part in ("claim", "store", "written"))
    builder.branch(chosen, claim, written)
    builder.place(claim)
    index = builder.call("count.global", Value(GLOBAL, COUNTER))
    builder.branch(builder.compare("ult", index, integer(CAPACITY)), store, written)
    builder.place(store)
    _store(kernel, alarm, index, mask)
    builder.jump(written)
    builder.place(written)
    _linger(kernel, alarm)


def _store(kernel: KernelContext, alarm: Alarm, index: Value, mask: Value) -> None:
    builder = kernel.builder
    base = Value(GLOBAL, f"%{kernel.plan.interface.parameters[-1].symbol}")
    address = builder.offset_pointer(base, builder.multiply(builder.cast("zext", index, "i64"), RECORD_BYTES))
    barrier = alarm.barrier.read()
    state = _state(kernel, barrier) if alarm.polls else _look(builder, barrier)
    start = Value("i32", f"ptrtoint ({SHARED} {SHARED_SYMBOL} to i32)")
    values = {
        **{f"block_{axis}": builder.call(f"block.{axis}") for axis in "xyz"},
        "warp": kernel.warp,
        "lanes": mask,
        "barrier": builder.binary("sub", barrier, start),
        "parity": alarm.parity.read(),
        "iteration": alarm.iteration.read(),
        "line": alarm.line.read(),
        "column": alarm.column.read(),
        "state": builder.cast("trunc", builder.bits("lshr", state, 32), "i32"),
    }
    for number, word in enumerate(WORDS):
        if word != "mark":
            builder.call("store.system", _word(builder, address, number), values[word])
    builder.call("fence.system")
    # Last, after a fence: the host reads while other warps still write, and accepts only records with their mark.
    builder.call("store.system", address, integer(MARK))
    builder.call("fence.system")


def _look(builder: Builder, barrier: Value) -> Value:
    return builder.call("mbarrier.look", builder.emit(SHARED, f"inttoptr {barrier} to {SHARED}"))


def _state(kernel: KernelContext, barrier: Value) -> Value:
    """The barrier's word; 0 for a wait without a barrier."""
    builder = kernel.builder
    word = builder.variable("i64", "watchdog.state")
    word.write(integer(0, "i64"))
    look, told = builder.label("watchdog.look"), builder.label("watchdog.told")
    builder.branch(builder.compare("ne", barrier, integer(NO_BARRIER)), look, told)
    builder.place(look)
    word.write(_look(builder, barrier))
    builder.jump(told)
    builder.place(told)
    return word.read()


def _word(builder: Builder, address: Value, number: int) -> Value:
    return builder.offset_pointer(address, integer(4 * number)) if number else address


def _linger(kernel: KernelContext, alarm: Alarm) -> None:
    """Lingers until waits that began when this one expired have expired as well; then traps, for the whole grid."""
    builder = kernel.builder
    assert kernel.plan.interface.watchdog is not None
    limit = kernel.plan.interface.watchdog.nanoseconds
    started = alarm.started.read()
    linger, over = builder.label("watchdog.linger"), builder.label("watchdog.over")
    builder.jump(linger)
    builder.place(linger, head=True)
    # Asleep, so that warps whose waits have not expired can use the multiprocessor.
    builder.call("nanosleep", integer(max(1, min(limit // _LOOKS, _LONGEST_NAP))))
    passed = builder.binary("sub", builder.call("globaltimer"), started)
    builder.branch(builder.compare("ugt", passed, integer(2 * limit, "i64")), over, linger)
    builder.place(over)
    builder.call("trap")
    builder.effect("unreachable")
