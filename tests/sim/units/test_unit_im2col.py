"""im2col maps: encoding, the rules of the map, and the walk over pixels against a plain NumPy gather."""

import itertools

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
    fields = {name: getattr(PLANE, name) for name in PLANE.__dataclass_fields__} | changes
    with pytest.raises(UnitError, match=words):
        Im2colMap(**fields).encode()


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
