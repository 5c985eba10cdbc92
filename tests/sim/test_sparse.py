"""Sparse and masked multiplications from their instructions on: operands of ones, so that a sum counts what took part."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import Options, SimulationError, launch

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
# 128 rows and 16 columns of 128-byte lines without a swizzle; everything in shared memory is 1.0.
PTX = (
    HEAD
    + """.entry k(.param .u64 out) .reqntid 128 {{
.reg .pred %p<4>; .reg .b32 %r<40>; .reg .b64 %d<9>; .shared .align 1024 .b8 ones[16384]; .shared .align 8 .b64 bar; .shared .b32 where;
mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.b32 %r3, ones; add.u32 %r3, %r3, %r2; mov.b32 %r4, 0x3F803F80; mov.u32 %r5, 0;
fill: st.shared.b32 [%r3], %r4; add.u32 %r3, %r3, 512; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 32; @%p1 bra fill;
setp.ne.u32 %p2, %r1, 0; @%p2 bra ready; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
ready: setp.ge.u32 %p3, %r1, 32; @%p3 bra allocated; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], 32;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
allocated: fence.proxy.async.shared::cta; tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
ld.shared.b32 %r6, [where]; mov.b32 %r7, {metadata};
and.b32 %r8, %r1, 96; shl.b32 %r8, %r8, 16; add.u32 %r9, %r6, %r8; add.u32 %r10, %r9, 16;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r10], {{%r7}}; tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@%p2 bra issued; mov.b32 %r11, ones; and.b32 %r11, %r11, 0x3FFFF; shr.u32 %r11, %r11, 4; cvt.u64.u32 %d1, %r11;
or.b64 %d1, %d1, 0x0000400800080000; add.u32 %r12, %r6, 16; mov.b64 %d3, {mask}; setp.ne.u32 %p1, 0, 0;
{multiply}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];
issued: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra issued; bar.warp.sync -1; tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{loaded}}}, [%r9]; tcgen05.wait::ld.sync.aligned;
ld.param.u64 %d4, [out]; mul.wide.u32 %d5, %r1, 64; add.s64 %d4, %d4, %d5;
{stores}
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@%p3 bra done; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r6, 32;
done: ret; }}"""
)
# bf16, f32 sums, M = 128, N = 16; the same with the sparse bit; N = 64 for the weight-stationary form.
DENSE = 1 << 4 | 1 << 7 | 1 << 10 | 128 >> 4 << 24
SIXTEEN, SPARSE, WIDE = DENSE | 16 >> 3 << 17, DENSE | 16 >> 3 << 17 | 4, DENSE | 64 >> 3 << 17


def run(multiply: str, metadata: int = 0, mask: int = 0, options: Options | None = None) -> np.ndarray:
    registers = [f"%r{20 + number}" for number in range(16)]
    stores = " ".join(f"st.global.b32 [%d4+{4 * number}], {register};" for number, register in enumerate(registers))
    text = PTX.format(metadata=metadata, mask=mask, multiply=multiply, loaded=",".join(registers), stores=stores)
    # The products of 64 columns need as many.
    text = text.replace("[where], 32", "[where], 64").replace("%r6, 32;", "%r6, 64;") if ".ws" in multiply else text
    text = text.replace("add.u32 %r10, %r9, 16", "add.u32 %r10, %r9, 63") if ".ws" in multiply else text
    out = np.zeros((128, 16), np.float32)
    launch(text, arguments=[out], options=options)
    return out


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_a_sparse_product_counts_half_of_k(timing):
    dense = run(f"tcgen05.mma.cta_group::1.kind::f16 [%r6], %d1, %d1, {SIXTEEN}, %p1;")
    assert (dense == 16).all()
    options = Options(timing)
    sparse = run(f"tcgen05.mma.sp.cta_group::1.kind::f16 [%r6], %d1, %d1, [%r12], {SPARSE}, %p1;", 0x44444444, 0, options)
    assert (sparse == 16).all()


def test_metadata_that_mean_nothing():
    with pytest.raises(SimulationError, match="do not increase"):
        run(f"tcgen05.mma.sp.cta_group::1.kind::f16 [%r6], %d1, %d1, [%r12], {SPARSE}, %p1;", 0x40000000)


def test_metadata_race_with_their_writers():
    """Without the barrier behind the stores the multiplication may meet them."""
    barrier = "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;"
    assert PTX.count(barrier) == 1
    registers = [f"%r{20 + number}" for number in range(16)]
    multiply = f"tcgen05.mma.sp.cta_group::1.kind::f16 [%r6], %d1, %d1, [%r12], {SPARSE}, %p1;"
    text = PTX.replace(barrier, "").format(metadata=0x44444444, mask=0, multiply=multiply, loaded=",".join(registers), stores="")
    with pytest.raises(SimulationError, match=r"race: tcgen05\.mma .*tcgen05\.st"):
        launch(text, arguments=[np.zeros((128, 16), np.float32)])


def test_masked_columns_are_zero():
    mask = 1 << 32 | 1 << 39 | 1 << 40 | 2 << 48  # two zeroed, three used
    out = run(f"tcgen05.mma.ws.cta_group::1.kind::f16 [%r6], %d1, %d1, {WIDE}, %p1, %d3;", 0, mask)
    assert (out == np.where(np.arange(16) % 5 < 2, 0, 16)).all()


SP = """.entry k(.param .u64 out) {{ .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %d<4>; mov.u32 %r1, 0x3C003C00; mov.u32 %r2, {metadata};
mov.f32 %f1, 0f3F800000; ld.param.u64 %d1, [out]; mov.u32 %r3, %tid.x; mul.wide.u32 %d2, %r3, 4; add.s64 %d1, %d1, %d2;
mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {{%f2,%f3,%f4,%f5}}, {{%r1,%r1,%r1,%r1}}, {{%r1,%r1,%r1,%r1}},
{{%f1,%f1,%f1,%f1}}, %r2, {selector}; st.global.f32 [%d1], %f3; ret; }}"""


def test_mma_sp_counts_half_of_k():
    out = np.zeros(32, np.float32)
    launch(HEAD + SP.format(metadata=0x44444444, selector=0), block=32, arguments=[out])
    assert (out == 17).all()


@pytest.mark.parametrize(("metadata", "selector", "words"), [(0, 0, "do not increase"), (0x44444444, 2, "selector 2")])
def test_bad_uses_of_mma_sp(metadata, selector, words):
    with pytest.raises(SimulationError, match=words):
        launch(HEAD + SP.format(metadata=metadata, selector=selector), block=32, arguments=[np.zeros(32, np.float32)])


@pytest.mark.parametrize("elected", [True, False])
def test_an_mma_by_all_lanes_adds_up_as_often(elected: bool) -> None:
    multiply = f"tcgen05.mma.cta_group::1.kind::f16 [%r6], %d1, %d1, {SIXTEEN}, %p1;"
    added = f"{multiply} setp.eq.u32 %p1, 0, 0; {'@!%p2 ' if elected else ''}{multiply}"
    text = PTX.replace("@%p2 bra issued", "@%p3 bra issued").replace("tcgen05.commit", "@!%p2 tcgen05.commit")
    registers = ",".join(f"%r{20 + number}" for number in range(16))
    text = text.format(metadata=0, mask=0, multiply=added, loaded=registers, stores="st.global.b32 [%d4], %r20;")
    out = np.zeros((128, 16), np.float32)
    found = launch(text, arguments=[out]).findings
    assert (out[:, 0] == (32 if elected else 33 * 16)).all()
    assert [finding.check for finding in found] == ([] if elected else ["steps"])
