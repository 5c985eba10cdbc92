"""Rare forms against NumPy: floating redux, lop3 with a predicate, vector atomics, bulk stores, parts of registers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble
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


ONE_AFTER_ANOTHER = {
    "add.u32": lambda old, given: old + given & 0xFFFFFFFF,
    "min.s32": lambda old, given: min(old, given, key=lambda value: value ^ 1 << 31),
    "inc.u32": lambda old, given: 0 if old >= given else old + 1,
    "exch.b32": lambda old, given: given,
    "cas.b32": lambda old, given: given + 1 & 0xFFFFFFFF if old == given else old,
}


@pytest.mark.parametrize("active", [32, 21])
@pytest.mark.parametrize("operation", ONE_AFTER_ANOTHER)
def test_lanes_that_share_places_take_turns(operation, active):
    """Lanes go to random ones of four words, by generic addresses, of which half are in shared memory."""
    rng = np.random.default_rng(active)
    values = rng.integers(0, 3, 32) if "cas" in operation else rng.integers(0, 1 << 32, 32)
    places = rng.integers(0, 4, 32)
    given, out = (values << 32 | places).astype(np.uint64), np.zeros(68, np.uint32)
    body = f""".shared .align 8 .b8 words[8]; .reg .b64 %g, %s, %w; ld.param.u64 %in, [p0]; ld.param.u64 %out, [p1];
    mul.wide.u32 %x, %t, 8; add.s64 %in, %in, %x; ld.global.v2.u32 {{%r1, %r2}}, [%in]; add.u32 %r6, %r2, 1;
    mov.u64 %s, words; cvta.shared.u64 %s, %s; cvta.to.global.u64 %g, %out; cvta.global.u64 %g, %g; mov.b32 %r5, 0;
    setp.ne.u32 %p1, %t, 0; @%p1 bra R; st.shared.v2.b32 [words], {{%r5, %r5}}; R: bar.warp.sync -1;
    setp.ge.u32 %p1, %t, {active}; @%p1 bra S;
    and.b32 %r3, %r1, 1; mul.wide.u32 %x, %r3, 4; setp.ge.u32 %p2, %r1, 2; selp.b64 %w, %s, %g, %p2; add.s64 %w, %w, %x;
    atom.{operation} %r4, [%w], %r2{", %r6" if "cas" in operation else ""};
    mul.wide.u32 %x, %t, 4; add.s64 %x, %x, %out; st.global.u32 [%x+16], %r4;
    S: bar.warp.sync -1; @%p1 bra E; setp.ne.u32 %p1, %t, 0; @%p1 bra E;
    ld.shared.v2.b32 {{%r1, %r2}}, [words]; st.global.v2.u32 [%out+8], {{%r1, %r2}}; E:"""
    run(body, given, out)
    words, found = [0] * 4, [0] * 64
    for lane in range(active):
        place, value = int(places[lane]), int(values[lane])
        found[lane], words[place] = words[place], ONE_AFTER_ANOTHER[operation](words[place], value)
    assert out.tolist() == words + found


@pytest.mark.parametrize("form", ["atom.global.add.s64 %x, [%out], %x;", "atom.global.inc.s32 %r1, [%out], %r1;"])
def test_atomics_that_do_not_exist(form):
    with pytest.raises(SimulationError, match="does not exist"):
        run(form, np.zeros(32, np.uint32), np.zeros(32, np.uint32))


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


# Each lane loads its word of 96 bytes that one lane has copied from `in`, and those from %r6 to %r7 store it.
PART = """.shared .align 16 .b8 box[128]; .shared .align 8 .b64 bar; mov.u32 %r1, box; mov.u32 %r2, bar; setp.ne.u32 %p1, %t, 0;
@%p1 bra ON; mbarrier.init.shared::cta.b64 [%r2], 1; fence.proxy.async; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 96;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.ignore_oob [%r1], [%in], 96, {left}, {right}, [%r2];
ON: bar.warp.sync -1; W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;
mad.lo.u32 %r3, %t, 4, %r1; setp.lt.u32 %p1, %t, 24; @!%p1 bra END; ld.shared.u32 %r4, [%r3];
setp.lt.u32 %p1, %t, {first}; @%p1 bra END; setp.ge.u32 %p1, %t, {end}; @%p1 bra END; st.global.u32 [%out], %r4; END:"""


@pytest.mark.parametrize(
    "options", [Options("order"), Options("late"), Options("random", seed=2)], ids=lambda options: options.timing
)
def test_a_bulk_copy_of_which_the_ends_lie_outside(options):
    """22 of the 24 words that it copies are there; what stands in place of the others nobody knows."""
    given, out = np.arange(100, 122, dtype=np.uint32), np.zeros(32, np.uint32)
    run(PART.format(left=4, right=8, first=1, end=22), given, out, options)
    assert (out == np.where((LANE >= 1) & (LANE < 22), LANE + 100, 0)).all()
    for ends in ({"first": 0, "end": 22}, {"first": 1, "end": 23}):
        with pytest.raises(SimulationError, match="nothing has written"):
            run(PART.format(left=4, right=8, **ends), given, out, options)
    with pytest.raises(SimulationError, match="past the end of"):
        run(PART.format(left=4, right=4, first=1, end=22), given, out, options)
    with pytest.raises(SimulationError, match="ignores 16 bytes before and 8 behind: at most 15 each"):
        run(PART.format(left=16, right=8, first=1, end=22), given, out, options)


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


def _of_words(instruction: str, *given: np.ndarray) -> np.ndarray:
    """%r3 (%f3) that an instruction makes of %r1, %r2, the old %r3 and %p1, which odd lanes have; of ptxas it is asked, too."""
    words = np.concatenate([np.ascontiguousarray(one).view(np.uint32) for one in given])
    out = np.zeros(32, np.uint32)
    loads = " ".join(f"ld.global.b32 %r{number + 1}, [%in+{128 * number}];" for number in range(len(given)))
    floats = "mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;"
    body = f"""{loads} and.b32 %r4, %t, 1; setp.eq.u32 %p1, %r4, 1; {floats}
    {instruction} {"mov.b32 %r3, %f3;" if "%f3," in instruction else ""} st.global.b32 [%out], %r3;"""
    registers = ".reg .pred %p<4>; .reg .b32 %t, %r<8>; .reg .b64 %in, %out, %x; .reg .f32 %f<12>; .reg .b16 %h<4>;"
    text = f"{HEAD}.visible .entry k(.param .u64 p0, .param .u64 p1) {{ {registers} {OWN}\n{body}\nret; }}"
    assert assemble(text, "sm_100a", Sink(), tool="ptxas") is not None
    launch(text, block=32, arguments=[ArrayArgument(words), ArrayArgument(out)])
    return out


def _drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    words = np.random.default_rng(seed).integers(0, 1 << 32, (3, 32), dtype=np.uint64).astype(np.uint32)
    words[:2, :4] = [[0, 0x80808080, 0x7F7F7F7F, 0xFFFFFFFF], [0xFFFFFFFF, 0x80808080, 0x80808080, 0x00010203]]
    return words[0], words[1], words[2]


VIDEO = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: np.abs(a - b),
    # Halves go up where the sum is positive, and towards it where it is negative.
    "vavrg": lambda a, b: np.floor((a + b) / 2 + 0.5 * (a + b >= 0)).astype(np.int64),
    "vmin": np.minimum,
    "vmax": np.maximum,
}


@pytest.mark.parametrize("more", ["", ".sat", ".add"])
@pytest.mark.parametrize("types", ["u32.u32.u32", "s32.s32.s32", "s32.u32.s32"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", VIDEO)
def test_parts_of_registers(name, count, types, more):
    a, b, c = _drawn(count)
    size = 4 // count
    kinds = [f"{'i' if kind[0] == 's' else 'u'}{size}" for kind in types.split(".")]
    value = VIDEO[name](a.view(kinds[1]).astype(np.int64), b.view(kinds[2]).astype(np.int64))
    if more == ".sat":
        limits = np.iinfo(kinds[0])
        value = np.clip(value, limits.min, limits.max)
    wanted = value.astype(kinds[0])
    if more == ".add":
        expected = (wanted.reshape(32, count).astype(np.int64).sum(axis=1) + c).astype(np.uint32)
    else:
        expected = wanted.view(np.uint32)
    assert (_of_words(f"{name}{count}.{types}{more} %r3, %r1, %r2, %r3;", a, b, c) == expected).all()


@pytest.mark.parametrize("summed", ["", ".add"])
def test_comparison_of_parts(summed):
    a, b, c = _drawn(7)
    found = (a.view(np.int8).astype(int) < b.view(np.uint8)).reshape(32, 4)
    expected = found.sum(axis=1) + c if summed else (found << np.array([0, 8, 16, 24])).sum(axis=1)
    assert (_of_words(f"vset4.s32.u32.lt{summed} %r3, %r1, %r2, %r3;", a, b, c) == expected.astype(np.uint32)).all()


def _halves(words: np.ndarray, name: str) -> np.ndarray:
    return words.view({"f16x2": np.float16, "bf16x2": ml_dtypes.bfloat16}[name]).reshape(32, 2)


OUT_OF_BOUNDS = 0x7FF7


@pytest.mark.parametrize("relu", ["", ".relu"])
@pytest.mark.parametrize("name", ["f16x2", "bf16x2", "f16", "bf16"])
def test_fma_with_operands_from_out_of_bounds(name, relu):
    """Zero where an operand is the NaN that a tensor map fills in; another NaN stays one."""
    rng = np.random.default_rng(9)
    kind = np.float16 if name.startswith("f16") else ml_dtypes.bfloat16
    a, b, c = (rng.integers(-8, 9, 64).astype(kind).view(np.uint16) for _ in range(3))
    for operand in (a, b, c):
        operand[rng.integers(0, 64, 12)] = OUT_OF_BOUNDS
    b[[0, 1]] = 0x7FFF
    x, y, z = (one.view(kind).astype(np.float64) for one in (a, b, c))
    wanted = x * y + z
    if relu:
        wanted = np.where(wanted < 0, 0, wanted)
    outside = np.logical_or.reduce([one == OUT_OF_BOUNDS for one in (a, b, c)])
    expected = np.where(outside, 0, np.where(np.isnan(wanted), 0x7FFF, wanted.astype(kind).view(np.uint16)))
    words = [one.view(np.uint32) for one in (a, b, c)]
    if name.endswith("x2"):
        found = _of_words(f"fma.rn.oob{relu}.{name} %r3, %r1, %r2, %r3;", *words)
    else:
        halves = [f"mov.b32 {{%h{i}, %h0}}, %r{i};" for i in (1, 2, 3)]
        found = _of_words(f"{''.join(halves)} fma.rn.oob{relu}.{name} %h1, %h1, %h2, %h3; mov.b32 %r3, {{%h1, %h1}};", *words)
        expected = np.repeat(expected[::2], 2)
    # Zeros of either sign are both right where no operand is out of bounds.
    got = found.view(np.uint16)
    zero = (got & 0x7FFF == 0) & (expected & 0x7FFF == 0) & ~outside
    assert ((got == expected) | zero).all()


@pytest.mark.parametrize("name", ["f16x2", "bf16x2"])
@pytest.mark.parametrize(("comparison", "combine"), [("lt", ""), ("equ", ""), ("gt", ".and"), ("num", ".xor")])
def test_set_of_halves(name, comparison, combine):
    a, b, _ = _drawn(3)
    b[4:8] = a[4:8]
    x, y = (_halves(one, name).astype(np.float64) for one in (a, b))
    nan = np.isnan(x) | np.isnan(y)
    found = {"lt": x < y, "equ": (x == y) | nan, "gt": x > y, "num": ~nan}[comparison]
    odd = (LANE % 2 == 1)[:, None]
    found = {"": found, ".and": found & odd, ".xor": found ^ odd}[combine]
    one = 0x3C00 if name == "f16x2" else 0x3F80
    predicate = ", %p1" if combine else ""
    got = _of_words(f"set.{comparison}{combine}.{name}.{name} %r3, %r1, %r2{predicate};", a, b)
    assert (got.view(np.uint16).reshape(32, 2) == np.where(found, one, 0)).all()


@pytest.mark.parametrize("combine", ["and", "or", "xor"])
def test_set_with_a_predicate(combine):
    a, b = np.arange(32, dtype=np.float32), np.full(32, 9, np.float32)
    joined = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}[combine](a < b, LANE % 2 == 1)
    assert (_of_words(f"set.lt.{combine}.u32.f32 %r3, %f1, %f2, %p1;", a, b) == np.where(joined, 0xFFFFFFFF, 0)).all()
    assert (_of_words(f"set.lt.{combine}.s32.f32 %r3, %f1, %f2, %p1;", a, b) == np.where(joined, 0xFFFFFFFF, 0)).all()


def test_relu_of_packed_integers():
    a, b, _ = _drawn(4)
    x, y = a.view(np.int16), b.view(np.int16)
    assert (_of_words("max.relu.s16x2 %r3, %r1, %r2;", a, b).view(np.int16) == np.maximum(np.maximum(x, y), 0)).all()
    assert (_of_words("min.relu.s16x2 %r3, %r1, %r2;", a, b).view(np.int16) == np.maximum(np.minimum(x, y), 0)).all()


def test_largest_magnitude_of_three():
    a, b, c = np.random.default_rng(5).standard_normal((3, 32)).astype(np.float32)
    assert (_of_words("max.abs.f32 %f3, %f1, %f2, %f3;", a, b, c).view(np.float32) == np.abs([a, b, c]).max(axis=0)).all()


def test_saturated_mad24():
    a, b, c = _drawn(6)
    x, y = (one.view(np.int32) << 8 >> 8 for one in (a, b))
    exact = (x.astype(np.int64) * y >> 16) + c.view(np.int32)
    expected = np.clip(exact, -(1 << 31), (1 << 31) - 1).astype(np.int32)
    assert (_of_words("mad24.hi.sat.s32 %r3, %r1, %r2, %r3;", a, b, c).view(np.int32) == expected).all()


@pytest.mark.parametrize("kind", ["s4", "u4", "s2", "u2"])
def test_pack_below_a_byte(kind):
    a, b, c = _drawn(8)
    a, b = (np.where(LANE % 2, one, one % 16).view(np.int32) - 4 for one in (a, b))
    bits = int(kind[1])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    x, y = (np.clip(one.astype(np.int64), low, high) & (1 << bits) - 1 for one in (a, b))
    expected = ((c.astype(np.int64) << 2 * bits) | x << bits | y).astype(np.uint32)
    assert (
        _of_words(f"cvt.pack.sat.{kind}.s32.b32 %r3, %r1, %r2, %r3;", a.astype(np.int32), b.astype(np.int32), c) == expected
    ).all()
