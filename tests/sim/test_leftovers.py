"""Tiles of which a part is read by nobody, sums that nobody reads, and layouts that loads and copies disagree on: faults that change
results and break no order."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import Options, SimulationError, TensorMap, TensorMapArgument, launch
from pipec.sim.findings import Finding

from .gemm_ptx import gemm_ptx
from .race_programs.matrix_units import (
    AFTER,
    ALLOCATED,
    BEFORE,
    COMMIT,
    DESCRIPTORS,
    DONE,
    FILLED,
    FREED,
    LOAD,
    MMA,
    MULTIPLIED,
    WGMMA,
)
from .race_programs.program import HEAD, SETUP, Program, wait
from .test_layouts import HOPPER, gemm, hopper

WAITED = "tcgen05.wait::ld.sync.aligned;\n" + BEFORE
OTHER = {"checks": {"uninitialised": "off", "race": "off"}}


def found(run: Callable[[], object]) -> list[Finding]:
    """Whether or not they are errors."""
    try:
        return list(run().findings)  # type: ignore[attr-defined]
    except SimulationError as error:
        return error.findings


def checks(run: Callable[[], object]) -> set[str]:
    return {str(one.check) for one in found(run)}


# ---- parts of a tile


def step_removed(number: int) -> str:
    """The GEMM without one of its four steps of K."""
    head, *parts = gemm_ptx().split("tcgen05.mma.")
    assert len(parts) == 4
    kept, behind = parts[number].split(";", 1)
    assert kept.startswith("cta_group")
    return "tcgen05.mma.".join([head, *parts[:number], f"\0{behind}", *parts[number + 1 :]]).replace("tcgen05.mma.\0", "")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_step_of_k_that_is_left_out(number: int) -> None:
    (one, *_) = (finding for finding in gemm(step_removed(number), Options()).findings if finding.check == "unread")
    assert (
        one.severity == "warn" and "nobody reads what it wrote at" in one.message and "tcgen05.mma of role `mma`" in one.message
    )


COPIED = (
    HEAD.format(target="sm_90a")
    + ".entry k(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128])\n{\n"
    + SETUP.replace("ld.param.u64 %array, [a];\n", "")
    + "mov.b64 %rd3, from; cvta.param.u64 %rd3, %rd3; mov.b64 %rd4, to; cvta.param.u64 %rd4, %rd4;\n"
    + "@%first mbarrier.init.shared::cta.b64 [%bar], 1; fence.proxy.async.shared::cta; bar.sync 0;\n"
)
ARRIVES = "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 4096;\n"
LOADED = (
    ARRIVES
    + "@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%tile], [%rd3, {%k, %k}], [%bar];\n"
    + wait("%bar", "0", "W")
)  # fmt: skip
STORED = """@%first cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd4, {%k, %k}], [%tile];
@%first cp.async.bulk.commit_group; @%first cp.async.bulk.wait_group 0;
"""
# Each thread has half a row of 128 bytes: of 32 rows, swizzled as `128B` asks.
PLACES = """shr.u32 %r10, %t, 1; and.b32 %r11, %t, 1; shl.b32 %r11, %r11, 2; and.b32 %r12, %r10, 7; shl.b32 %r13, %r10, 7;
"""
CHUNK = "add.u32 %r14, %r11, {0}; xor.b32 %r14, %r14, %r12; mad.lo.u32 %r14, %r14, 16, %r13; add.u32 %r14, %r14, %tile;\n"
EACH = "".join(CHUNK.format(chunk) + "{0}\n" for chunk in range(4))
STAGED = (
    PLACES + EACH.replace("{0}", "st.shared.v4.b32 [%r14], {%t, %t, %t, %t};") + "fence.proxy.async.shared::cta; bar.sync 0;\n"
)
TAKEN = PLACES + EACH.replace("{0}", "ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r14];")


def copied(
    body: str,
    load: tuple[str, int, int] = ("128B", 64, 32),
    store: tuple[str, int, int] = ("128B", 64, 32),
    dims: tuple[int, int] = (64, 32),
    grid: int = 1,
) -> object:
    """`load` and `store`: the swizzles and boxes of the maps; `dims` of the tensors."""
    arrays = [np.ones((32, 64), ml_dtypes.bfloat16), np.zeros((32, 64), ml_dtypes.bfloat16)]
    maps = [
        TensorMapArgument(TensorMap("bf16", dims, (128,), (width, rows), swizzle=swizzle), array)
        for (swizzle, width, rows), array in zip((load, store), arrays, strict=True)
    ]
    text = COPIED + body + "\nret;\n}\n"
    return launch(text, "k", grid=grid, block=64, dynamic_smem=65536, arguments=maps, options=Options(**OTHER))


COPIES = {
    "loaded and stored": (LOADED + STORED, {}, {"store": ("128B", 64, 16)}, "unread", "nobody reads what it wrote"),
    "loaded and stored in another swizzle": (LOADED + STORED, {}, {"store": ("64B", 32, 32)}, "layout", "in another order"),
    "loaded plainly and stored": (LOADED + STORED, {}, {"load": ("none", 64, 32)}, "layout", "in another order"),
    "stored by threads": (STAGED + STORED, {}, {"store": ("128B", 64, 16)}, "unread", "nobody reads what it stored"),
    "loaded by threads": (LOADED + TAKEN, {}, {"load": ("none", 64, 32)}, "layout", "swizzle 128B makes neighbours"),
}


@pytest.mark.parametrize("name", COPIES)
def test_maps_that_do_not_fit_what_is_done_with_their_tiles(name: str) -> None:
    body, right, wrong, check, words = COPIES[name]
    assert not found(lambda: copied(body, **right))  # type: ignore[arg-type]
    told = found(lambda: copied(body, **wrong))  # type: ignore[arg-type]
    assert any(one.check == check and words in one.message for one in told), told


# All of the tile in the order of its bytes, and then half of each half row, swizzled.
PLAIN = "mad.lo.u32 %r10, %t, 16, %tile;\n" + "".join(
    f"st.shared.v4.b32 [%r10+{1024 * quarter}], {{{{{{0}}, {{0}}, {{0}}, {{0}}}}}};\n" for quarter in range(4)
)
HALVES = PLACES + "".join(f"{CHUNK.format(chunk)}st.shared.v4.b32 [%r14], {{%t, %t, %t, %t}};\n" for chunk in range(2))
OUT = "fence.proxy.async.shared::cta; bar.sync 0;\n" + STORED


def test_a_tile_that_is_filled_before_it_is_written() -> None:
    """Zeros are the same in any order; other data in the order of the bytes is not what a swizzled map takes."""
    assert found(lambda: copied(PLAIN.format("%k") + "bar.sync 0;\n" + HALVES + OUT)) == []
    assert found(lambda: copied(PLAIN.format("%k") + OUT)) == []
    assert checks(lambda: copied(PLAIN.format("%t") + OUT)) == {"linear"}


def test_a_tile_beside_the_one_that_is_stored() -> None:
    """As of a symmetric product, whose transposed tile is not stored on the diagonal. What belongs to the tile that is stored is next to
    it."""
    other = "mad.lo.u32 %r10, %t, 16, %tile; st.shared.v4.b32 [%r10+{}], {{%t, %t, %t, %t}};\n"
    assert found(lambda: copied(other.format(16384) + STAGED + STORED)) == []
    assert checks(lambda: copied(other.format(4096) + STAGED + STORED)) == {"unread"}


# The second half of the rows, in the first CTA alone.
SECOND = """setp.eq.u32 %p1, %cta, 0; and.pred %p1, %p1, %first; mov.u32 %r30, 16; add.u32 %r31, %tile, 2048;
@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd4, {%k, %r30}], [%r31];
@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;
"""


def test_parts_that_some_ctas_store_and_others_do_not() -> None:
    """How many rows there are depends on the data, as in products of groups."""
    rows = ("128B", 64, 16)
    assert found(lambda: copied(STAGED + STORED + SECOND, store=rows, grid=2)) == []
    assert checks(lambda: copied(STAGED + STORED, store=rows, grid=2)) == {"unread"}


def test_loads_of_plain_bytes_are_no_mistake() -> None:
    """Whoever ignores the swizzle may have another view of the tile."""
    body = LOADED + "mad.lo.u32 %r10, %t, 64, %tile; ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r10];\n"
    assert found(lambda: copied(body)) == []


@pytest.mark.parametrize(
    ("dims", "store"), [((32, 32), ("128B", 32, 32)), ((64, 20), ("128B", 64, 24)), ((28, 12), ("128B", 32, 16))]
)
def test_fill_for_elements_outside_the_tensor_is_not_missed(dims: tuple[int, int], store: tuple[str, int, int]) -> None:
    """A box that is larger than its tensor, of which the copies read what the tensor has."""
    assert found(lambda: copied(LOADED + STORED, store=store, dims=dims)) == []
    less = ("128B", store[1], store[2] - 8)
    for missing in (lambda: copied(LOADED + STORED, store=store), lambda: copied(LOADED + STORED, store=less, dims=dims)):
        assert "unread" in checks(missing)


# ---- sums


def products(*second: str) -> list[Finding]:
    """Of two wgmma on the same registers."""
    text = DESCRIPTORS.format(upper=16) + FILLED + "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n" + WGMMA
    return found(lambda: Program(text + "".join(second), {}, threads=128).run())


def test_registers_that_nobody_can_have_read() -> None:
    (one,) = products(WGMMA, DONE)
    assert one.check == "lost" and "overwrites" in one.message and "nobody has read those sums" in one.message
    assert not products(DONE, WGMMA, DONE)  # they may have been read in between
    assert not products(
        "wgmma.commit_group.sync.aligned;\n", WGMMA, DONE
    )  # given up, as attention does with keys that are hidden


def test_tensor_memory_that_nobody_has_read() -> None:
    again = MULTIPLIED.replace(MMA + COMMIT, MMA + MMA + COMMIT)
    behind = wait("%bar2", "0", "W2") + AFTER + LOAD + WAITED + FREED
    assert ALLOCATED in again
    (one,) = found(lambda: Program(again + behind, {}, threads=128, target="sm_100a").run())
    assert one.check == "lost" and "tcgen05.mma" in one.message
    added = again.replace(MMA + MMA, MMA + "setp.eq.u32 %p6, %k, 0;\n" + MMA)
    assert "lost" not in checks(lambda: Program(added + behind, {}, threads=128, target="sm_100a").run())


def test_sums_of_which_a_part_is_read() -> None:
    """N = 16: all columns, and all but the first one."""
    right = MULTIPLIED + wait("%bar2", "0", "W2") + AFTER + LOAD + WAITED + FREED
    assert "unread" not in checks(lambda: Program(right, {}, threads=128, target="sm_100a").run())
    shifted = right.replace("[%r25]", "[%r25+1]")
    told = found(lambda: Program(shifted, {}, threads=128, target="sm_100a").run(options=Options(**OTHER)))
    (one,) = (finding for finding in told if finding.check == "unread")
    assert "nobody reads tensor memory lanes" in one.message and "column 0" in one.message


def unread_sums(loaded: str, operands: int = 5120) -> list[Finding]:
    """Of a product of 128 x 16 of which the warps load this; so many `operands` bytes are copied."""
    text = MULTIPLIED.replace("5120", str(operands)) + wait("%bar2", "0", "W2") + AFTER + loaded + WAITED + FREED
    told = found(lambda: Program(text, {}, threads=128, target="sm_100a").run(options=Options(**OTHER)))
    return [one for one in told if one.check == "unread"]


def test_products_on_the_diagonal_of_one() -> None:
    """Each warp has a product of its own, of four of the columns."""
    lanes = "shl.b32 %r24, %warp, 21; mad.lo.u32 %r24, %warp, 4, %r24; add.u32 %r25, %r21, %r24;\n"
    four = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2, %r3, %r4}, [%r25];\n"
    assert not unread_sums(lanes + four)
    # All warps take the same columns.
    (one,) = unread_sums(lanes.replace("mad.lo.u32 %r24, %warp, 4, %r24; ", "") + four)
    assert "column 4" in one.message


def test_rows_that_the_operand_does_not_have() -> None:
    """An MMA has at least 16 rows of B; of 8 that are copied, the other columns of the sums are nothing."""
    half = LOAD.replace("x16", "x8").replace(
        ", ".join(f"%r{number}" for number in range(1, 17)), ", ".join(f"%r{n}" for n in range(1, 9))
    )
    assert not unread_sums(half, 4352)
    (one,) = unread_sums(half)
    assert "column 8" in one.message


def test_what_hopper_leaves_out() -> None:
    """One wgmma of four is not executed."""
    third = list(re.finditer(r"wgmma\.mma_async[^;]*;", HOPPER))[2]
    text = HOPPER[: third.start()] + HOPPER[third.end() :]
    assert "unread" in checks(lambda: hopper("128B", "bf16", text))
    assert "unread" not in checks(lambda: hopper("128B", "bf16", HOPPER))


# ---- operand A in registers

_SUMS = ", ".join(f"%f{number}" for number in range(32))
_BOX = "@%first cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r30], [%rd3, {{%k, %r29}}], [%bar];\n"
_TILES = ARRIVES.replace("4096", "16384") + "".join(
    f"mov.u32 %r29, {64 * box}; add.u32 %r30, %tile, {8192 * box};\n" + _BOX.format() for box in (0, 1)
)
# The last 16 rows of the first box, 64 elements each, and after them the first 16 columns of the second one.
_STEP = "add.u32 %r31, %tile, {at}; and.b32 %r31, %r31, 0x3FFFF; shr.u32 %r31, %r31, 4; mov.b64 %rd5, {{%r31, %r32}};\n"
_BY_REGISTERS = (
    f"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{{{_SUMS}}}}}, {{{{%r20, %r21, %r22, %r23}}}}, %rd5, "
    "1, 1, 1, {transposed};\n"
)


def added_to(first: int, second: int, transposed: int) -> list[Finding]:
    """A product of registers with the 16 rows from `first` on, and one with what begins at `second`."""
    body = (
        _TILES + wait("%bar", "0", "W") + "mov.u32 %r32, 0x40000040; mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0;\n"
        + "".join(f"mov.b32 %f{number}, 0f00000000; " for number in range(32)) + "\nwgmma.fence.sync.aligned;\n"
        + _STEP.format(at=first) + _BY_REGISTERS.format(transposed=1)
        + _STEP.format(at=second) + _BY_REGISTERS.format(transposed=transposed) + DONE
    )  # fmt: skip
    array = np.ones((128, 64), ml_dtypes.bfloat16)
    one = TensorMapArgument(TensorMap("bf16", (64, 128), (128,), (64, 64), swizzle="128B"), array)
    text = COPIED + body + "\nret;\n}\n"
    checks = {"unread": "off", "layout": "warn"}
    return found(lambda: launch(text, "k", block=128, dynamic_smem=65536, arguments=[one, one], options=Options(checks=checks)))


def test_another_tile_behind_that_of_b() -> None:
    """Its rows may be read along K where those of the first are read along N: two products in one sum, one behind the other."""
    assert added_to(6144, 8192, 0) == added_to(6144, 8192, 1) == []


def test_the_same_tile_of_b_read_along_the_other_dimension() -> None:
    assert added_to(4096, 6144, 1) == []
    assert any("which dimension is contiguous" in one.message for one in added_to(4096, 6144, 0))
