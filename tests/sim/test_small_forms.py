"""Rare forms against NumPy: floating-point redux, lop3 with a predicate, vector atomics, masked bulk stores, st.bulk."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, SimulationError, launch

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"
LANE = np.arange(32)
OWN = """ld.param.u64 %in, [p0]; ld.param.u64 %out, [p1]; mov.u32 %t, %tid.x;
mul.wide.u32 %x, %t, 4; add.s64 %in, %in, %x; add.s64 %out, %out, %x;"""


def run(body: str, given: np.ndarray, out: np.ndarray, options: Options | None = None) -> None:
    registers = ".reg .pred %p<4>; .reg .b32 %t, %r<8>; .reg .b64 %in, %out, %x; .reg .f32 %f<12>; .reg .b16 %h<4>;"
    text = f"{HEAD}.entry k(.param .u64 p0, .param .u64 p1) {{ {registers} {OWN}\n{body}\nret; }}"
    launch(text, block=32, arguments=[ArrayArgument(given), ArrayArgument(out)], options=options)


SPECIAL = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf, 1e-45, -3.5], np.float32)


@pytest.mark.parametrize("absolute", ["", ".abs"])
@pytest.mark.parametrize("nan", ["", ".NaN"])
@pytest.mark.parametrize("name", ["min", "max"])
def test_redux_of_floats(name, nan, absolute):
    rng = np.random.default_rng(0)
    for special in (False, True):
        given, out = rng.normal(0, 1, 32).astype(np.float32), np.zeros(32, np.float32)
        if special:
            given[:7] = SPECIAL
        run(
            f"ld.global.f32 %f1, [%in]; redux.sync.{name}{absolute}{nan}.f32 %f2, %f1, -1; st.global.f32 [%out], %f2;", given, out
        )
        values = np.abs(given) if absolute else given
        function = {"min": (np.min, np.nanmin), "max": (np.max, np.nanmax)}[name]
        want = function[0 if nan else 1](values)
        assert (out.view(np.uint32) == (0x7FFFFFFF if np.isnan(want) else want.view(np.uint32))).all()


def test_redux_orders_zeros():
    out = np.zeros(32, np.uint32)
    given = np.where(LANE % 2, 0.0, -0.0).astype(np.float32)
    run("ld.global.f32 %f1, [%in]; redux.sync.min.f32 %f2, %f1, -1; st.global.f32 [%out], %f2;", given, out)
    assert (out == 0x80000000).all()


@pytest.mark.parametrize("combination", ["or", "and"])
def test_lop3_with_a_predicate(combination):
    given, out = np.random.default_rng(1).integers(0, 4, 32).astype(np.uint32), np.zeros(32, np.uint32)
    body = f"""ld.global.u32 %r1, [%in]; setp.lt.u32 %p2, %t, 16;
    lop3.{combination}.b32 %r2|%p1, %r1, 1, 3, 0x80, %p2; selp.b32 %r3, 16, 0, %p1; or.b32 %r3, %r3, %r2; st.global.u32 [%out], %r3;"""
    run(body, given, out)
    value = given & 1 & 3
    predicate = (value != 0) | (LANE < 16) if combination == "or" else (value != 0) & (LANE < 16)
    assert (out == (value | np.where(predicate, 16, 0))).all()


def test_vector_atomics_return_what_was_there():
    """All lanes add to one pair, in lane order."""
    given, out = np.zeros(32, np.float32), np.zeros(64, np.float32)
    body = """cvt.rn.f32.u32 %f1, %t; mov.f32 %f2, 0f3F800000; ld.param.u64 %in, [p0];
    atom.global.v2.f32.add {%f3, %f4}, [%in], {%f1, %f2}; ld.param.u64 %out, [p1]; add.s64 %out, %out, %x; add.s64 %out, %out, %x;
    st.global.v2.f32 [%out], {%f3, %f4};"""
    run(body, given, out)
    assert given[0] == LANE.sum() and given[1] == 32
    before = out.reshape(32, 2)
    assert (before[:, 0] == np.concatenate([[0], np.cumsum(LANE)[:-1]])).all() and (before[:, 1] == LANE).all()


@pytest.mark.parametrize(
    "options", [Options("order"), Options("late"), Options("random", seed=2)], ids=lambda options: options.timing
)
def test_masked_bulk_store(options):
    given, out = np.zeros(32, np.uint32), np.full(32, 0xEEEEEEEE, np.uint32)
    body = """.shared .align 16 .b8 box[128]; mov.u32 %r1, box; mad.lo.u32 %r2, %t, 4, %r1; add.u32 %r3, %t, 0x11223300;
    st.shared.u32 [%r2], %r3; fence.proxy.async.shared::cta; bar.warp.sync -1; setp.ne.u32 %p1, %t, 0; @%p1 bra END;
    mov.u16 %h1, 0x00F5; cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%out], [%r1], 64, %h1;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:"""
    run(body, given, out, options)
    source, before = (LANE + 0x11223300).astype("<u4").view(np.uint8), np.full(128, 0xEE, np.uint8)
    copied = (0x00F5 >> np.arange(128) % 16 & 1 == 1) & (np.arange(128) < 64)
    assert (out.view(np.uint8) == np.where(copied, source, before)).all()


def test_bulk_zeroes():
    given, out = np.zeros(32, np.uint32), np.full(32, 7, np.uint32)
    body = """.shared .align 16 .b8 box[128]; mov.u32 %r1, box; mad.lo.u32 %r2, %t, 4, %r1; st.shared.u32 [%r2], %t; bar.warp.sync -1;
    setp.ne.u32 %p1, %t, 0; @%p1 bra READ; st.bulk.weak.shared::cta [%r1+8], 64, 0;
    READ: bar.warp.sync -1; ld.shared.u32 %r3, [%r2]; st.global.u32 [%out], %r3;"""
    run(body, given, out)
    assert (out == np.where((LANE >= 2) & (LANE < 18), 0, LANE)).all()


def test_a_fence_of_no_known_kind():
    with pytest.raises(SimulationError) as caught:
        run("fence.sparkling;", np.zeros(32, np.uint32), np.zeros(32, np.uint32))
    assert caught.value.kind == "unsupported" and ".sparkling" in caught.value.message
