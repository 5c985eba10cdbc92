"""What bounds a launch beside its multiprocessors, and how the bounds are joined."""

from collections.abc import Mapping, Sequence

from pipec.predict.device import Device
from pipec.predict.workload import Workload
from pipec.record import record, replace

_ROUNDING = 4  # how sharply the largest term stands out where two meet; of 3, 4 and 6 the first two fit equally well


@record
class Wave:
    """`cycles` of a multiprocessor in which a `part` of all the work is done; for `idle` ones of them nothing comes from memory, since the
    first loads are still on their way, or the last tile is being stored."""

    cycles: float
    part: float
    idle: float = 0.0


def apart(work: Workload, device: Device) -> float:
    """Seconds from one launch to the next in which neither does anything."""
    return device.launch - (device.overlap if work.programmatic else 0.0)


def bounds_of(work: Workload, device: Device, waves: Sequence[Wave], clock: float) -> dict[str, float]:
    """Seconds of each alone."""
    return {
        "multiprocessors": sum(wave.cycles for wave in waves) / clock,
        "memory": dram_bytes(work, device) / dram_rate(work, device),
        "power": powered(device, work.flops * work.filled, dram_bytes(work, device)),  # products of zeros take next to none
    }


def dram_rate(work: Workload, device: Device) -> float:
    """Bytes per second that the memory gives so many blocks: the fewer they are, the less they ask of all its channels at a time."""
    machine = device.machine
    part: float = min(1.0, work.blocks / machine.multiprocessors) ** machine.few
    return machine.dram * part


def powered(device: Device, flops: float, moved: float) -> float:
    """Seconds in which the power limit allows so many 16-bit operations, and bytes from memory."""
    machine, sustained = device.machine, device.machine.sustained
    if sustained is None:
        return flops / machine.flops
    return (sustained.products * flops / machine.peak + sustained.memory * moved / machine.dram) / (1 - sustained.idle)


def kept(work: Workload, device: Device, waves: Sequence[Wave]) -> float:
    """The clock (Hz) that launches one after the other can keep, which take so many cycles: the nominal one, or below it."""
    sustained, nominal = device.machine.sustained, device.clock
    if sustained is None:
        return nominal
    terms = bounds_of(work, device, waves, nominal)
    seconds = apart(work, device) + together(terms, waves, nominal, device)
    return nominal * sustained.clock(terms["power"] / seconds)


def largest(bounds: Mapping[str, float], seconds: float, device: Device) -> str:
    """What bounds a launch of so many `seconds`. Where it is known how the clock falls, power does if it does fall, and multiprocessors
    would: the launch then takes less time than its power allows at the nominal one. Memory is as fast at any clock."""
    if device.machine.sustained is None:
        return max(bounds, key=bounds.__getitem__)
    most = max((name for name in bounds if name != "power"), key=bounds.__getitem__)
    return "power" if most == "multiprocessors" and bounds.get("power", 0.0) >= seconds else most


def together(bounds: Mapping[str, float], waves: Sequence[Wave], clock: float, device: Device) -> float:
    """Seconds of a launch. What a wave loads comes from memory while it runs, so a last one that is not full leaves memory idle; the power
    limit knows only averages, and is in the `clock` already where it is known how that falls."""
    waiting = sum(_joined(wave.cycles / clock, bounds["memory"] * wave.part + wave.idle / clock) for wave in waves)
    return waiting if device.machine.sustained is not None else _joined(waiting, bounds["power"])


EVEN = 0.99
_IDLE = 0.5  # of an average block's time


def in_turn(work: Workload, cycles: float, places: int) -> Wave:
    """Of blocks of unlike length, the longest one taking so many `cycles`: they follow each other without waiting for it, and at the end
    some places idle."""
    return Wave(max(cycles, cycles * work.evenness * (work.blocks / places + _IDLE)), 1.0)


def _joined(first: float, second: float) -> float:
    """The larger, and a little more where both meet, since neither then hides the other fully."""
    largest, least = max(first, second), min(first, second)
    return largest * (1 + (least / largest) ** _ROUNDING) ** (1 / _ROUNDING) if largest else 0.0


def staying(work: Workload, device: Device, cycles: float, last: float | None = None, idle: float = 0.0) -> list[Wave]:
    """Of blocks that stay: `cycles` of the one with most tiles, `last` if each of them took as long as its last one does; `idle` before the
    first data and after the last."""
    tiles, part, last = work.tiles, min(1.0, work.last_wave), cycles if last is None else last
    if tiles > 1 and part < 1:
        done = tiles - 1 + part
        waves = [Wave(cycles * (tiles - 1) / tiles, (tiles - 1) / done, idle), Wave(last / tiles, part / done)]
    else:
        waves = [Wave(cycles, 1.0, idle)]
    places = device.machine.multiprocessors * work.held
    left_over = work.blocks - device.machine.at_a_time(work.cluster) * work.held
    if left_over <= 0 or work.blocks > places:  # more blocks than that get their tiles from the hardware
        return waves
    # Clusters that find no group of multiprocessors start when others have ended. Tiles are dealt in turn, so these, the last ones, have
    # one less than the first, unless some of them still get one of the last tiles.
    fewest = tiles if part * work.blocks > work.blocks - left_over else tiles - 1
    longer = 2 * fewest * cycles / tiles - sum(wave.cycles for wave in waves)
    if longer <= 0:
        return waves
    late = left_over / work.blocks
    return [*(replace(wave, part=wave.part * (1 - late)) for wave in waves), Wave(longer, late, idle)]


def dram_bytes(work: Workload, device: Device) -> float:
    """Inputs once, or again and again where they do not stay in the L2; outputs once."""
    stored = sum(one.bytes * one.average for role in work.roles for one in role.epilogues) * work.blocks
    return stored + sum(_read(work, device.machine.l2_capacity, name, size) for name, size in work.tensors.items())


# Of data that the L2 is to give up first, the part that comes from memory again for each further block that loads it: fitted to the tiles
# of gemm_sm90_narrow at the fitted shapes of h200_choice.json, some of which divide the rows among two to eight blocks.
_AGAIN = 0.25


def _read(work: Workload, capacity: float, tensor: str, size: int) -> float:
    """Bytes of a tensor that come from DRAM. Blocks that run together share what they load; later ones find what the L2 has kept."""
    loads = [load for load in (*work.loads, *work.reads) if load.tensor == tensor]
    loaded = sum(load.bytes * load.inside * load.average for load in loads) * work.blocks
    if any(load.fleeting for load in loads):
        return size + _AGAIN * (loaded - size) if loaded > size else loaded
    if size <= capacity or sum(work.tensors.values()) <= capacity:
        return min(size, loaded)
    together = sum(load.bytes * load.inside * load.average * load.fresh for load in loads) * work.blocks
    return min(loaded, max(size, together))
