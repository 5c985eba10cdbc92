"""Block-scaled tcgen05.mma: where scale factors stand in tensor memory, and what they multiply."""

import numpy as np
import pytest
from test_unit_mma import A_START, B_START, cells, place, run, setup, tensor_memory
from unit_memories import FlatShared, raises

from pipec.sim.units.numbers import numerics
from pipec.sim.units.numbers.formats import decode, decompose
from pipec.sim.units.tcgen05.copy import copy


def scale_chunk(scales):
    """[rows, 4] scale bytes -> the 512-byte chunks that tcgen05.cp.32x128b.warpx4 spreads over four columns each."""
    chunks = []
    for start in range(0, len(scales), 128):
        chunk = np.zeros(512, np.uint8)
        for r, row in enumerate(scales[start : start + 128]):
            chunk[r % 32 * 16 + r // 32 * 4 :][:4] = row
        chunks.append(chunk)
    return chunks


def copy_scales(shared, memory, scales, column):
    for index, chunk in enumerate(scale_chunk(scales)):
        shared.write(0x20000 + np.arange(512), chunk)
        copy("32x128b", "warpx4", column + 4 * index, 0x0000400800002000, shared, memory)


@pytest.mark.parametrize("scale_id", [0, 1, 2, 3])
def test_block_scaled_fp8(scale_id):
    rng = np.random.default_rng(20 + scale_id)
    a, b, (shared,) = setup(rng, "e4m3", 128, 256, 32)
    memory = tensor_memory()
    scale_a, scale_b = rng.integers(120, 134, (128, 4)), rng.integers(120, 134, (256, 4))
    copy_scales(shared, memory, scale_a, 256)
    copy_scales(shared, memory, scale_b, 260)
    idesc = 1 << 23 | 32 << 17 | 1 << 27 | scale_id << 29 | scale_id << 4
    run("mxf8f6f4", idesc, [memory], [shared], scale_addresses=(256, 260))
    block = slice(scale_id, scale_id + 1)
    expected = numerics.accumulate(
        decompose(a, "e4m3"),
        decompose(b, "e4m3"),
        None,
        scale_a=decompose(scale_a[:, block], "ue8m0"),
        scale_b=decompose(scale_b[:, block], "ue8m0"),
    )
    assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(256)), expected)


def test_block_scaled_pair():
    """Each CTA holds the scales of its own rows and of all columns."""
    rng = np.random.default_rng(25)
    a, b, shared = setup(rng, "e4m3", 128, 96, 32, ctas=2)
    tensors = [tensor_memory(), tensor_memory()]
    scale_a, scale_b = rng.integers(120, 134, (256, 4)), rng.integers(120, 134, (192, 4))
    for rank in range(2):
        copy_scales(shared[rank], tensors[rank], scale_a[128 * rank : 128 * rank + 128], 256)
        copy_scales(shared[rank], tensors[rank], scale_b, 260)
    idesc = 1 << 23 | 192 >> 3 << 17 | 2 << 27
    run("mxf8f6f4", idesc, tensors, shared, scale_addresses=(256, 260))
    parts = (decompose(scales[:, :1], "ue8m0") for scales in (scale_a, scale_b))
    expected = numerics.accumulate(
        decompose(a, "e4m3"), decompose(b, "e4m3"), None, **dict(zip(("scale_a", "scale_b"), parts, strict=True))
    )
    for rank in range(2):
        got = cells(tensors[rank], np.arange(128)[:, None], np.arange(192))
        assert np.array_equal(got, expected[128 * rank : 128 * rank + 128])


@pytest.mark.parametrize(
    ("kind", "vector", "scale_name", "scale_id"),
    [
        ("mxf4", None, "ue8m0", 0),
        ("mxf4", 2, "ue8m0", 2),
        ("mxf4nvf4", 4, "ue4m3", 0),
        ("mxf4nvf4", 4, "ue8m0", 0),
        ("mxf4nvf4", 2, "ue8m0", 2),
    ],
)
def test_block_scaled_fp4(kind, vector, scale_name, scale_id):
    rng = np.random.default_rng(30)
    a, b = rng.integers(0, 16, (128, 64)).astype(np.uint8), rng.integers(0, 16, (64, 64)).astype(np.uint8)
    shared, memory = FlatShared(), tensor_memory()
    for start, patterns in ((A_START, a), (B_START, b)):
        place(shared, start, patterns[:, 0::2] | patterns[:, 1::2] << 4)
    low, high = (120, 134) if scale_name == "ue8m0" else (1, 127)
    scale_a, scale_b = rng.integers(low, high, (128, 4)), rng.integers(low, high, (64, 4))
    copy_scales(shared, memory, scale_a, 256)
    copy_scales(shared, memory, scale_b, 260)
    idesc = (scale_name == "ue8m0") << 23 | 1 << 7 | 1 << 10 | 8 << 17 | 1 << 27 | scale_id << 29 | scale_id << 4
    run(kind, idesc, [memory], [shared], scale_addresses=(256, 260), scale_vector=vector)
    blocks = slice(scale_id, scale_id + (vector or 2))
    expected = numerics.accumulate_fp4(
        decode(a, "e2m1"),
        decode(b, "e2m1"),
        None,
        decompose(scale_a[:, blocks], scale_name),
        decompose(scale_b[:, blocks], scale_name),
    )
    assert np.array_equal(cells(memory, np.arange(128)[:, None], np.arange(64)), expected)


def test_scale_rules():
    rng = np.random.default_rng(31)
    _, _, (shared,) = setup(rng, "e4m3", 128, 64, 32)
    memory = tensor_memory()
    idesc = 1 << 23 | 8 << 17 | 1 << 27
    with raises("illegal", "needs two scale addresses"):
        run("mxf8f6f4", idesc, [memory], [shared])
    with raises("uninitialised", "scales of A", "column 256"):
        run("mxf8f6f4", idesc, [memory], [shared], scale_addresses=(256, 260))
    copy_scales(shared, memory, np.full((128, 4), 127), 256)
    copy_scales(shared, memory, np.full((128, 4), 127), 260)
    memory.write_cells(np.array([32]), np.array([256]), np.array([0]), "test")
    with raises("illegal", "row 0", "partition 1"):
        run("mxf8f6f4", idesc, [memory], [shared], scale_addresses=(256, 260))
    with raises("illegal", "lane 32"):
        run("mxf8f6f4", idesc, [memory], [shared], scale_addresses=(32 << 16 | 256, 260))
    with raises("unsupported", "M = 128"):
        run("mxf8f6f4", idesc, [memory] * 2, [shared] * 2, scale_addresses=(256, 260))
