"""Which parts of the caller's tensors a recorded cluster has touched."""

from collections import defaultdict
from typing import Any

import numpy as np

from pipec.predict.workload import SECTOR_BYTES
from pipec.sim.machine.memory.global_memory import GlobalMemory


class Traffic:
    """By allocation, read or written: the sectors that threads touched, and the boxes of tensor copies by their tensor map and place."""

    def __init__(self) -> None:
        self._sectors: dict[tuple[int, bool], list[np.ndarray[Any, Any]]] = defaultdict(list)
        self._boxes: dict[tuple[int, bool], dict[tuple[int, ...], float]] = defaultdict(dict)

    def add_sectors(self, memory: GlobalMemory, sectors: np.ndarray[Any, Any], address: int, *, written: bool) -> bool:
        """Sectors of the allocation that has the address; False if none has it, as for generic addresses of shared memory."""
        number = _allocation(memory, address)
        if number is not None:
            self._sectors[number, written].append(sectors)
        return number is not None

    def add_box(self, memory: GlobalMemory, tensor: int, coordinates: tuple[int, ...], size: float, *, written: bool) -> None:
        number = _allocation(memory, tensor)
        if number is not None:
            self._boxes[number, written][tensor, *coordinates] = size

    def totals(self, memory: GlobalMemory) -> dict[str, tuple[int, float, float]]:
        """Name -> bytes of the allocation, bytes read, bytes written, each counted once."""
        bytes_of: dict[str, list[float]] = {}
        for touched, size_of in ((self._sectors, _bytes_of_sectors), (self._boxes, _bytes_of_boxes)):
            for (number, written), pieces in touched.items():
                one = memory.allocations[number]
                row = bytes_of.setdefault(one.name, [float(one.data.size), 0.0, 0.0])
                row[1 + written] += size_of(pieces)
        return {name: (int(size), min(size, read), min(size, wrote)) for name, (size, read, wrote) in bytes_of.items()}


def _bytes_of_sectors(pieces: Any) -> float:
    return float(np.unique(np.concatenate(pieces)).size * SECTOR_BYTES)


def _bytes_of_boxes(boxes: Any) -> float:
    return float(sum(boxes.values()))


def _allocation(memory: GlobalMemory, address: int) -> int | None:
    for number, one in enumerate(memory.allocations):
        if one.base <= address < one.base + one.data.size:
            return number
    return None
