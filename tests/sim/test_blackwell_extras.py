"""sm_100-only instructions outside tcgen05: packed float32, narrow formats, cluster launch control, st.async."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, SimulationError, launch

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
TIMINGS = [Options("order"), Options("late"), Options("random", seed=3)]


_SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -3e-39, 3.4e38, 1.1754944e-38, 16777217.0], np.float32)
# Each half is an operation of its own; float32 products are exact in longdouble, and the sum keeps 11 bits more than float64.
_PACKED = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "fma": lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(np.float32),
}


@pytest.mark.parametrize("name", _PACKED)
def test_packed_float32_rounds_once(name):
    rng = np.random.default_rng(0)
    a, b, c = (rng.normal(0, 1, (64, 2)).astype(np.float32) for _ in range(3))
    for array in (a, b, c):
        array[32:] = rng.choice(_SPECIAL, (32, 2))
    out = np.zeros((64, 2), np.float32)
    operands = "%x0, %x1, %x2" if name == "fma" else "%x0, %x1"
    body = f""".reg .b64 %p, %x<4>, %q<4>; .reg .b32 %t; mov.u32 %t, %tid.x;
    ld.param.u64 %q0, [p0]; mad.wide.u32 %p, %t, 8, %q0; ld.global.b64 %x0, [%p];
    ld.param.u64 %q1, [p1]; mad.wide.u32 %p, %t, 8, %q1; ld.global.b64 %x1, [%p];
    ld.param.u64 %q2, [p2]; mad.wide.u32 %p, %t, 8, %q2; ld.global.b64 %x2, [%p];
    {name}.rn.f32x2 %x3, {operands};
    ld.param.u64 %q3, [p3]; mad.wide.u32 %p, %t, 8, %q3; st.global.b64 [%p], %x3; ret;"""
    launch(
        f"{HEAD}.entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3) {{ {body} }}",
        block=64,
        arguments=[ArrayArgument(x) for x in (a, b, c, out)],
    )
    with np.errstate(all="ignore"):
        want = _PACKED[name](a, b, c)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    number = ~np.isnan(want)
    np.testing.assert_array_equal(out[number].view(np.uint32), want[number].view(np.uint32))


@pytest.mark.parametrize(
    ("form", "dtype", "bits"),
    [("e2m1x2", ml_dtypes.float4_e2m1fn, 4), ("e2m3x2", ml_dtypes.float6_e2m3fn, 8), ("e3m2x2", ml_dtypes.float6_e3m2fn, 8)],
)
def test_narrow_formats(form, dtype, bits):
    values = np.random.default_rng(1).uniform(-5, 5, (32, 2)).astype(np.float32)
    out = np.zeros(32, np.uint32)
    move = "cvt.u32.u8 %r, %n;" if bits == 4 else "cvt.u32.u16 %r, %n;"
    body = f""".reg .b64 %p, %q<2>; .reg .b32 %t, %r, %a, %b; .reg .b{8 if bits == 4 else 16} %n; mov.u32 %t, %tid.x;
    ld.param.u64 %q0, [p0]; mad.wide.u32 %p, %t, 8, %q0; ld.global.v2.b32 {{%a, %b}}, [%p];
    cvt.rn.satfinite.{form}.f32 %n, %a, %b; {move}
    ld.param.u64 %q1, [p1]; mad.wide.u32 %p, %t, 4, %q1; st.global.b32 [%p], %r; ret;"""
    launch(
        f"{HEAD}.entry k(.param .u64 p0, .param .u64 p1) {{ {body} }}",
        block=32,
        arguments=[ArrayArgument(values), ArrayArgument(out)],
    )
    codes = values.astype(dtype).view(np.uint8).astype(np.uint32)
    assert (out == (codes[:, 0] << bits | codes[:, 1])).all()


CLC = (
    HEAD
    + """.entry k(.param .u64 out) .reqntid 32, 1, 1 {
  .shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .b128 %h;
  ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra END;
  mov.u32 %r3, 0; mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
WORK:
  mul.wide.u32 %rd2, %r1, 4; add.s64 %rd2, %rd2, %rd1; atom.global.add.u32 %r5, [%rd2], 1;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
  clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [bar];
LW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r3; @!%p2 bra LW;
  xor.b32 %r3, %r3, 1;
  ld.shared.b128 %h, [answer];
  clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %h;
  @!%p3 bra END;
  clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r1, %r6, %r7, _}, %h;
  fence.proxy.async.shared::cta;
  bra WORK;
END: ret; }"""
)


@pytest.mark.parametrize("options", TIMINGS, ids=lambda o: o.timing)
def test_launch_control_hands_out_every_block_once(options):
    out = np.zeros(13, np.uint32)
    launch(CLC, grid=13, arguments=[ArrayArgument(out)], options=options)
    assert (out == 1).all()


@pytest.mark.parametrize(("grid", "ran"), [(1, 1), (3, 1), (4, 2), (13, 2)])
def test_the_last_block_starts_on_its_own_where_others_were_handed_out(grid, ran):
    result = launch(CLC, grid=grid, arguments=[ArrayArgument(np.zeros(grid, np.uint32))])
    assert {event.cta for event in result.trace} == {(0, 0, 0), (grid - 1, 0, 0)} if ran == 2 else {(0, 0, 0)}


# Each tile's number is handed to the next one, through a word that says that it is there.
HANDED_ON = CLC.replace(
    "atom.global.add.u32 %r5, [%rd2], 1;",
    """setp.eq.u32 %p2, %r1, 0; @%p2 bra TELL;
LF: ld.acquire.gpu.global.u32 %r5, [%rd2+252]; setp.eq.u32 %p2, %r5, 0; @%p2 bra LF; ld.global.u32 %r5, [%rd2+-4];
TELL: add.u32 %r5, %r5, 1; st.global.u32 [%rd2], %r5; st.release.gpu.global.u32 [%rd2+256], 1;""",
).replace("ld.param.u64 %rd1, [out];", "ld.param.u64 %rd1, [out]; mov.b32 %r5, 0;")


def test_what_one_tile_hands_to_the_next_is_seen_between_blocks():
    out = np.zeros(128, np.uint32)
    launch(HANDED_ON, grid=8, arguments=[ArrayArgument(out)])
    assert (out[:8] == np.arange(1, 9)).all() and out[64:72].all()
    for order in ("acquire.gpu", "release.gpu"):
        with pytest.raises(SimulationError) as caught:
            launch(HANDED_ON.replace(order, "relaxed.gpu"), grid=8, arguments=[ArrayArgument(out * 0)])
        assert caught.value.kind == "race"


def test_a_block_that_was_refused_once_may_not_ask_again():
    again = CLC.replace("@!%p3 bra END;", "@!%p3 bra WORK;")
    with pytest.raises(SimulationError, match="has seen a request fail"):
        launch(again, grid=2, arguments=[ArrayArgument(np.zeros(2, np.uint32))])


def test_a_refused_block_leaves_the_others_to_start_on_their_own():
    out = np.zeros(40, np.uint32)
    result = launch(CLC, grid=40, arguments=[ArrayArgument(out)], options=Options("random", seed=1))
    assert (out == 1).all()
    assert 1 < len({event.cta for event in result.trace}) < 40


EXCHANGE = (
    HEAD
    + """.entry k(.param .u64 out) .reqntid 32, 1, 1 .reqnctapercluster 2, 1, 1 {
  .shared .align 16 .b8 box[128]; .shared .align 8 .b64 bar;
  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<4>;
  mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0; @%p1 bra READY;
  mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 128;
READY: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
  xor.b32 %r3, %r1, 1; mov.u32 %r4, box; mov.u32 %r5, bar; shl.b32 %r6, %r2, 2; add.u32 %r7, %r4, %r6;
  mapa.shared::cluster.u32 %r8, %r7, %r3; mapa.shared::cluster.u32 %r9, %r5, %r3;
  mad.lo.u32 %r10, %r1, 100, %r2;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r8], %r10, [%r9];
LW: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0; @!%p2 bra LW;
  ld.shared.u32 %r11, [%r7]; ld.param.u64 %rd1, [out]; mad.lo.u32 %r10, %r1, 32, %r2; mul.wide.u32 %rd2, %r10, 4;
  add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r11;
  barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret; }"""
)


@pytest.mark.parametrize("options", TIMINGS, ids=lambda o: o.timing)
def test_remote_stores_signal_the_peer(options):
    out = np.zeros(64, np.uint32)
    launch(EXCHANGE, grid=2, arguments=[ArrayArgument(out)], options=options)
    assert out.tolist() == [100 + i for i in range(32)] + list(range(32))
