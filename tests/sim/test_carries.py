"""The condition code between additions and subtractions: what an H200 gave, and subtractions of 128 bits."""

from __future__ import annotations

import numpy as np

from pipec.sim import launch

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {
.reg .u32 a, b, c, t, r<20>; .reg .u64 q, o, x<9>;
ld.param.u64 q, [p]; mov.u32 t, %tid.x; mul.wide.u32 o, t, 64; add.u64 q, q, o;
ld.global.u32 a, [q]; ld.global.u32 b, [q+4]; ld.global.u32 c, [q+8];
sub.cc.u32 r0, a, b; addc.u32 r1, 0, 0; st.global.u32 [q+12], r1;
add.cc.u32 r0, a, b; subc.u32 r1, 0, 0; st.global.u32 [q+16], r1;
sub.cc.u32 r0, a, b; subc.cc.u32 r2, c, c; addc.u32 r1, 0, 0; st.global.u32 [q+20], r1; st.global.u32 [q+24], r2;
add.cc.u32 r0, a, b; subc.cc.u32 r2, c, 0; addc.u32 r1, 0, 0; st.global.u32 [q+28], r1; st.global.u32 [q+32], r2;
sub.cc.u32 r0, a, b; madc.lo.u32 r1, 0, 0, 0; st.global.u32 [q+36], r1;
mad.lo.cc.u32 r0, a, c, b; subc.u32 r1, 0, 0; st.global.u32 [q+40], r1;
cvt.u64.u32 x0, a; cvt.u64.u32 x1, b; sub.cc.u64 x2, x0, x1; addc.u64 x3, 0, 0; cvt.u32.u64 r1, x3; st.global.u32 [q+44], r1;
shl.b64 x0, x0, 32; shl.b64 x1, x1, 32; add.cc.u64 x2, x0, x1; subc.u64 x3, 0, 0; cvt.u32.u64 r1, x3; st.global.u32 [q+48], r1;
add.cc.u32 r0, a, b; sub.u32 r3, a, b; addc.u32 r1, 0, 0; st.global.u32 [q+52], r1;
sub.cc.u32 r0, a, b; subc.u32 r1, 0, 0; st.global.u32 [q+56], r1;
ret; }
"""
# a, b, c, and what the chip stored (driver 580, H200).
RECORDED = """
0 0 0 1 ffffffff 1 0 0 ffffffff 1 ffffffff 1 ffffffff 0 0
0 1 1 0 ffffffff 0 ffffffff 1 0 0 ffffffff 0 ffffffff 0 ffffffff
7fffffff 1 0 1 ffffffff 1 0 0 ffffffff 1 ffffffff 1 ffffffff 0 0
ffffffff 1 5 1 0 1 0 1 5 1 ffffffff 1 0 1 0
1 5 ffffffff 0 ffffffff 0 ffffffff 1 fffffffe 0 0 0 ffffffff 0 ffffffff
7fffffff 5 2 1 ffffffff 1 0 1 1 1 0 1 ffffffff 0 0
1 ffffffff 1 0 0 0 ffffffff 1 1 0 0 0 0 1 ffffffff
5 fffffffe 0 0 0 0 ffffffff 1 0 0 ffffffff 0 0 1 ffffffff
fffffffe fffffffe 80000000 1 0 1 0 1 80000000 1 ffffffff 1 0 1 0
ffffffff ffffffff 0 1 0 1 0 1 0 1 ffffffff 1 0 1 0
"""


def test_additions_and_subtractions_share_one_carry():
    recorded = np.array([[int(word, 16) for word in row.split()] for row in RECORDED.strip().splitlines()], np.uint32)
    found = np.zeros((len(recorded), 16), np.uint32)
    found[:, :3] = recorded[:, :3]
    launch(KERNEL, "k", block=len(recorded), arguments=[found])
    assert (found[:, :15] == recorded).all()


def long_subtraction(borrow: str) -> str:
    """a - b of 128 bits, and whether nothing was borrowed, which the chain of additions that follows adds to c."""
    return f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p) {{
.reg .u32 t, r; .reg .u64 q, o, a<2>, b<2>, d<2>, c;
ld.param.u64 q, [p]; mov.u32 t, %tid.x; mul.wide.u32 o, t, 64; add.u64 q, q, o;
ld.global.v2.u64 {{a0, a1}}, [q]; ld.global.v2.u64 {{b0, b1}}, [q+16];
sub.cc.u64 d0, a0, b0; subc.cc.u64 d1, a1, b1; {borrow}
st.global.v2.u64 [q+32], {{d0, d1}}; st.global.u64 [q+48], c; ret; }}"""


def test_a_long_subtraction():
    values = np.random.default_rng(0).integers(0, 1 << 64, (32, 8), np.uint64)
    values[:4, 1], values[:4, 3] = 7, 7
    values[:2, 0] = values[:2, 2]
    for borrow, left in (("addc.u64 c, 0, 0;", lambda lent: 1 - lent), ("subc.u64 c, 0, 0;", lambda lent: -lent % (1 << 64))):
        found = values.copy()
        launch(long_subtraction(borrow), "k", block=32, arguments=[found])
        for row in found.tolist():
            a, b = (row[at] | row[at + 1] << 64 for at in (0, 2))
            assert row[4] | row[5] << 64 == (a - b) % (1 << 128)
            assert row[6] == left(int(a < b))
