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


def copied(body: str, load: tuple[str, int, int] = ("128B", 64, 32), store: tuple[str, int, int] = ("128B", 64, 32)) -> object:
    """`load` and `store`: the swizzles and boxes of the maps."""
    arrays = [np.ones((32, 64), ml_dtypes.bfloat16), np.zeros((32, 64), ml_dtypes.bfloat16)]
    maps = [
        TensorMapArgument(TensorMap("bf16", (64, 32), (128,), (width, rows), swizzle=swizzle), array)
        for (swizzle, width, rows), array in zip((load, store), arrays, strict=True)
    ]
    return launch(COPIED + body + "\nret;\n}\n", "k", block=64, dynamic_smem=65536, arguments=maps, options=Options(**OTHER))


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


def test_loads_of_plain_bytes_are_no_mistake() -> None:
    """Whoever ignores the swizzle may have another view of the tile."""
    body = LOADED + "mad.lo.u32 %r10, %t, 64, %tile; ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r10];\n"
    assert found(lambda: copied(body)) == []


# ---- sums


def products(*second: str) -> list[Finding]:
    """Of two wgmma on the same registers."""
    text = DESCRIPTORS.format(upper=16) + FILLED + "fence.proxy.async;\nbar.sync 0;\nwgmma.fence.sync.aligned;\n" + WGMMA
    return found(lambda: Program(text + "".join(second), {}, threads=128).run())


def test_registers_that_nobody_can_have_read() -> None:
    (one,) = products(WGMMA, DONE)
    assert one.check == "lost" and "overwrites" in one.message and "nobody has read those sums" in one.message
    assert not products(DONE, WGMMA, DONE)  # they may have been read in between


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


def test_what_hopper_leaves_out() -> None:
    """One wgmma of four is not executed."""
    third = list(re.finditer(r"wgmma\.mma_async[^;]*;", HOPPER))[2]
    text = HOPPER[: third.start()] + HOPPER[third.end() :]
    assert "unread" in checks(lambda: hopper("128B", "bf16", text))
    assert "unread" not in checks(lambda: hopper("128B", "bf16", HOPPER))
