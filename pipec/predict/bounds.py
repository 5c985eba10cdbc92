"""Launch-level bounds other than the multiprocessors, and how the bounds are combined."""

from collections.abc import Mapping, Sequence

from pipec.predict.device import Device, Machine
from pipec.predict.work import LINE
from pipec.predict.workload import Epilogue, Workload
from pipec.record import record, replace

_ROUNDING = 4  # sharpness of the maximum where two terms are close; of 3, 4 and 6 the first two fit equally well


@record
class Wave:
    """`cycles` of a multiprocessor in which a `part` of all the work is done; in `idle` ones of them nothing is transferred from memory,
    since the first loads are still in flight, or the last tile is being stored."""

    cycles: float
    part: float
    idle: float = 0.0


def apart(work: Workload, device: Device) -> float:
    """Seconds between two launches in which neither makes progress."""
    return device.launch - (device.overlap if work.programmatic else 0.0)


def bounds_of(work: Workload, device: Device, waves: Sequence[Wave], clock: float) -> dict[str, float]:
    """The time of each bound alone, in seconds."""
    return {
        "multiprocessors": sum(wave.cycles for wave in waves) / clock,
        "memory": dram_bytes(work, device) / dram_rate(work, device),
        "power": powered(device, _multiplied(work, device), dram_bytes(work, device), work.arithmetic),
        "launch": apart(work, device),
    }


def dram_rate(work: Workload, device: Device) -> float:
    """Bytes per second from memory for this many blocks: few blocks do not use all of its channels."""
    machine = device.machine
    part: float = min(1.0, work.blocks / machine.multiprocessors) ** machine.few
    streamed = machine.streamed if {load.fleeting for load in work.loads} == {False, True} else 1.0
    multiplied = any(role.products for role in work.roles)  # a copy's rows of one line follow each other in memory, too
    adjacent = machine.long_rows if multiplied and all(load.row_bytes >= 2 * LINE for load in work.loads) else 1.0
    return (
        machine.dram * part * streamed * adjacent * (1 - machine.crowded * _paired(work, machine) if work.programmatic else 1.0)
    )


def _paired(work: Workload, machine: Machine) -> float:
    """How much likelier it is in a launch that overlaps the one in front of it that a block has another one beside it, on the other
    multiprocessor of its TPC. Blocks that find the GPU empty are spread over TPCs first. Those of an overlapping launch start wherever a
    multiprocessor is free: anywhere, unless the launch in front leaves room for all of them."""
    pairs, blocks = machine.multiprocessors // 2, work.blocks
    room = machine.multiprocessors * work.held - blocks
    if blocks <= room or blocks >= machine.multiprocessors:
        return 0.0
    return max(0.0, (blocks - 1) / (machine.multiprocessors - 1) - 2 * (blocks - pairs) / blocks)


def _multiplied(work: Workload, device: Device) -> float:
    """16-bit operations that take as much power as those of the launch. Products of zeros take almost none."""
    sustained, flops = device.machine.sustained, work.flops
    if sustained is not None:
        flops += (sustained.narrow - 1) * work.narrow_flops + (sustained.near - 1) * work.near_flops
    return flops * work.filled


def powered(device: Device, flops: float, moved: float, arithmetic: float = 0.0) -> float:
    """Seconds required by the power limit for this many 16-bit operations, bytes from memory, and f32 instructions of a multiprocessor's
    schedulers."""
    machine, sustained = device.machine, device.machine.sustained
    if sustained is None:
        return flops / machine.flops
    computed = sustained.arithmetic * arithmetic * device.pair / (machine.multiprocessors * machine.clock)
    return (sustained.products * flops / machine.peak + sustained.memory * moved / machine.dram + computed) / (1 - sustained.idle)


def kept(work: Workload, device: Device, waves: Sequence[Wave]) -> float:
    """The clock (Hz) that back-to-back launches with these cycles can sustain: the nominal one, or below it."""
    sustained, nominal = device.machine.sustained, device.clock
    if sustained is None:
        return nominal
    terms = bounds_of(work, device, waves, nominal)
    seconds = apart(work, device) + together(terms, waves, nominal, device)
    return nominal * sustained.clock(terms["power"] / seconds)


def largest(bounds: Mapping[str, float], seconds: float, device: Device) -> str:
    """What bounds a launch of this many `seconds`. If the power model is known, power is the bound if it lowers the clock and the
    multiprocessors would be the bound otherwise: at the nominal clock the launch would be faster than its power allows. Memory speed
    does not depend on the clock."""
    if device.machine.sustained is None:
        return max(bounds, key=bounds.__getitem__)
    most = max((name for name in bounds if name != "power"), key=bounds.__getitem__)
    return "power" if most == "multiprocessors" and bounds.get("power", 0.0) >= seconds else most


def together(bounds: Mapping[str, float], waves: Sequence[Wave], clock: float, device: Device) -> float:
    """Seconds of a launch. Data of a wave is loaded while it runs, so a partial last wave leaves memory idle; the power limit applies to
    averages, and is already included in the `clock` if the power model is known."""
    waiting = sum(joined(wave.cycles / clock, bounds["memory"] * wave.part + wave.idle / clock) for wave in waves)
    return waiting if device.machine.sustained is not None else joined(waiting, bounds["power"])


_IDLE = 0.5  # of an average block's time


def unlike(work: Workload, places: int) -> bool:
    """Whether blocks differ so much that they do not run in waves: by the last one, some are half a block ahead of others. Those of a split
    of K differ by one step, and a second wave of them waits for its first loads all at once."""
    return (1 - work.evenness) * work.blocks / places > _IDLE


def in_turn(work: Workload, cycles: float, places: int) -> Wave:
    """Blocks of different lengths, the longest one taking this many `cycles`: they follow each other without waiting for it, and at the
    end some slots idle."""
    return Wave(max(cycles, cycles * work.evenness * (work.blocks / places + _IDLE)), 1.0)


def joined(first: float, second: float) -> float:
    """A smooth maximum: slightly more than the larger if both are close, since neither then fully hides the other."""
    largest, least = max(first, second), min(first, second)
    return largest * (1 + (least / largest) ** _ROUNDING) ** (1 / _ROUNDING) if largest else 0.0


def staying(work: Workload, device: Device, cycles: float, last: float | None = None, idle: float = 0.0) -> list[Wave]:
    """Persistent blocks: `cycles` of the one with most tiles, `last` if each tile took as long as its last one; `idle` before the first
    data and after the last."""
    tiles, part, last = work.tiles, min(1.0, work.last_wave), cycles if last is None else last
    if tiles > 1 and part < 1:
        done = tiles - 1 + part
        waves = [Wave(cycles * (tiles - 1) / tiles, (tiles - 1) / done, idle), Wave(last / tiles, part / done)]
    else:
        waves = [Wave(cycles, 1.0, idle)]
    places = device.machine.multiprocessors * work.held
    left_over = work.blocks - device.machine.at_a_time(work.cluster) * work.held
    if left_over <= 0 or work.blocks > places:  # additional blocks get their tiles from the hardware
        return waves
    # Clusters that do not fit into a group of multiprocessors start when others have ended. Tiles are dealt round-robin, so these last
    # ones have one less than the first, unless some of them still get one of the last tiles.
    fewest = tiles if part * work.blocks > work.blocks - left_over else tiles - 1
    longer = 2 * fewest * cycles / tiles - sum(wave.cycles for wave in waves)
    if longer <= 0:
        return waves
    late = left_over / work.blocks
    return [*(replace(wave, part=wave.part * (1 - late)) for wave in waves), Wave(longer, late, idle)]


def dram_bytes(work: Workload, device: Device) -> float:
    """Inputs once, or repeatedly if they do not stay in the L2; outputs once."""
    stored = sum(_written(one, work.blocks) for role in work.roles for one in role.epilogues)
    return stored + sum(_read(work, device.machine.l2_capacity, name, size) for name, size in work.tensors.items())


def _written(one: Epilogue, blocks: int) -> float:
    """Bytes that go to memory: what is added up is so in the L2."""
    stored = one.bytes * one.inside * one.average * blocks
    return min(stored, one.all_bytes) if one.adds else stored


# For data marked for eviction first, the fraction that comes from memory again for each further block that loads it: fitted to the tiles
# of gemm_sm90_narrow at the fitted shapes of h200_choice.json, some of which divide the rows among two to eight blocks.
_AGAIN = 0.25


def _read(work: Workload, capacity: float, tensor: str, size: int) -> float:
    """Bytes of a tensor that come from DRAM. Concurrent blocks share what they load; later ones find what the L2 has kept."""
    if tensor in work.warm:
        return 0.0
    loads = [load for load in (*work.loads, *work.reads) if load.tensor == tensor]
    loaded = sum(load.bytes * load.inside * load.average for load in loads) * work.blocks
    if any(load.fleeting for load in loads):
        return size + _AGAIN * (loaded - size) if loaded > size else loaded
    if size <= capacity or sum(work.tensors.values()) <= capacity:
        return min(size, loaded)
    together = sum(load.bytes * load.inside * load.average * load.fresh for load in loads) * work.blocks
    return min(loaded, max(size, together))
