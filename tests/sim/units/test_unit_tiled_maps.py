"""Maps that take a matrix as tiles of 8 rows and 128 bytes, with the tiles of one direction between those of the other."""

from __future__ import annotations

import pytest

from pipec.sim.units.copies.tensormap import TensorMap
from pipec.sim.units.copies.tma import tile_of
from pipec.sim.units.layouts import Reading, Tile, disagreement, first_step
from pipec.sim.units.tcgen05.descriptors import MatrixDescriptor

START = 0x400
COLUMNS = 256


def tiled(across: int, down: int) -> Tile:
    """A box of `across` by `down` tiles of a row-major matrix of 16-bit elements."""
    row = 2 * COLUMNS
    tensor_map = TensorMap(
        "f16", (64, 8, COLUMNS // 64, 16), (row, 128, 8 * row), (64, 8, across, down), swizzle="128B"
    ).validate()
    tile = tile_of(tensor_map, START, coords=(0, 0, 0, 0))
    assert tile is not None
    return tile


def reading(mn_major: bool, leading: int, stride: int, rows: int, start: int = START) -> Reading:
    return Reading("B", MatrixDescriptor(start, leading, stride, "128B"), rows, 16, 2, mn_major, "f16")


def fits(operand: Reading, tile: Tile) -> bool:
    marks = 0 * operand.granules
    return disagreement(operand, (tile,), marks) is None


@pytest.mark.parametrize(("across", "down"), [(2, 8), (2, 4), (3, 2)])
def test_rows_go_on_in_the_next_tile_below(across: int, down: int) -> None:
    # Steps of K are the matrix's rows: its tiles below each other are 8 steps apart, those beside each other 64 elements of N.
    below = 1024 * across
    assert tiled(across, down).joined == (2, 3) and tiled(across, down).length == 8 * down
    assert fits(reading(True, 1024, below, 64 * across), tiled(across, down))
    assert not fits(reading(True, below, 1024, 64 * across), tiled(across, down))
    # Rows of the operand are the matrix's rows.
    assert fits(reading(False, 16, below, 8 * down), tiled(across, down))
    assert not fits(reading(False, 16, 1024, 8 * down), tiled(across, down))


def test_steps_of_k_are_counted_along_the_rows_of_the_matrix() -> None:
    tile = tiled(2, 8)
    starts = [START + 2 * step * 2048 for step in range(4)]
    assert [first_step(reading(True, 1024, 2048, 128, start), tile) for start in starts] == [
        ("columns", step) for step in range(4)
    ]
    # Along a row the next tile follows.
    starts = [START + 32 * step for step in range(4)] + [START + 1024]
    assert [first_step(reading(False, 16, 2048, 64, start), tile) for start in starts] == [("rows", step) for step in range(5)]


def test_tiles_of_an_image_are_joined_by_no_other_dimension() -> None:
    """Eight pixels of a wider image, and the eight below them: rows of the operand in the order of the box."""
    images = TensorMap("f16", (64, 32, 32, 4), (128, 128 * 32, 128 * 32 * 32), (64, 8, 8, 2), swizzle="128B").validate()
    tile = tile_of(images, START, coords=(0, 0, 0, 0))
    assert tile is not None and tile.joined == (0, 0) and fits(reading(False, 16, 1024, 128), tile)
