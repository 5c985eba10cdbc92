"""Whatever bits a program hands over, a unit either works or raises UnitError."""

import contextlib

import numpy as np
import pytest
from unit_memories import FlatShared, mma

from pipec.sim.units.copies import tma
from pipec.sim.units.copies.tensormap import DTYPE_NAMES, FILLS, INTERLEAVES, SWIZZLE_NAMES, TensorMap
from pipec.sim.units.errors import UnitError
from pipec.sim.units.tcgen05.copy import COPY_SHAPES, copy
from pipec.sim.units.tcgen05.descriptors import KINDS, decode_instruction_descriptor, decode_matrix_descriptor
from pipec.sim.units.tcgen05.fragments import FRAGMENTS
from pipec.sim.units.tcgen05.memory import TensorMemory


class Anything:
    """A shared memory whose every byte was written, with random contents."""

    def __init__(self, rng):
        self.memory = FlatShared()
        self.memory.write(np.arange(1 << 18), rng.integers(0, 256, 1 << 18).astype(np.uint8))

    def read(self, offsets):
        return self.memory.read(offsets)

    def read_granules(self, granules):
        return self.memory.read_granules(granules)


class Endless:
    """A global memory without edges."""

    def gather(self, addresses):
        return (addresses & 0xFF).astype(np.uint8)

    def scatter(self, addresses, values):
        assert addresses.shape == values.shape

    def gather_runs(self, starts, length):
        return self.gather(starts[:, None] + np.arange(length))

    def scatter_runs(self, starts, values):
        assert starts.shape == values.shape[:1]


def attempt(operation, *arguments, **options):
    """True when the operation went through; any error but UnitError propagates."""
    with contextlib.suppress(UnitError):
        operation(*arguments, **options)
        return True
    return False


@pytest.mark.parametrize("kind", KINDS)
def test_random_descriptors(kind):
    rng = np.random.default_rng(1)
    for word in rng.integers(0, 1 << 32, 500):
        for group in (1, 2):
            attempt(decode_instruction_descriptor, int(word), kind, group, None, sparse=bool(word & 4))
    for word in rng.integers(0, 1 << 63, 500):
        attempt(decode_matrix_descriptor, int(word) * 2)


@pytest.mark.parametrize("kind", KINDS)
def test_random_instructions(kind):
    """Plausible descriptors with random fields: many go through, none breaks."""
    rng = np.random.default_rng(2)
    shared = Anything(rng)
    scaled = KINDS[kind].block_scaled
    passed = 0
    for _ in range(30):
        group = int(rng.integers(1, 3))
        tensors = [TensorMemory() for _ in range(group)]
        for memory in tensors:
            memory.allocate(512)
            memory.write_cells(np.arange(128)[:, None], np.arange(512), rng.integers(0, 1 << 32, (128, 512), np.uint64), "test")
        codes = list(KINDS[kind].types)
        idesc = int(rng.choice(codes)) << 7 | int(rng.choice(codes)) << 10 | int(rng.integers(0, 4)) << 15
        idesc |= int(rng.integers(1, 5)) * 4 << 17
        if scaled:
            idesc |= int(rng.integers(0, 2)) << 23 | group << 27
        else:
            idesc |= int(rng.choice(list(KINDS[kind].results))) << 4 | int(rng.choice([4, 8, 16])) << 24
        layouts = rng.choice([0, 1, 2, 4, 6], 2)
        a, b = (1 << 46 | int(layout) << 61 | 64 << 32 | 32 << 16 | 64 for layout in layouts)
        options = {"scale_addresses": (256, 300)} if scaled else {}
        vector = int(rng.choice(list(KINDS[kind].scale_blocks))) if scaled else None
        in_tmem = bool(rng.integers(0, 2))
        arguments = (kind, idesc, 400 if in_tmem else a, b, tensors, [shared] * group, 0, True, group)
        passed += attempt(mma, *arguments, a_in_tmem=in_tmem, scale_vector=vector, **options)
    assert passed or scaled


def test_random_tensor_memory_accesses():
    rng = np.random.default_rng(3)
    memory = TensorMemory()
    memory.allocate(256)
    for _ in range(400):
        shape, count = str(rng.choice([*FRAGMENTS, "8x1"])), int(rng.choice([1, 3, 16, 128, 256]))
        address = int(rng.choice([0, 32, 48, 200])) << 16 | int(rng.integers(0, 600))
        attempt(memory.store, shape, count, address, int(rng.integers(0, 8)), np.zeros((32, count)), bool(rng.integers(0, 2)), -7)
        attempt(memory.load, shape, count, address, int(rng.integers(0, 8)), bool(rng.integers(0, 2)), int(rng.integers(0, 600)))


def test_random_copies_to_tensor_memory():
    rng = np.random.default_rng(4)
    shared, memory = Anything(rng), TensorMemory()
    memory.allocate(64)
    keys = list(COPY_SHAPES)
    for _ in range(200):
        shape, multicast = keys[rng.integers(0, len(keys))]
        word = int(rng.integers(0, 1 << 14)) | 1 << 46 | int(rng.choice([0, 1, 2, 4, 6])) << 61 | 1 << 35
        formats = [None, "b6x16_p32", "b4x16_p64"]
        attempt(copy, shape, multicast, int(rng.integers(0, 80)), word, shared, memory, formats[rng.integers(0, 3)])


def test_random_tensor_maps():
    rng = np.random.default_rng(5)
    passed = 0
    for _ in range(600):
        rank = int(rng.integers(0, 7))
        tensor_map = TensorMap(
            dtype=str(rng.choice(DTYPE_NAMES)),
            dims=tuple(int(x) for x in rng.choice([1, 7, 128, 4096, 1 << 32], rank)),
            strides=tuple(int(x) for x in rng.choice([0, 16, 64, 4096, (1 << 40) - 32], max(rank - 1, 0))),
            box=tuple(int(x) for x in rng.choice([1, 2, 16, 128, 256], rank, p=[0.4, 0.2, 0.2, 0.1, 0.1])),
            element_strides=tuple(int(x) for x in rng.integers(1, 9, rank)) if rng.integers(0, 2) else None,
            swizzle=str(rng.choice(SWIZZLE_NAMES)),
            interleave=str(rng.choice(INTERLEAVES, p=[0.8, 0.1, 0.1])),
            fill=str(rng.choice(FILLS)),
            address=int(rng.choice([0, 32, 1 << 40])),
        )
        if not attempt(tensor_map.validate):
            continue
        assert TensorMap.decode(tensor_map.encode()) == tensor_map
        coords = tuple(int(x) * 128 for x in rng.integers(-2, 3, rank))
        if attempt(tma.load, tensor_map, coords, Endless()):
            passed += 1
            data = tma.load(tensor_map, coords, Endless())
            assert data.size == tma.transaction_bytes(tensor_map) == tma.smem_offsets(tensor_map, 0x400).size
            attempt(tma.store, tensor_map, coords, data, Endless())
            attempt(tma.reduce, tensor_map, coords, str(rng.choice(["add", "min", "and"])), data, Endless())
    assert passed > 5
