"""Which tiles concurrent blocks load in common: in the same trip of their loops, and in all of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from pipec.predict.many_blocks import Values

# Multiprocessors whose requests for the same data the L2 merges: three pairs of them (a CPC), to which blocks are assigned in order. Of
# runs of 2, 4, 6, 8 and 16 blocks this fits the recorded tiles best.
_NEIGHBOURS = 6

Places = Sequence[Values | None]  # of a tile in its tensor, along each axis


class Sharing:
    """For this many blocks, whose indices and clusters are in `specials`."""

    def __init__(self, blocks: int, cluster: int, specials: Mapping[str, Values]) -> None:
        self._blocks, self._cluster = blocks, cluster
        self._at = x, y, z = tuple(specials[f"cluster.{axis}"] for axis in "xyz")
        clusters = x + specials["clusters.x"] * (y + specials["clusters.y"] * z)
        neighbours = max(1, _NEIGHBOURS // cluster)
        self._neighbourhoods: list[int] = np.broadcast_to(clusters // neighbours, blocks).tolist()
        self._neighbours = len({*self._neighbourhoods})

    @cached_property
    def _leading(self) -> np.ndarray[Any, Any]:
        """The blocks of the first one's cluster."""
        alike: np.ndarray[Any, Any] = np.all([self._each(one) == self._each(one)[0] for one in self._at], axis=0)
        return alike

    def at_once(self, places: Places) -> tuple[float, float]:
        """The fraction of distinct tiles at these places: among all, and summed over all neighbourhoods."""
        known = [place for place in places if place is not None]
        if not known:
            return 1.0, 1.0
        # Numbered, so that a place is one number; those along axes where all blocks load the same tell nothing apart.
        number: Values = 0
        for place in known:
            if isinstance(place, np.ndarray):
                least = place.min()
                number = number * (place.max() - least + 1) + (place - least)
        if not isinstance(number, np.ndarray):
            return 1 / self._blocks, self._neighbours / self._blocks
        asked = {*zip(self._neighbourhoods, number.tolist(), strict=True)}
        return len({one for _, one in asked}) / self._blocks, len(asked) / self._blocks

    def in_cluster(self, place: Values | None) -> int:
        """The number of adjacent tiles loaded by the CTAs of one cluster."""
        return 1 if place is None or self._cluster == 1 else len({*self._each(place)[self._leading].tolist()})

    def in_all(self, begin: Places, end: Places, extents: Sequence[int]) -> float | None:
        """The fraction of distinct tiles from the first places to the last ones, which loops traverse along one axis; None if they
        traverse several axes, or none. `extents` of a tile."""
        known = [
            (self._each(first), self._each(last), extent)
            for first, last, extent in zip(begin, end, extents, strict=True)
            if first is not None and last is not None
        ]
        along = [one for one in known if np.any(one[0] != one[1])]
        if len(along) != 1:
            return None
        first, last, extent = along[0]
        lines = zip(*(fixed.tolist() for fixed, _, _ in known if fixed is not first), strict=True)
        ways: dict[Any, list[tuple[float, float]]] = defaultdict(list)
        lows, highs = np.minimum(first, last).tolist(), (np.maximum(first, last) + extent).tolist()
        for line, low, high in zip(lines if len(known) > 1 else [()] * self._blocks, lows, highs, strict=True):
            ways[line].append((low, high))
        whole: float = sum(highs) - sum(lows)
        return sum(map(_covered, ways.values())) / whole

    def _each(self, value: Values) -> np.ndarray[Any, Any]:
        return np.broadcast_to(value, self._blocks)


def _covered(ways: list[tuple[float, float]]) -> float:
    """The length of the union of intervals."""
    length, behind = 0.0, -np.inf
    for low, high in sorted(ways):
        length += max(0.0, high - max(low, behind))
        behind = max(behind, high)
    return length
