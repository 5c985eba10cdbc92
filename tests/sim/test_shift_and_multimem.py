"""tcgen05.shift, and multimem with one device, from their instructions on."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import Options, SimulationError, launch

# Each thread stores its lane (and the column, times 1000) to 8 columns; the first thread shifts the rows of one warp.
SHIFT = """.version 9.0
.target sm_100a
.address_size 64
.entry k(.param .u64 out) .reqntid 128 {
.reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %d<9>; .shared .align 8 .b64 bar; .shared .b32 where;
mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 0; @%p2 bra ready; mbarrier.init.shared.b64 [bar], 1;
ready: setp.ge.u32 %p3, %r1, 32; @%p3 bra allocated; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
allocated: tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; ld.shared.b32 %r6, [where];
and.b32 %r8, %r1, 96; shl.b32 %r8, %r8, 16; add.u32 %r9, %r6, %r8;
FILL
tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9], {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}; tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@%p2 bra issued; add.u32 %r10, %r6, LANE; tcgen05.shift.cta_group::1.down [%r10];
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
issued: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra issued; bar.warp.sync -1; tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%r9]; tcgen05.wait::ld.sync.aligned;
ld.param.u64 %d4, [out]; mul.wide.u32 %d5, %r1, 32; add.s64 %d4, %d4, %d5;
st.global.v4.b32 [%d4], {%r20, %r21, %r22, %r23}; st.global.v4.b32 [%d4+16], {%r24, %r25, %r26, %r27};
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@%p3 bra done; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
done: ret; }
"""
FILL = " ".join(f"add.u32 %r{20 + column}, %r1, {1000 * column};" for column in range(8))


def shifted(lane: int, text: str = SHIFT, timing: str = "order") -> np.ndarray:
    out = np.zeros((128, 8), np.uint32)
    options = Options(timing)  # type: ignore[arg-type]
    launch(text.replace("FILL", FILL).replace("LANE", str(lane << 16)), arguments=[out], options=options)
    return out


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("lane", [0, 96])
def test_rows_of_one_warp_move_up(lane: int, timing: str) -> None:
    want = np.arange(128, dtype=np.uint32)[:, None] + np.arange(0, 8000, 1000, dtype=np.uint32)
    want[lane : lane + 31] = want[lane + 1 : lane + 32]
    np.testing.assert_array_equal(shifted(lane, timing=timing), want)


def test_a_shift_begins_at_the_lanes_of_a_warp() -> None:
    with pytest.raises(SimulationError, match="must be a multiple of 32"):
        shifted(16)


@pytest.mark.parametrize("usage", ["fill", "use"])
def test_a_shifted_operand_is_not_kept(usage: str) -> None:
    text = f"tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::{usage} [%r6], [%r6], %d4, %r1, %p1;"
    with pytest.raises(SimulationError, match=f".ashift goes with no .collector::a::{usage}"):
        shifted(0, SHIFT.replace("issued: mbarrier", f"{text} issued: mbarrier"))


def test_reading_before_the_shift_is_over_is_a_race() -> None:
    wait = "issued: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra issued; bar.warp.sync -1;"
    assert wait in SHIFT
    with pytest.raises(SimulationError, match=r"tcgen05\.shift of warp 0") as caught:
        shifted(0, SHIFT.replace(wait, "issued: bar.sync 0;"))
    assert caught.value.kind == "race"


MULTIMEM = """.version 8.6
.target sm_90a
.address_size 64
.entry k(.param .u64 a, .param .u64 b) {
.reg .b64 %d<6>; .reg .b32 %r<9>; .reg .f32 %f<9>;
ld.param.u64 %d1, [a]; ld.param.u64 %d2, [b]; mov.u32 %r1, %tid.x; mul.wide.u32 %d5, %r1, 16;
add.s64 %d3, %d1, %d5; add.s64 %d4, %d2, %d5;
BODY
ret; }
"""
BODIES = {
    "f32": "multimem.ld_reduce.relaxed.gpu.global.add.v4.f32 {%f1, %f2, %f3, %f4}, [%d3];"
    "multimem.st.relaxed.gpu.global.v4.f32 [%d4], {%f1, %f2, %f3, %f4};",
    "bf16": "multimem.ld_reduce.weak.global.add.acc::f32.v4.bf16x2 {%r1, %r2, %r3, %r4}, [%d3];"
    "multimem.red.release.sys.global.add.v4.bf16x2 [%d4], {%r1, %r2, %r3, %r4};",
}


@pytest.mark.parametrize("name", BODIES)
def test_a_multicast_object_of_one_device_is_its_array(name: str) -> None:
    dtype = np.float32 if name == "f32" else ml_dtypes.bfloat16
    rng = np.random.default_rng(0)
    a = rng.integers(-8, 8, 512 // np.dtype(dtype).itemsize).astype(dtype)
    b = rng.integers(-8, 8, a.size).astype(dtype)
    want = a if name == "f32" else a + b
    launch(MULTIMEM.replace("BODY", BODIES[name]), block=32, arguments=[a, b])
    np.testing.assert_array_equal(b, want)
