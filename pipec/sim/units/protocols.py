"""What the units ask of the memories that the simulator core owns."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class SharedMemory(Protocol):
    """One CTA's shared memory, addressed relative to the CTA (rank bits stripped; dynamic data starts at 0x400)."""

    def read(self, offsets: np.ndarray) -> np.ndarray:
        """Bytes (uint8, shape of `offsets`) at int64 byte offsets; raises on unwritten or foreign bytes."""
        ...

    def read_granules(self, granules: np.ndarray) -> np.ndarray:
        """Of lines of granules of 16 bytes (int64 [lines, n], by number) the bytes, uint8 [lines, 16 n]; raises like `read`."""
        ...


class GlobalMemory(Protocol):
    """Global memory at byte granularity."""

    def gather(self, addresses: np.ndarray) -> np.ndarray:
        """Bytes (uint8, shape of `addresses`) at int64 byte addresses; raises on unmapped ones."""
        ...

    def scatter(self, addresses: np.ndarray, values: np.ndarray) -> None:
        """Write uint8 `values` at int64 byte `addresses` (same shape)."""
        ...

    def gather_runs(self, starts: np.ndarray, length: int) -> np.ndarray:
        """The `length` bytes from each of some addresses on (uint8 [starts, length]); raises like `gather`."""
        ...

    def scatter_runs(self, starts: np.ndarray, values: np.ndarray) -> None:
        """Write uint8 `values` [starts, length] from each of some addresses on."""
        ...
