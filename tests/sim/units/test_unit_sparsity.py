"""Expanding a sparse operand A. (What a GPU multiplies with it is compared in tests/silicon.)"""

import numpy as np
import pytest

from pipec.sim.units.errors import UnitError
from pipec.sim.units.matrix.sparsity import expand

BOTH_FIRST = 0x44444444  # elements 0 and 1 of each four


def test_kept_elements_are_where_the_metadata_say() -> None:
    stored = np.arange(1, 64 * 16 + 1, dtype=np.uint16).reshape(64, 16)
    metadata = np.full(128, BOTH_FIRST, np.uint32)
    metadata[4 * 3] = 0xEEEE4444  # lane 12 of warp 0: rows 3 and 11, first half of K
    full, _ = expand(stored, metadata, 0, 2)
    assert np.array_equal(full[0, [0, 1, 4, 5]], stored[0, :4]) and not full[0, [2, 3, 6, 7]].any()
    assert np.array_equal(full[3, [0, 1]], stored[3, :2])
    assert np.array_equal(full[11, [2, 3, 6, 7]], stored[11, :4]) and not full[11, [0, 1, 4, 5]].any()
    assert np.array_equal(full[11, 16:18], stored[11, 8:10])


@pytest.mark.parametrize("size", [1, 2])
def test_positions_of_zeros_are_any(size: int) -> None:
    """A single element that is none makes them wrong."""
    stored, metadata = np.ones((64, 32 // size), f"u{size}"), np.full(128, BOTH_FIRST, np.uint32)
    stored[0, :2] = 0
    metadata[0] &= ~np.uint32(15)
    full, kept = expand(stored, metadata, 0, size)
    assert full.sum() == stored.sum() and not full[0, :4].any() and kept[0, 4:6].all()
    stored[0, 1] = 1
    with pytest.raises(UnitError, match="do not increase"):
        expand(stored, metadata, 0, size)


def test_the_selector_chooses_the_lanes() -> None:
    stored, metadata = np.ones((64, 16), np.uint16), np.zeros((32, 4), np.uint32)
    metadata[:, 2:] = BOTH_FIRST
    assert expand(stored, metadata.reshape(-1), 1, 2)[0].sum() == stored.sum()
    with pytest.raises(UnitError, match="do not increase"):
        expand(stored, metadata.reshape(-1), 0, 2)


def test_tf32_keeps_one_of_two() -> None:
    stored = np.arange(1, 64 * 8 + 1, dtype=np.uint32).reshape(64, 8)
    full, _ = expand(stored, np.full(128, 0x4E4E4E4E, np.uint32), 0, 4)
    assert np.array_equal(full[:, 1::4], stored[:, 0::2]) and np.array_equal(full[:, 2::4], stored[:, 1::2])
    with pytest.raises(UnitError, match="0b0100 or 0b1110"):
        expand(stored, np.full(128, 0x88888888, np.uint32), 0, 4)


@pytest.mark.parametrize(("selector", "size"), [(2, 2), (1, 1)])
def test_selectors_that_do_not_exist(selector: int, size: int) -> None:
    with pytest.raises(UnitError, match=f"selector {selector}"):
        expand(np.zeros((64, 16), f"u{size}"), np.zeros(128, np.uint32), selector, size)
