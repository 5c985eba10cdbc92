"""The time of a launch in closed form, in well under a millisecond: for choosing among many tiles without measurements.

Roles and rings are a timed event graph, and its steady pace is the maximum cycle mean. If one role loads and another multiplies there
are four kinds of cycle, which can be written down; `following/` follows all events instead, whatever the roles do, and tests/predict
checks that the two agree. Costs, conditions and the bounds around a block are the same (`device.py`, `conditions.py`, `bounds.py`):

    pace  = max(products, boxes walked, boxes issued, the threads' work, a stage's way round / stages)
    block = its paces + epilogues that no other product hides
    SM    = waves of blocks, or for persistent blocks their tiles, the last one beside fewer others
"""

from collections.abc import Callable, Mapping
from math import ceil

from pipec.isa.targets import WARPGROUP_WARPS
from pipec.predict.bounds import Wave, apart, bounds_of, in_turn, kept, largest, staying, together, unlike
from pipec.predict.conditions import Conditions, conditions, walk
from pipec.predict.device import Device
from pipec.predict.work import LINE, product_cycles, store_cycles
from pipec.predict.workload import Epilogue, RoleWork, Workload
from pipec.record import record


@record
class Estimate:
    """The predicted seconds, and those of each bound alone; `bound` names the dominant one."""

    seconds: float
    terms: Mapping[str, float]
    bound: str


def estimate(work: Workload, device: Device, clock: float | None = None) -> Estimate:
    """For a launch whose inputs are in memory; at the clock that it can sustain, unless one is given."""
    if work.blocks == 0:
        return _nothing(work, device)
    if clock is None:
        return _estimated(work, device, *_sustained(work, device, _waves(work, device)))
    return _estimated(work, device, clock, _waves(work, device.at(clock)))


def at_least(work: Workload, device: Device) -> tuple[float, Callable[[], Estimate]]:
    """The seconds that a launch takes at least, which are those at the nominal clock, and what estimates how many it takes: finding the
    clock that it can sustain takes twice as long."""
    if work.blocks == 0:
        return _nothing(work, device).seconds, lambda: _nothing(work, device)
    waves = _waves(work, device)
    nominal = _estimated(work, device, device.clock, waves)
    return nominal.seconds, lambda: _estimated(work, device, *_sustained(work, device, waves))


def _nothing(work: Workload, device: Device) -> Estimate:
    return Estimate(apart(work, device), {"launch": apart(work, device)}, "launch")


def _estimated(work: Workload, device: Device, clock: float, waves: list[Wave]) -> Estimate:
    terms = bounds_of(work, device, waves, clock)
    seconds = apart(work, device) + together(terms, waves, clock, device)
    return Estimate(seconds, terms, largest(terms, seconds, device))


def sustained_clock(work: Workload, device: Device) -> float:
    """The nominal clock (Hz), or below it if back-to-back launches would exceed the power limit."""
    return device.clock if work.blocks == 0 else _sustained(work, device, _waves(work, device))[0]


def _sustained(work: Workload, device: Device, waves: list[Wave]) -> tuple[float, list[Wave]]:
    """The clock that a launch can sustain, and its waves at that clock; given those at the nominal one."""
    clock = device.clock
    if device.machine.sustained is None:
        return clock, waves
    for _ in range(2):  # waiting for data takes fewer cycles at a lower clock, so that the launch then takes more power
        lower = kept(work, device, waves)
        if lower == clock:
            break
        clock, waves = lower, _waves(work, device.at(lower))
    return clock, waves


def _waves(work: Workload, device: Device) -> list[Wave]:
    """From the first block's start to the last one's end."""
    count, held, places = device.machine.multiprocessors, work.held, device.machine.at_a_time(work.cluster)
    if work.stays:
        busy, each = min(1.0, work.blocks / count), ceil(work.blocks / count)
        around = conditions(work, device, busy, 1.0)
        cycles, start = _block(work, device, around, each), _first_load(work, device, around)
        last = cycles
        if work.tiles > 1 and work.last_wave < 1:
            last = _block(work, device, conditions(work, device, busy * work.last_wave, 1.0), each)
        return staying(work, device, cycles + start, last + start, _idle(work, device, around))
    full, rest = divmod(work.blocks, places * held) if work.blocks > places else (0, work.blocks)
    everywhere = conditions(work, device, 1.0, 1.0)
    if full and unlike(work, places * held):
        cycles = _block(work, device, everywhere, held) + _first_load(work, device, everywhere)
        return [in_turn(work, cycles, places * held)]
    waves = []
    if full:
        start = _first_load(work, device, everywhere)
        cycles = full * (_block(work, device, everywhere, held) + start / held)
        waves.append(Wave(cycles, 1 - rest / work.blocks, _idle(work, device, everywhere, full, held)))
    if rest:
        around = conditions(work, device, min(1.0, rest / count), 1.0)
        cycles = _block(work, device, around, ceil(rest / places)) + _first_load(work, device, around)
        waves.append(Wave(cycles, rest / work.blocks, _idle(work, device, around) / (held if full else 1)))
    return waves


def _last_store(work: Workload, device: Device) -> float:
    """Cycles of one tile's epilogue, after its last data."""
    return sum(_stored(role, device) for role in work.roles) / max(work.tiles, 1.0)


def idle(work: Workload, device: Device, busy: float, waves: int = 1, held: int = 1) -> float:
    """Cycles without memory transfers, over this many waves. Blocks that share a multiprocessor start together only once; those without
    a ring read and store in alternation with others all the time."""
    return _idle(work, device, conditions(work, device, busy, 1.0), waves, held)


def _idle(work: Workload, device: Device, around: Conditions, waves: int = 1, held: int = 1) -> float:
    each = _first_load(work, device, around) + _last_store(work, device)
    return each * (1 + (waves - 1) / held) if work.stages else each


def block_cycles(work: Workload, device: Device, busy: float, held: int) -> float:
    """From start to end of a block that is one of `held` on its multiprocessor."""
    around = conditions(work, device, busy, 1.0)
    return _block(work, device, around, held) + _first_load(work, device, around)


def _first_load(work: Workload, device: Device, around: Conditions) -> float:
    return device.load + around.farther + beginning(work, device)


def beginning(work: Workload, device: Device) -> float:
    """Cycles until a block may load: the CTAs of a cluster know that all have started, a persistent one knows its tile."""
    return device.meet * (work.cluster > 1) + device.order * work.stays


def _block(work: Workload, device: Device, around: Conditions, held: int) -> float:
    """Cycles of the first block, of `held` that share its multiprocessor."""
    epilogue, hidden = _epilogues(work, device)
    pace = _loops(work, device, around, held)
    stored = (epilogue - hidden) * held
    if not work.stages:  # one block's reads overlap another one's computation
        return max(pace, stored) + min(pace, stored) / held
    return max(pace, hidden * held) + stored + exchanged(work, device)


def exchanged(work: Workload, device: Device) -> float:
    """Cycles in which threads wait for what they read from other CTAs, each of which then waits until all have read."""
    read = sum(role.remote for role in work.roles)
    return read * device.remote + device.exchange + device.meet if read else 0.0


def _loops(work: Workload, device: Device, around: Conditions, held: int) -> float:
    """Over all iterations of a block's main loops."""
    products = sum(product_cycles(one.instructions, device)[0] * one.times for role in work.roles for one in role.products)
    walking = sum(walk(load, device, around) * load.times for load in work.loads)
    walking += sum(read.bytes * read.inside / around.bytes_per_cycle * read.times for read in work.reads)
    served = sum(load.bytes * load.inside * around.served[load.tensor] * load.times for load in work.loads)
    stored = sum(_rows_stored(one, device) * one.times for role in work.roles for one in role.epilogues)
    walking += stored * around.busy * _in_between(work, device)
    received = 0.0
    if any(load.shared > 1 for load in work.loads):
        received = sum(load.bytes * load.inside * load.times for load in work.loads) / device.multicast_rate
    issued = max(_issued(role, device, work) for role in work.roles)
    threads = sum(role.slots.cycles(device) for role in work.roles if _in_loop(role))  # the schedulers are shared
    chain = max((_one_after_the_other(role, device) for role in work.roles), default=0.0)
    engines = max(held * max(max(products, walking, served) * around.stalled, received, issued, threads), chain)
    used = [ring for ring in work.stages if work.uses[ring]]  # a split of K may have no block of it
    read = max((read.times - 1 for read in work.reads), default=0.0) * (device.load + around.farther)
    paces = max(engines, read, *(_around(work, ring, device, around, engines) for ring in used))
    return paces + max((_drained(work, ring, device, around, paces) for ring in used), default=0.0) + taken_over(work, device)


def taken_over(work: Workload, device: Device) -> float:
    """Cycles in which roles that take turns wait for those of the other CTAs of the cluster: the stages of the next tile are free once
    all CTAs' roles have left them to the next one, of which half of `meet` is the way from one CTA to another."""
    return work.tiles * device.meet / 2 if work.in_turn and work.cluster > 1 else 0.0


def _one_after_the_other(role: RoleWork, device: Device) -> float:
    """For each warpgroup of a role that computes in registers between two products: it waits for its own products, as for its own
    results."""
    groups = role.warps // WARPGROUP_WARPS
    if groups < 2 or len(role.products) < 2:
        return 0.0
    multiplied = [(one.times, *product_cycles(one.instructions, device)) for one in role.products]
    return sum(times * (cycles / groups + latency) for times, cycles, latency in multiplied) + (
        role.slots.cycles(device) * device.dependent / groups
    )


def _around(work: Workload, pipeline: str, device: Device, around: Conditions, engines: float) -> float:
    """Over all uses of a ring; the first ones find their stages free: only later ones wait for a stage to become free."""
    uses, stages = work.uses[pipeline], work.stages[pipeline]
    waiting = max(0.0, uses - stages) / uses
    return max(engines, _round(work, pipeline, device, around) * uses * waiting + engines * (1 - waiting))


def _issued(role: RoleWork, device: Device, work: Workload) -> float:
    boxes = sum((device.issue * load.boxes + device.issue_row * load.rows * load.boxes) * load.times for load in role.loads)
    rings = {load.pipeline for load in role.loads}
    return boxes + device.turn * sum(work.uses[ring] for ring in rings)


def _drained(work: Workload, pipeline: str, device: Device, around: Conditions, paces: float) -> float:
    """Cycles in which products wait because the stores of the tile before have held up the loads for longer than the ring lasts, whose
    stages but one have their data or wait for it: over all tiles whose stores are hidden."""
    hidden = _in_between(work, device)
    if not hidden:
        return 0.0
    uses, stages = work.uses[pipeline], work.stages[pipeline]
    lasts = max(0.0, (stages - 1) * paces / uses - _arriving(work, pipeline, device, around))
    stores = [one for role in work.roles for one in role.epilogues]
    held_up = (one.bytes * one.inside / device.served_rate * around.busy - lasts for one in stores)
    return hidden * sum(max(0.0, cycles) * one.times for cycles, one in zip(held_up, stores, strict=True))


def _arriving(work: Workload, pipeline: str, device: Device, around: Conditions) -> float:
    """Cycles from the load of a stage to its data."""
    loads, uses = [load for load in work.loads if load.pipeline == pipeline], work.uses[pipeline]
    each = [load.times / uses for load in loads]
    walked = sum(walk(load, device, around) * part for load, part in zip(loads, each, strict=True))
    rows = sum(load.rows * load.boxes * part for load, part in zip(loads, each, strict=True))
    lines = sum(load.bytes / LINE * part for load, part in zip(loads, each, strict=True))
    return device.turn + walked + device.load + around.farther + rows * device.load_row + lines * device.load_line


def _round(work: Workload, pipeline: str, device: Device, around: Conditions) -> float:
    """Cycles per use of a ring, if it only waits for free stages: the latency from one load of a stage to the next, through its data and
    its products, is shared by as many uses as there are stages."""
    uses, stages = work.uses[pipeline], work.stages[pipeline]
    data = _arriving(work, pipeline, device, around)
    multiplied = [(one, *product_cycles(one.instructions, device)) for role in work.roles for one in role.products]
    products = sum(cycles * one.times / uses for one, cycles, _ in multiplied)
    latency = max((latency for _, _, latency in multiplied), default=0.0)
    way = (data + latency + products + device.arrive) / stages
    if stages > 1 and any(one.late for one, _, _ in multiplied):
        # A role that releases a stage when the next one multiplies also waits for that one's data: one stage fewer is in flight.
        return max(way, (data + device.arrive) / (stages - 1))
    return way


def _epilogues(work: Workload, device: Device) -> tuple[float, float]:
    """Cycles of all epilogues, and the part hidden by products of other tiles."""
    cycles = [_stored(role, device) for role in work.roles]
    storing = [cost for cost in cycles if cost]
    if not storing:
        return 0.0, 0.0
    multiplying = [role for role in work.roles if role.products]
    apart = all(not role.epilogues for role in multiplying) and work.accumulators > 1
    if not apart and len(storing) == 1:
        return storing[0], 0.0
    if not apart and not work.in_turn:
        # Roles that share a ring: when one has stored, the other one has used up what is there, and stores while the ring fills.
        return sum(storing), sum(storing) / 2
    last = max(_stored(role, device) / max(role.stored, 1.0) for role in work.roles if role.epilogues)
    return sum(storing), sum(storing) - last


def _stored(role: RoleWork, device: Device) -> float:
    stored = sum(_stored_once(one, device) * one.times for one in role.epilogues if one.elements)
    return stored if _in_loop(role) else stored + role.slots.cycles(device)


def _stored_once(one: Epilogue, device: Device) -> float:
    """Cycles of a tile, in its threads; they wait for lines that its rows touch in addition."""
    elements = one.elements * one.inside if one.adds else one.elements  # what is outside is not added
    return store_cycles(elements, one.parts, device, one.adds) + _rows_stored(one, device, of_lines=0.0)


def _rows_stored(one: Epilogue, device: Device, of_lines: float = 1.0) -> float:
    """Cycles of a tile in the copy engine, which hands a line at a time to the L2; a row that starts within one takes more of them."""
    requests = of_lines + (device.split - 1) * one.crooked + device.sector * one.cut
    return one.rows * one.inside * requests * LINE / device.served_rate


def _in_between(work: Workload, device: Device) -> float:
    """The part of all stores that passes through the copy engine among the loads of other tiles."""
    epilogue, hidden = _epilogues(work, device)
    return hidden / epilogue if epilogue else 0.0


def _in_loop(role: RoleWork) -> bool:
    """Whether its threads compute at the pace of the main loop: it multiplies, or stores nothing but hands its results on."""
    return bool(role.products) or not role.epilogues
