"""The swizzle in which threads write a tile, as far as the addresses of their lanes reveal it.

A swizzle is linear in the bits of an address. Each bit of the number of a thread that writes a tile usually changes one coordinate.
Under the swizzle that the threads use, each bit of the lane and of the warp therefore changes one bit of the address before swizzling;
under another swizzle it changes two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from pipec.record import record

from .swizzle import SWIZZLES, SwizzleName

_KINDS: tuple[SwizzleName, ...] = ("none", "32B", "64B", "128B")
_LANE_BITS = 5
# Swizzles depend on these bits of an address and repeat after them. Tiles are aligned to that period, so these bits are those of the
# offset in the tile, independent of carries into the others.
_PATTERN = 0x3FF
# Minimum number of lane and warp bits as evidence for a swizzle: a single one may be a coincidence.
_ENOUGH = 2


@record
class Step:
    """Two addresses that differ by one bit of the lane or of the warp; `who` says which."""

    who: str
    first: int
    second: int

    @property
    def difference(self) -> int:
        return (self.first ^ self.second) & _PATTERN


def lane_steps(addresses: np.ndarray) -> list[Step]:
    """Steps of stores by whole warps, [stores, lanes]; none if some bit of the lane does not always change the same bits of the address."""
    found = (addresses ^ addresses[:, :1]) & _PATTERN
    by_bit = found[:, [1 << bit for bit in range(_LANE_BITS)]]
    linear = np.zeros((len(addresses), 1), np.int64)
    for bit in range(_LANE_BITS):
        linear = np.concatenate([linear, linear ^ by_bit[:, bit : bit + 1]], axis=1)
    return [
        Step(f"lanes 0 and {1 << bit}", lanes[0], lanes[1 << bit])
        for lanes in addresses[(found == linear).all(axis=1)].tolist()
        for bit in range(_LANE_BITS)
    ]


def warp_steps(addresses: Sequence[tuple[int, int]]) -> list[Step]:
    """Steps from (warp, address of its first lane) at one instruction."""
    by_warp = dict(addresses)
    return [
        Step(f"warps {warp} and {warp ^ bit}", address, by_warp[warp ^ bit])
        for warp, address in addresses
        for bit in (1, 2, 4)
        if not warp & bit and warp ^ bit in by_warp
    ]


def written_otherwise(read: SwizzleName, steps: Iterable[Step]) -> tuple[SwizzleName, Step] | None:
    """Another swizzle that is consistent with all steps that contradict `read`, and one such step; None without certainty."""
    if read not in _KINDS:
        return None
    left, speaking, against = set(_KINDS), set[int](), None
    for step in steps:
        kinds = _kinds_of(step.difference)
        if not kinds or len(kinds) == len(_KINDS):
            continue
        left &= kinds
        speaking.add(step.difference)
        if against is None and read not in kinds:
            against = step
    if against is None or not left or len(speaking) < _ENOUGH:
        return None
    return max(left, key=_KINDS.index), against


@lru_cache(maxsize=1024)
def _kinds_of(difference: int) -> frozenset[SwizzleName]:
    """The swizzles under which these address bits correspond to one bit before swizzling."""
    bits = np.array([difference], np.int64)
    return frozenset(name for name in _KINDS if int(SWIZZLES[name].apply(bits)[0]).bit_count() == 1)
