"""What the marks of a memory reveal after a thread has ended: races that no later access would show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...compiled.pieces import distinct
from .clocks import Clock
from .detector import Race, Races
from .ledger import NOBODY, Access
from .shadow import Shadow


def not_past(races: Races, shadow: Shadow, cta: str, clocks: Sequence[Clock]) -> Iterator[Access]:
    """Accesses of other CTAs than `cta` in its memory whose completion none of the clocks covers."""
    if not shadow.writes.size:
        return
    for cells in shadow.cells:
        for number in distinct(cells):
            for old in races.sets.members(number):
                if old.thread.cta != cta and not any(old.over(clock) for clock in clocks):
                    yield old


def read_as_constant(races: Races, loads: set[int]) -> Iterator[Race]:
    """Memory read by the instructions `loads`, which require it to be read-only, after it was written."""
    for shadow in list(races.shadows):
        if shadow.kind != "global" or not shadow.writes.size:
            continue
        writers, readers = shadow.cells
        for number in distinct(readers):
            by = [one for one in races.sets.members(number) if one.pc in loads and not one.writes and one.ends is None]
            if not by:
                continue
            # A write removes the marks of earlier readers, so these came after it.
            for first in np.flatnonzero((readers == number) & (writers != NOBODY))[:1].tolist():
                for old in races.sets.members(int(writers[first])):
                    yield Race(old, by[-1], "stale", shadow, first * shadow.granule)
