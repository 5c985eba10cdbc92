"""Operand addresses: the descriptor must find every element where the tensor copy put it."""

import numpy as np
import pytest
from unit_memories import FlatShared, raises

from pipec.sim.units.copies import tma
from pipec.sim.units.copies.tensormap import TensorMap
from pipec.sim.units.tcgen05.descriptors import MatrixDescriptor, decode_matrix_descriptor
from pipec.sim.units.tcgen05.operands import operand_offsets, read_operand, read_packed_fp4


def copied(dtype, box, swizzle, address=0x400):
    """Shared address of each byte of a copied box, [rows, inner bytes]."""
    tensor_map = TensorMap(dtype, (4096, 4096), (16384,), box, swizzle=swizzle)
    return tma.smem_offsets(tensor_map, address).reshape(box[1], -1)


@pytest.mark.parametrize(("swizzle", "width"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_k_major_including_the_advance(swizzle, width):
    where = copied("bf16", (width // 2, 128), swizzle)
    for step in range(width // 32):
        descriptor = MatrixDescriptor(0x400 + 32 * step, 0, 8 * width, swizzle)
        got = operand_offsets(descriptor, 128, 16, 2, False)
        assert np.array_equal(got, where[:, 32 * step : 32 * step + 32])


def test_k_major_vector():
    got = operand_offsets(decode_matrix_descriptor(0x4000404000000042), 128, 16, 2, False)
    assert got[1, 0] == 0x4B0


@pytest.mark.parametrize(("swizzle", "width"), [("32B", 32), ("64B", 64), ("128B", 128)])
def test_mn_major_panels(swizzle, width):
    """TMA boxes {width/2 mn, 64 k}: panels follow each other, each 64 lines long."""
    panel, rows = 64 * width, 64
    panels = [copied("bf16", (width // 2, 64), swizzle, 0x400 + panel * index) for index in range(2 * rows // width)]
    lines = np.concatenate(panels, axis=1).reshape(64, rows, 2)
    for step in range(4):
        descriptor = MatrixDescriptor(0x400 + step * 16 * width, panel, 8 * width, swizzle)
        got = operand_offsets(descriptor, rows, 16, 2, True).reshape(rows, 16, 2)
        assert np.array_equal(got, lines[16 * step : 16 * step + 16].transpose(1, 0, 2))


def test_mn_major_vectors():
    got = operand_offsets(decode_matrix_descriptor(0x4000404002000040), 128, 16, 2, True).reshape(128, 16, 2)
    assert got[8, 1, 0] == 0x480 and got[64, 0, 0] == 0x2400


def test_mn_major_tf32_with_32_byte_atoms():
    panels = [copied("f32", (32, 32), "128B_ATOM_32B", 0x400 + 4096 * index) for index in range(4)]
    lines = np.concatenate(panels, axis=1).reshape(32, 128, 4)
    for step in range(4):
        descriptor = MatrixDescriptor(0x400 + 1024 * step, 4096, 512, "128B_ATOM_32B")
        got = operand_offsets(descriptor, 128, 8, 4, True).reshape(128, 8, 4)
        assert np.array_equal(got, lines[8 * step : 8 * step + 8].transpose(1, 0, 2))


def test_layouts_without_swizzle_exchange_the_offsets():
    k_major = operand_offsets(MatrixDescriptor(0x400, 2048, 128, "none"), 128, 16, 2, False)
    assert k_major[9, 17] == 0x400 + 16 + 128 + 2048 + 1
    mn_major = operand_offsets(MatrixDescriptor(0x400, 2048, 128, "none"), 128, 16, 2, True).reshape(128, 16, 2)
    assert mn_major[9, 9, 1] == 0x400 + 2 + 128 + 16 + 2048 + 1


def test_subbyte_containers_round_trip():
    rng = np.random.default_rng(0)
    for name, bits, payload in (("e2m1", 4, 8), ("e3m2", 6, 12), ("e2m3", 6, 12)):
        memory = FlatShared()
        patterns = rng.integers(0, 1 << bits, (64, 32)).astype(np.uint8)
        descriptor = MatrixDescriptor(0x400, 0, 256, "32B")
        offsets = operand_offsets(descriptor, 64, 32, 1, False).reshape(64, 2, 16)
        for row in range(64):
            for group in range(2):
                number = sum(int(patterns[row, 16 * group + i]) << bits * i for i in range(16))
                memory.write(offsets[row, group, :payload], np.frombuffer(number.to_bytes(payload, "little"), np.uint8))
        # The pads stay unwritten: reading them would raise.
        assert np.array_equal(read_operand(memory, descriptor, 64, 32, 1, False, name), patterns)


def test_subbyte_mn_major():
    memory = FlatShared()
    patterns = np.random.default_rng(1).integers(0, 16, (64, 32)).astype(np.uint8)
    descriptor = MatrixDescriptor(0x400, 4096, 512, "64B")
    offsets = operand_offsets(descriptor, 64, 32, 1, True)
    for k in range(32):
        for group in range(4):
            number = sum(int(patterns[16 * group + i, k]) << 4 * i for i in range(16))
            memory.write(offsets[16 * group : 16 * group + 8, k], np.frombuffer(number.to_bytes(8, "little"), np.uint8))
    assert np.array_equal(read_operand(memory, descriptor, 64, 32, 1, True, "e2m1"), patterns)


def test_packed_fp4_has_the_even_element_low():
    memory = FlatShared()
    memory.write(np.arange(0x400, 0x800), np.full(1024, 0x21, np.uint8))
    got = read_packed_fp4(memory, MatrixDescriptor(0x400, 0, 256, "32B"), 32, 64)
    assert got.shape == (32, 64) and (got[:, ::2] == 1).all() and (got[:, 1::2] == 2).all()


def test_layout_rules():
    with raises("illegal", "4 bytes", "layout 128B"):
        operand_offsets(MatrixDescriptor(0x400, 0, 1024, "128B"), 64, 8, 4, True)
    with raises("illegal", "2 bytes", "128B_ATOM_32B"):
        operand_offsets(MatrixDescriptor(0x400, 0, 1024, "128B_ATOM_32B"), 64, 16, 2, True)
    with raises("illegal", "no K-major"):
        operand_offsets(MatrixDescriptor(0x400, 0, 1024, "128B_ATOM_32B"), 64, 8, 4, False)
    with raises("out_of_bounds", "0x3ffff"):
        operand_offsets(MatrixDescriptor(0x3FF00, 0, 1024, "128B"), 64, 16, 2, False)
    with raises("illegal", "24 elements", "16"):
        read_operand(FlatShared(), MatrixDescriptor(0x400, 0, 512, "64B"), 24, 32, 1, True, "e2m1")
