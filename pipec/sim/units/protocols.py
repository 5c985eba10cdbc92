"""The interface that the units require of the simulator core's memories."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class SharedMemory(Protocol):
    """One CTA's shared memory, addressed relative to the CTA (rank bits stripped; dynamic data starts at 0x400)."""

    def read(self, offsets: np.ndarray) -> np.ndarray:
        """Bytes (uint8, shape of `offsets`) at int64 byte offsets; raises on unwritten or foreign bytes."""
        ...

    def read_granules(self, granules: np.ndarray) -> np.ndarray:
        """The bytes of lines of 16-byte granules (int64 [lines, n], by number), uint8 [lines, 16 n]; raises like `read`."""
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
        """The `length` bytes from each of `starts` (uint8 [starts, length]); raises like `gather`."""
        ...

    def scatter_runs(self, starts: np.ndarray, values: np.ndarray) -> None:
        """Write uint8 `values` [starts, length] from each of `starts`."""
        ...
