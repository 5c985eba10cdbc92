"""What surrounds a block on its multiprocessor: how far its data is, and what the others leave it of the L2."""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from pipec.predict.device import Device
from pipec.predict.workload import Load, Workload

_EDGE = 0.86  # of what is far, where the data just fits the near half of the L2 (sweep, fitted)


class Conditions(NamedTuple):
    """Cycles that data takes longer than from the L2, how many times longer a row of a box takes to be walked, bytes a cycle that the
    multiprocessor gets, the part `busy` of all multiprocessors that load, and the part of all blocks that run `at_once`.

    By tensor: the part of a tile's rows `inside` it, on average, the part of its rows that start within a line of the cache, and the cycles
    in which the L2 gives out a byte of each tile (`served`).
    """

    farther: float
    slower: float
    bytes_per_cycle: float
    busy: float
    at_once: float
    inside: Mapping[str, float]
    crooked: Mapping[str, float]
    served: Mapping[str, float]


def conditions(work: Workload, device: Device, busy: float, at_once: float) -> Conditions:
    """Of a block when a part `busy` of the multiprocessors work."""
    inside = {load.tensor: load.inside for load in work.loads}
    crooked = {load.tensor: load.crooked for load in work.loads}
    served = {load.tensor: _served(load, work, device) * busy / device.served_rate for load in work.loads}
    if busy >= device.alone:
        farther = device.memory + device.loaded * busy
        rate = device.loaded_rate / busy if busy else inf
        return Conditions(farther, 1.0, rate, busy, at_once, inside, crooked, served)
    # A lone one finds its data in the L2, unless there is too much.
    footprint = sum(work.tensors.values())
    is_far = footprint > device.near_bytes
    farther = device.far if is_far else device.far * _EDGE if footprint == device.near_bytes else 0.0
    return Conditions(farther, device.far_row if is_far else 1.0, inf, busy, at_once, inside, crooked, served)


def _served(load: Load, work: Workload, device: Device) -> float:
    """The part of a tile's bytes that the L2 gives out for each CTA that loads it. What several multiprocessors ask for at the same time is
    given out once: all of them keep in step in their first tile, later on only neighbours do."""
    tiles = work.tiles if work.stays else work.blocks / (device.machine.multiprocessors * work.held)
    return load.requested + (load.distinct - load.requested) / max(1.0, tiles)
