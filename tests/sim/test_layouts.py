"""Tiles remember how they were written: an MMA that reads one in another layout or type is told so, with both sides."""

from __future__ import annotations

import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, Result, ScalarArgument, SimulationError, TensorMap, TensorMapArgument, launch

from .gemm_ptx import SHARED_BYTES, gemm_ptx
from .race_programs.matrix_units import DESCRIPTORS, DONE, FILLED, WGMMA
from .race_programs.program import EXPECT, HEAD, SETUP, Program, wait

HOPPER = (Path(__file__).parent / "ptx" / "hopper_tile.ptx").read_text()
DESCRIPTOR = "0x4000404000000000"


def gemm(text: str, options: Options, swizzle: str = "128B", dtype: str = "bf16", box: int = 64) -> Result:
    k = 128
    a, b, d = (
        np.ones((128, k), ml_dtypes.bfloat16),
        np.ones((256, k), ml_dtypes.bfloat16),
        np.zeros((128, 256), ml_dtypes.bfloat16),
    )
    maps = [
        TensorMapArgument(TensorMap(dtype, (k, len(array)), (2 * k,), (box, len(array)), swizzle=swizzle), array)
        for array in (a, b)
    ]
    numbers = [ScalarArgument(struct.pack("<I", number)) for number in (k // 64, 256)]
    return launch(text, "gemm", dynamic_smem=SHARED_BYTES, options=options, arguments=[*maps, ArrayArgument(d), *numbers])


def changed(old: str, new: str, text: str | None = None) -> str:
    text = text or gemm_ptx()
    assert old in text
    return text.replace(old, new)


FAULTS = {
    "descriptor: swizzle of 64 bytes": (changed(DESCRIPTOR, "0x8000404000000000"), {}, "with swizzle 64B"),
    "descriptor: swizzle of 32 bytes": (changed(DESCRIPTOR, "0xC000404000000000"), {}, "with swizzle 32B"),
    "descriptor: no swizzle": (changed(DESCRIPTOR, "0x0000404000000000"), {}, "with no swizzle"),
    "descriptor: rows half as far apart": (changed(DESCRIPTOR, "0x4000402000000000"), {}, "twice"),
    "descriptor: rows twice as far apart": (changed(DESCRIPTOR, "0x4000408000000000"), {}, "row 8"),
    "descriptor: starts 16 bytes too far": (changed("add.s64 %rd5, %rd3, 2;", "add.s64 %rd5, %rd3, 1;"), {}, "operand A"),
    "descriptor: starts in the last 16 bytes": (changed("add.s64 %rd6, %rd4, 2;", "add.s64 %rd6, %rd4, 7;"), {}, "operand B"),
    "map: swizzle of 64 bytes": (gemm_ptx(24576), {"swizzle": "64B", "box": 32}, "with swizzle 64B"),
    "map: another type": (gemm_ptx(), {"dtype": "f16"}, "the elements are f16"),
    "instruction: another type": (changed("0x08400490", f"{0x08400490 & ~(1 << 7):#x}"), {}, "the elements are bf16"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("timing", ["order", "late"])
def test_planted_faults_are_found_in_one_run(name, timing):
    text, options, words = FAULTS[name]
    with pytest.raises(SimulationError) as caught:
        # That some bytes were not loaded, or are being loaded, is another matter.
        gemm(text, Options(timing, checks={"uninitialised": "off", "race": "off"}), **options)
    error = caught.value
    assert error.kind == "layout" and words in error.message
    lines = text.splitlines()
    assert "tcgen05.mma" in lines[error.ptx_line - 1]
    assert "cp.async.bulk.tensor" in lines[error.details["other"]["ptx_line"] - 1]
    assert "role `mma`" in error.message and "role `load`" in error.message


def test_what_fits_is_not_reported():
    assert gemm(gemm_ptx(), Options()).findings == []
    # Of a swizzled operand along K the leading offset says nothing.
    assert gemm(changed(DESCRIPTOR, "0x4000404000010000"), Options()).findings == []
    assert gemm(gemm_ptx(), Options(), dtype="u16").findings == []


# What the descriptors say fits the boxes, and the sums are wrong: the second MMA takes other elements of B than those of its K.
OUT_OF_STEP = {
    "starts a step too far in one MMA": (changed("add.s64 %rd6, %rd4, 2;", "add.s64 %rd6, %rd4, 4;"), {}, "along rows"),
    "starts where the one before it did": (changed("add.s64 %rd6, %rd4, 2;", "mov.b64 %rd6, %rd4;"), {}, "along rows"),
}


@pytest.mark.parametrize("name", OUT_OF_STEP)
def test_of_one_pair_of_boxes_all_go_through_k_alike(name):
    text, _, words = OUT_OF_STEP[name]
    found = gemm(text, Options()).findings
    # (What the others then leave unread is told as well.)
    assert (
        found and "steps" in {one.check for one in found} <= {"steps", "unread"} and {one.severity for one in found} == {"warn"}
    )
    found = [one for one in found if one.check == "steps"]
    assert any(words in one.message for one in found)
    assert all(one.message.count("tcgen05.mma of role `mma`") == 2 for one in found)


def of_one_mma(old: str, new: str) -> str:
    """The second of the four steps of K through a tile."""
    head, *parts = gemm_ptx().split("tcgen05.mma.")
    assert old in parts[1]
    return "tcgen05.mma.".join([head, parts[0], parts[1].replace(old, new), *parts[2:]])


def with_bit(bit: int) -> str:
    return of_one_mma("0x08400490", f"{0x08400490 ^ 1 << bit:#x}")


# What the boxes say nothing of, or what is told of their neighbours as well.
UNLIKE = {
    "negated A": (with_bit(13), "warn", "one of them negates A"),
    "negated B": (with_bit(14), "warn", "one of them negates B"),
    "transposed A": (with_bit(15), "error", "differ in which dimension is contiguous"),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_successive_steps_of_k_read_one_tile_alike(name: str) -> None:
    text, severity, words = UNLIKE[name]
    checks = {"layout": "warn", "uninitialised": "off", "race": "off"}
    found = [one for one in gemm(text, Options(checks=checks)).findings if words in one.message]
    assert found and {one.check for one in found} == {"steps" if severity == "warn" else "layout"}
    assert all(one.message.count("tcgen05.mma of role `mma`") == 2 and one.details["other"]["ptx_line"] for one in found)


@pytest.mark.parametrize("severity", ["warn", "off"])
def test_the_check_is_switched_by_its_name(severity):
    # Four instructions, two operands each.
    result = gemm(FAULTS["map: another type"][0], Options(checks={"layout": severity}), dtype="f16")
    assert len(result.findings) == (8 if severity == "warn" else 0)
    assert all(finding.check == "layout" and finding.count > 1 for finding in result.findings)


HOPPER_FAULTS = {
    "type": ("128B", "f16", HOPPER, "the elements are f16"),
    "layout bits": ("128B", "bf16", HOPPER.replace("4611686293305294848", "9223372311732682752"), "swizzle 64B"),
}


def hopper(swizzle: str, dtype: str, text: str) -> Result:
    a, b, d = np.ones((64, 64), ml_dtypes.bfloat16), np.ones((32, 64), ml_dtypes.bfloat16), np.zeros((64, 32), np.float32)
    maps = [TensorMapArgument(TensorMap(dtype, (64, len(x)), (128,), (64, len(x)), swizzle=swizzle), x, False) for x in (a, b)]
    out = TensorMapArgument(TensorMap("f32", (32, 64), (128,), (32, 64)), d)
    arguments = [*maps, out, ArrayArgument(d)]
    return launch(
        text, block=128, dynamic_smem=16384 + 8192, arguments=arguments, options=Options(checks={"uninitialised": "off"})
    )


B_AS_IT_IS = "p, 1, 1, 0, 0;"


def test_a_transposed_operand_that_fits_the_box():
    """64 bytes of N from steps 0 to 2 of K on are there, and those from step 3 on go on in the next row."""
    with pytest.raises(SimulationError, match="bytes 0..15 of row 1 of the box") as caught:
        hopper("128B", "bf16", HOPPER.replace(B_AS_IT_IS, "p, 1, 1, 0, 1;"))
    assert {one.check for one in caught.value.findings} == {"layout", "steps", "unread"}


def test_a_transposed_operand_of_one_mma():
    with pytest.raises(SimulationError, match="differ in which dimension is contiguous") as caught:
        hopper("128B", "bf16", HOPPER.replace(B_AS_IT_IS, "p, 1, 1, 0, 1;", 1))
    assert {one.check for one in caught.value.findings} == {"layout", "steps", "unread"}
    assert any("along columns" in one.message for one in caught.value.findings)


def test_an_operand_that_continues_in_another_box():
    """A and B lie behind each other, so that 8 rows too far there is another tile."""
    descriptor = "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
    text = HOPPER.replace(descriptor, f"add.s64 %rd9, %rd9, 64; {descriptor}", 1)
    result = hopper("128B", "bf16", text)
    assert {one.check for one in result.findings} == {"steps", "unread"} and "begins in row 8 of that box" in result.findings[
        0
    ].message


# Four parts of K, each of 16 rows of A behind each other and 8 of B; an MMA has 64 rows of A, of which 16 are wanted.
PARTS_OF_K = (
    HEAD.format(target="sm_90a") + ".entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 b[128])\n{\n"
    + SETUP.replace("ld.param.u64 %array, [a];\n", "")
    + "mov.b64 %rd3, from; cvta.param.u64 %rd3, %rd3; mov.b64 %rd4, b; cvta.param.u64 %rd4, %rd4; add.u32 %r20, %tile, 8192;\n"
    + "@%first mbarrier.init.shared::cta.b64 [%bar], 1; fence.proxy.async.shared::cta; bar.sync 0;\n@%first "
    + EXPECT.format("%bar", 12288)
    + "".join(
        "@%first cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
        f"[{to}], [{what}, {{%k, %k, %k}}], [%bar];\n"
        for to, what in (("%tile", "%rd3"), ("%r20", "%rd4"))
    )
    + wait("%bar", "0", "W")
)  # fmt: skip


@pytest.mark.parametrize(("further", "told"), [(0, False), (8, True)])
def test_an_operand_that_begins_in_a_part_of_a_box(further: int, told: bool) -> None:
    """... where the box has several parts of K: in its first row, or `further` on."""
    body = PARTS_OF_K + "setp.eq.u32 %p6, %k, 0; wgmma.fence.sync.aligned;\n"
    for part in range(4):
        a, b = (f"add.u32 %r10, {base}; and.b32 %r10, %r10, 0x3FFFF; shr.u32 %r10, %r10, 4; mov.b64 {to}, {{%r10, %r11}};\n"
                for base, to in ((f"%tile, {2048 * part + 128 * further}", "%rd5"), (f"%tile, {8192 + 1024 * part}", "%rd6")))  # fmt: skip
        body += f"mov.u32 %r11, {64 | 1 << 30}; {a}{b}{WGMMA}"
    arrays = [np.ones((rows, 256), ml_dtypes.bfloat16) for rows in (16, 8)]
    maps = [TensorMapArgument(TensorMap("bf16", (64, len(x), 4), (512, 128), (64, len(x), 4), swizzle="128B"), x) for x in arrays]
    checks = {"uninitialised": "off", "unread": "off"}
    result = launch(f"{body}{DONE}ret;\n}}\n", "k", block=128, dynamic_smem=65536, arguments=maps, options=Options(checks=checks))
    assert {one.check for one in result.findings} == ({"steps"} if told else set())


@pytest.mark.parametrize("name", HOPPER_FAULTS)
def test_wgmma_too(name):
    swizzle, dtype, text, words = HOPPER_FAULTS[name]
    assert name == "type" or text != HOPPER
    with pytest.raises(SimulationError) as caught:
        hopper(swizzle, dtype, text)
    assert caught.value.kind == "layout" and words in caught.value.message and "wgmma" in caught.value.message


@pytest.mark.parametrize(("base", "row", "told"), [(0, 0, False), (5, 0, True), (5, 5, False), (0, 5, False), (1, 5, True)])
def test_a_base_offset_is_that_of_the_address(base: int, row: int, told: bool) -> None:
    """Of tiles that threads wrote, of which nothing else is known."""
    descriptors = DESCRIPTORS.format(upper=64 | 1 << 30 | base << 17).replace(
        "%r10, %tile,", f"%r10, %tile, {128 * row}; and.b32 %r10, %r10,"
    )
    body = (
        descriptors.replace("and.b32", "add.u32", 1)
        + FILLED
        + "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n"
        + WGMMA
        + DONE
    )
    program = Program(body, {}, threads=128)
    try:
        found = program.run(options=Options(checks={"uninitialised": "off"})).findings
    except SimulationError as error:
        found = error.findings
    assert any("base offset" in finding.message for finding in found if finding.check == "layout") == told
