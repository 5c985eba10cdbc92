"""The conditions of a block on its multiprocessor: the latency of its data, and its share of the L2."""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from pipec.predict.device import Device
from pipec.predict.work import product_cycles
from pipec.predict.workload import Load, Workload

_EDGE = 0.86  # of the far latency, if data just fits the near half of the L2 (sweep, fitted)


class Conditions(NamedTuple):
    """The extra latency of data beyond the L2 in cycles, the slow-down of a box row, bytes per cycle for the multiprocessor, the
    fraction `busy` of all multiprocessors that load, and the fraction of all blocks that run `at_once`.

    `stalled`: the factor by which products, the copy engine and the L2 are slower where two of them are nearly as busy, since neither
    then hides the other.

    By tensor: the average fraction of a tile's rows `inside` it, the `requests` for a row of a box, and the cycles per byte of each tile
    from the L2 (`served`).
    """

    farther: float
    slower: float
    bytes_per_cycle: float
    busy: float
    at_once: float
    inside: Mapping[str, float]
    requests: Mapping[str, float]
    served: Mapping[str, float]
    stalled: float = 1.0


def conditions(work: Workload, device: Device, busy: float, at_once: float) -> Conditions:
    """For a block when a fraction `busy` of the multiprocessors work."""
    inside = {load.tensor: load.inside for load in work.loads}
    requests = {load.tensor: 1 + (device.split - 1) * load.crooked + device.sector * load.cut for load in work.loads}
    served = {load.tensor: _served(load, work, device) * busy / device.served_rate for load in work.loads}
    if busy >= device.alone:
        farther = device.memory + device.loaded * busy if work.from_memory else 0.0
        rate = device.loaded_rate / busy if busy else inf
        alone = Conditions(farther, 1.0, rate, busy, at_once, inside, requests, served)
        return alone._replace(stalled=_stalled(work, device, alone))
    # A single one finds its data in the L2, unless there is too much.
    footprint = sum(work.tensors.values())
    is_far = footprint > device.near_bytes
    farther = device.far if is_far else device.far * _EDGE if footprint == device.near_bytes else 0.0
    return Conditions(farther, device.far_row if is_far else 1.0, inf, busy, at_once, inside, requests, served)


def _stalled(work: Workload, device: Device, around: Conditions) -> float:
    """A smooth maximum over the largest of them."""
    products = sum(product_cycles(one.instructions, device)[0] * one.times for role in work.roles for one in role.products)
    served = sum(load.bytes * load.inside * around.served[load.tensor] * load.times for load in work.loads)
    walking = sum(walk(load, device, around) * load.times for load in work.loads)
    most = max(products, served, walking)
    return _smooth(_smooth(products, served, device.stalling), walking, device.jamming) / most if products and most else 1.0


def _smooth(one: float, other: float, sharpness: float) -> float:
    least, most = min(one, other), max(one, other)
    smooth: float = most * (1 + (least / most) ** sharpness) ** (1 / sharpness) if least else most
    return smooth


def walk(load: Load, device: Device, around: Conditions) -> float:
    """Cycles of one tile in the copy engine: rows inside the tensor need requests, which a multicast divides; rows outside are filled in
    every CTA."""
    inside, rows = load.inside * around.requests[load.tensor] / load.shared, load.rows * load.boxes
    there = max(rows * inside * device.row * around.slower, load.bytes * inside / around.bytes_per_cycle)
    filled = min(load.shared, device.outside_most) / load.shared
    return there + rows * (1 - load.inside) * max(device.row, device.outside * around.busy) * filled


def _served(load: Load, work: Workload, device: Device) -> float:
    """The fraction of a tile's bytes that the L2 serves for each CTA that loads it. Concurrent requests of several multiprocessors are
    served once: all of them are in lockstep in their first tile, later on only neighbours are, if at all: where no epilogue interrupts
    the loads, nothing but a cluster keeps blocks together."""
    tiles = work.tiles if work.stays else work.blocks / (device.machine.multiprocessors * work.held)
    later = load.requested
    if work.in_turn and work.cluster == 1:
        later += device.astray * (1 - later)
    return later + (load.distinct - later) / max(1.0, tiles)
