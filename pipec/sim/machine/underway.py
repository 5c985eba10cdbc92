"""Asynchronous operations under way: which places they read and write, so that an access that comes too early is named.

Between its issue and its completion an operation owns what it writes and shares what it reads. Whoever touches those
places in between has not waited for it, whatever value the timing at hand would give.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..ptx.types import Addresses, LaneValues

NO_PLACES: Addresses = np.zeros(0, np.int64)


@dataclass(eq=False)
class Access:
    """One operation's places (int64 indices). `who` and `what` are for reports."""

    what: str
    who: str
    reads: Addresses = field(default_factory=lambda: NO_PLACES)
    writes: Addresses = field(default_factory=lambda: NO_PLACES)

    def __str__(self) -> str:
        return f"{self.what} of {self.who}" if self.who else self.what


class Underway:
    """The operations under way on one memory of `places` places. A place may be read, or written, by several."""

    def __init__(self, places: int) -> None:
        self.readers = np.zeros(places, np.int16)
        self.writers = np.zeros(places, np.int16)
        self.accesses: list[Access] = []
        self.writing = 0

    def begin(self, access: Access) -> Access:
        """Places of one access are distinct."""
        self.readers[access.reads] += 1
        self.writers[access.writes] += 1
        self.writing += bool(access.writes.size)
        self.accesses.append(access)
        return access

    def end(self, access: Access) -> None:
        if access not in self.accesses:
            return
        self.accesses.remove(access)
        self.readers[access.reads] -= 1
        self.writers[access.writes] -= 1
        self.writing -= bool(access.writes.size)

    def writer(self, places: Addresses) -> tuple[Access, int] | None:
        """An operation that writes one of `places`, and that place."""
        if not self.writing:
            return None
        return self._find(places, self.writers, lambda access: access.writes)

    def reader(self, places: Addresses) -> tuple[Access, int] | None:
        """An operation that reads one of `places`, and that place."""
        if not self.accesses:
            return None
        return self._find(places, self.readers, lambda access: access.reads)

    def _find(self, places: Addresses, counts: LaneValues, of: Callable[[Access], Addresses]) -> tuple[Access, int] | None:
        busy = counts[places] != 0
        if not busy.any():
            return None
        place = int(np.asarray(places)[busy].flat[0])
        return next(access for access in self.accesses if (of(access) == place).any()), place
