"""im2col maps: encoding, the rules of the map, and the walk over pixels against a plain NumPy gather."""

import itertools
from dataclasses import fields

import numpy as np
import pytest
from unit_memories import FlatGlobal

from pipec.sim.units.copies import tma
from pipec.sim.units.copies.im2col import Im2colMap, walk
from pipec.sim.units.errors import UnitError


def memory_of(data: np.ndarray) -> FlatGlobal:
    memory = FlatGlobal(data.nbytes, base=0)
    memory.data[:] = data.reshape(-1).view(np.uint8)
    return memory


PLANE = Im2colMap("u16", (16, 7, 6, 2), (32, 224, 1344), (-1, -1), (-1, -1), 16, 20)


def test_encoding_round_trip() -> None:
    for entry in (PLANE, Im2colMap("bf16", (64, 9, 2), (128, 1152), (-3,), (2,), 32, 1024, (1, 2, 1), "64B", "nan", 0x1000)):
        data = entry.encode()
        assert len(data) == 128 and Im2colMap.is_encoded(data)
        assert Im2colMap.decode(data) == entry
    changed = bytearray(PLANE.encode())
    changed[20] ^= 1
    with pytest.raises(UnitError, match="overwritten"):
        Im2colMap.decode(bytes(changed))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dims": (16, 7), "strides": (32,), "lower": (), "upper": ()}, "rank 2"),
        ({"lower": (-1,)}, "2 numbers per corner"),
        ({"upper": (0, 128)}, "corner 128"),
        ({"channels": 0}, "0 channels"),
        ({"pixels": 1025}, "1025 pixels"),
        ({"swizzle": "32B", "channels": 32}, "exceeds the 32 bytes"),
    ],
)
def test_rules(changes: dict, words: str) -> None:
    properties = {one.name: getattr(PLANE, one.name) for one in fields(PLANE)} | changes
    with pytest.raises(UnitError, match=words):
        Im2colMap(**properties).encode()


def test_stores_need_a_box_that_starts_inside() -> None:
    """A negative lower corner faults on an H200 even if the copy meets no pixel outside."""
    with pytest.raises(UnitError, match="lower corner"):
        tma.store_im2col(PLANE, (0, 2, 2, 0), None, np.zeros(640, np.uint8), memory_of(np.zeros(2688, np.uint8)))


def test_wrong_number_of_offsets() -> None:
    with pytest.raises(UnitError, match="1 im2col offsets"):
        tma.load_im2col(PLANE, (0, 0, 0, 0), (1,), memory_of(np.zeros(2688, np.uint8)))


def test_a_convolution_window_is_what_numpy_gathers() -> None:
    """All pixels of a 3 x 3 filter's box in the order W, H, image; padding is zero."""
    tensor = np.random.default_rng(0).integers(1, 1 << 16, (2, 6, 7, 16), np.uint16)
    padded = np.pad(tensor, ((0, 0), (1, 1), (1, 1), (0, 0)))
    entry = Im2colMap("u16", (16, 7, 6, 2), (32, 224, 1344), (-1, -1), (-1, -1), 16, 84)
    for h, w in itertools.product(range(3), repeat=2):
        got = tma.load_im2col(entry, (0, -1, -1, 0), (w, h), memory_of(tensor)).view(np.uint16)
        assert np.array_equal(got, padded[:, h : h + 6, w : w + 7].reshape(-1))


def test_steps() -> None:
    entry = Im2colMap("u16", (16, 9, 8, 2), (32, 288, 2304), (-1, -1), (-1, -1), 16, 12, (1, 2, 3, 1))
    positions = walk(entry, (0, -1, -1, 0), (0, 0))
    assert positions[:6, 0].tolist() == [-1, 1, 3, 5, 7, -1] and positions[:6, 1].tolist() == [-1] * 5 + [2]


WIDE = Im2colMap("u16", (32, 4, 3, 8), (64, 256, 768), (0,), (0,), 32, 10, swizzle="64B", wide="w")


def test_wide_maps_round_trip() -> None:
    for wide in ("w", "w128"):
        entry = Im2colMap("u16", (32, 4, 3, 8), (64, 256, 768), (-5,), (3,), 32, 10, (1, 2, 1, 1), "64B", wide=wide)
        assert Im2colMap.decode(entry.encode()) == entry


def test_wide_copies_walk_rows_of_one_height() -> None:
    """PTX ISA 5.5.5: 10 pixels of rows of 4 and a halo of 2 behind them; H stays, the image counts."""
    tensor = np.random.default_rng(0).integers(1, 1 << 16, (8, 3, 4, 32), np.uint16)
    got = tma.load_wide(WIDE, (0, 0, 2, 1), 2, 0, memory_of(tensor)).view(np.uint16).reshape(12, 32)
    assert np.array_equal(got, tensor[1:4, 2].reshape(12, 32))
    assert tma.wide_rows(WIDE, 2, 0) == 12


def test_the_offset_moves_the_box() -> None:
    """Two buffers of a filter with stride 2: the box begins at -1, and the second one a pixel further."""
    tensor = np.random.default_rng(1).integers(1, 1 << 16, (8, 3, 4, 32), np.uint16)
    entry = Im2colMap("u16", (32, 4, 3, 8), (64, 256, 768), (-1,), (0,), 32, 6, (1, 2, 1, 1), "64B", wide="w")
    padded = np.pad(tensor, ((0, 0), (0, 0), (1, 1), (0, 0)))
    for offset in (0, 1):
        got = tma.load_wide(entry, (0, -1, 1, 0), 0, offset, memory_of(tensor)).view(np.uint16).reshape(2, 3, 32)
        assert np.array_equal(got, padded[:2, 1, offset : offset + 5 : 2])


def test_wide_copies_of_128_pixels_have_a_halo_for_each_32() -> None:
    """The halos come behind all pixels: the first pixel of each of the four, then the second."""
    tensor = np.random.default_rng(2).integers(1, 1 << 16, (50, 1, 4, 32), np.uint16)
    entry = Im2colMap("u16", (32, 4, 1, 50), (64, 256, 256), (0,), (0,), 32, 10, swizzle="64B", wide="w128")
    got = tma.load_wide(entry, (0, 0, 0, 0), 2, 0, memory_of(tensor)).view(np.uint16).reshape(136, 32)
    line = tensor.reshape(200, 32)
    assert np.array_equal(got[:128], line[:128])
    assert np.array_equal(got[128:], line[[32, 64, 96, 128, 33, 65, 97, 129]])


@pytest.mark.parametrize(("halo", "offset", "words"), [(512, 0, "halo of 512"), (-1, 0, "halo"), (0, 32, "offset of 32")])
def test_numbers_of_wide_copies(halo: int, offset: int, words: str) -> None:
    with pytest.raises(UnitError, match=words):
        tma.wide_rows(WIDE, halo, offset)


@pytest.mark.parametrize(
    ("changes", "words"), [({"swizzle": "none"}, "swizzle none"), ({"lower": (0, 0)}, "1 numbers"), ({"wide": "x"}, "wide 'x'")]
)
def test_rules_of_wide_maps(changes: dict, words: str) -> None:
    properties = {one.name: getattr(WIDE, one.name) for one in fields(WIDE)} | changes
    with pytest.raises(UnitError, match=words):
        Im2colMap(**properties).encode()
