"""The swizzle in which threads lay out a tile, from the addresses of their lanes."""

import numpy as np
import pytest

from pipec.sim.units.patterns import lane_steps, warp_steps, written_otherwise
from pipec.sim.units.swizzle import SWIZZLES

KINDS = ("none", "32B", "64B", "128B")


def tile(swizzle: str, warp: int, columns: int) -> list[int]:
    """Lanes take 16 bytes each, `columns` of them next to each other, then the next row of 128 bytes."""
    lanes = np.arange(32)
    linear = (lanes // columns + warp * 32 // columns) * 128 + lanes % columns * 16
    return [int(address) for address in SWIZZLES[swizzle].apply(linear + 0x400)]


@pytest.mark.parametrize("columns", [1, 2, 4, 8])
@pytest.mark.parametrize("read", KINDS)
@pytest.mark.parametrize("written", KINDS)
def test_two_swizzles_are_distinguished(written: str, read: str, columns: int) -> None:
    warps = [tile(written, warp, columns) for warp in range(4)]
    steps = [step for one in warps for step in lane_steps(np.array([one]))] + warp_steps(
        [(warp, one[0]) for warp, one in enumerate(warps)]
    )
    found = written_otherwise(read, steps)
    assert (found is None) == (written == read)
    assert found is None or found[0] == written


def test_what_is_not_linear_says_nothing() -> None:
    assert lane_steps(0x400 + 48 * np.arange(32)[None]) == []


def test_what_several_swizzles_fit_is_not_reported() -> None:
    """Two rows of a tile look the same with 32, 64 and 128 bytes."""
    addresses = [0x400 + (lane % 2 * 128 ^ lane % 2 * 16) for lane in range(32)]
    assert written_otherwise("32B", lane_steps(np.array([addresses]))) is None
    assert written_otherwise("none", lane_steps(np.array([addresses]))) is None, "one bit may be a coincidence"
