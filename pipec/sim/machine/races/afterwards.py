"""What the marks of a memory tell once somebody has ended, of whom no access of its own tells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...compiled.pieces import distinct
from .clocks import Clock
from .detector import Race, Races
from .ledger import NOBODY, Access
from .shadow import Shadow


def not_past(races: Races, shadow: Shadow, cta: str, clocks: Sequence[Clock]) -> Iterator[Access]:
    """What other CTAs than `cta` did in its memory that none of the clocks knows to be over."""
    if not shadow.writes.size:
        return
    for cells in shadow.cells:
        for number in distinct(cells):
            for old in races.sets.members(number):
                if old.thread.cta != cta and not any(old.over(clock) for clock in clocks):
                    yield old


def read_as_constant(races: Races, loads: set[int]) -> Iterator[Race]:
    """What was read by the instructions `loads`, for which nobody may write it, after somebody had."""
    for shadow in list(races.shadows):
        if shadow.kind != "global" or not shadow.writes.size:
            continue
        writers, readers = shadow.cells
        for number in distinct(readers):
            by = [one for one in races.sets.members(number) if one.pc in loads and not one.writes and one.ends is None]
            if not by:
                continue
            # A write takes away the marks of earlier readers: these came after it.
            for first in np.flatnonzero((readers == number) & (writers != NOBODY))[:1].tolist():
                for old in races.sets.members(int(writers[first])):
                    yield Race(old, by[-1], "stale", shadow, first * shadow.granule)
