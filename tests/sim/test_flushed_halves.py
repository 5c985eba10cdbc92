"""Halves and comparisons whose subnormal numbers are zero (.ftz), and packed comparisons that are combined: what an H200 gave."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import launch

# By lane; s says whether c is positive, h and i are the halves of a.
INPUTS = (
    "abb8e5a8 00030005 00400000 83ec603f 7e003c00 3c0103ff 00000001 ff800000 923923c4 80000000 7806adc0 ff800000",
    "83ff0001 41200000 00000000 bf8ccccd 00000001 3f800000 00000001 51030106 00030005 41200000 ee69eb94 4b82ebe2",
    "00400000 41200000 ffffffff bf8ccccd 41200000 7c00fc00 bf8ccccd 7fc00000 83ff0001 298ad518 d73816d7 00000001",
)
RECORDED = {
    "setp.eq.ftz.f16x2 p|q,a,b;": "0 1 3 0 0 1 3 1 0 1 0 0",
    "setp.lt.ftz.f16x2 p|q,a,b;": "3 2 0 0 0 2 0 0 2 2 0 0",
    "setp.lt.and.f16x2 p|q,a,b,s;": "3 2 0 0 0 2 0 1 0 2 0 0",
    "setp.geu.xor.f16x2 p|q,a,b,!s;": "0 1 0 0 3 1 0 2 2 1 0 3",
    "setp.gt.or.bf16x2 p|q,a,b,s;": "3 3 2 3 3 3 0 3 1 3 3 3",
    "set.eq.ftz.f16x2.f16x2 d,a,b;": "0 3c00 3c003c00 0 0 3c00 3c003c00 3c00 0 3c00 0 0",
    "set.le.ftz.u32.f16x2 d,a,b;": "ffffffff ffffffff ffffffff 0 0 ffffffff ffffffff ffff ffff0000 ffffffff 0 0",
    "set.gtu.and.f16x2.f16x2 d,a,b,s;": "0 3c00 0 0 3c003c00 3c00 0 3c000000 0 0 0 3c003c00",
    "set.ne.ftz.u32.f16 d,h,i;": "ffffffff 0 0 ffffffff 0 ffffffff 0 0 ffffffff 0 ffffffff 0",
    "add.ftz.f16x2 d,a,b;": "abb8e5a8 41200000 0 bf8c6019 7fff3c00 41c00000 0 7fff0000 923923c4 41200000 7672eb94 7fffebe2",
    "sub.ftz.sat.f16x2 d,a,b;": "0 0 0 3c003c00 3c00 0 0 0 23c4 0 3c003c00 3c00",
    "mul.ftz.f16x2 d,a,b;": "8000 0 0 f119 7fff0000 3f820000 0 7fff0000 80000000 80000000 fc005d72 7fff8000",
    "fma.rn.ftz.f16x2 d,a,b,c;": "0 41200000 7fff7fff bf8cf11b 7fff0000 7c00fc00 bf8ccccd 7fff0000 80000000 298ad518 fc005d72 7fff0000",
    "fma.rn.ftz.relu.f16x2 d,a,b,c;": "0 41200000 7fff7fff 0 7fff0000 7c000000 0 7fff0000 0 298a0000 5d72 7fff0000",
    "neg.ftz.f16x2 d,a;": "2bb865a8 80008000 80008000 e03f 7fffbc00 bc018000 80008000 7fff8000 1239a3c4 8000 f8062dc0 7fff8000",
    "abs.ftz.f16x2 d,a;": "2bb865a8 0 0 603f 7fff3c00 3c010000 0 7fff0000 123923c4 0 78062dc0 7fff0000",
    "min.ftz.f16x2 d,a,b;": "abb8e5a8 0 0 bf8ccccd 0 3c010000 0 51030000 92390000 80000000 ee69eb94 4b82ebe2",
    "max.ftz.NaN.f16x2 d,a,b;": "80000000 41200000 0 8000603f 7fff3c00 3f800000 0 7fff0000 23c4 41200000 7806adc0 7fff0000",
    "slct.ftz.f32.f32 d,a,b,c;": "abb8e5a8 30005 0 bf8ccccd 7e003c00 3c0103ff 1 51030106 30005 80000000 ee69eb94 ff800000",
}

# How the result of a form comes into d.
RESULTS = {"p": "selp.u32 d, 1, 0, p; @q add.u32 d, d, 2;", "d": ""}


def kernel(form: str) -> str:
    result = RESULTS.get(form.split()[1][0], "")
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 P) {{ .reg .b32 a, b, c, d, t; .reg .pred p, q, s; .reg .b16 h, i; .reg .b64 A, O;
ld.param.u64 A, [P]; mov.u32 t, %tid.x; mul.wide.u32 O, t, 16; add.u64 A, A, O; ld.global.v4.u32 {{a, b, c, d}}, [A];
mov.b32 {{h, i}}, a; setp.gt.s32 s, c, 0;
{form}
{result}
st.global.u32 [A+12], d; ret; }}"""


def words(text: str) -> np.ndarray:
    return np.array([int(word, 16) for word in text.split()], np.uint32)


@pytest.mark.parametrize("form", RECORDED)
def test_as_recorded(form):
    given = np.stack([*map(words, INPUTS), np.zeros(12, np.uint32)], 1)
    launch(kernel(form), "k", block=12, arguments=[given])
    assert [f"{word:x}" for word in given[:, 3]] == RECORDED[form].split()


@pytest.mark.parametrize("name", ["add.ftz", "sub.ftz.sat", "mul.ftz", "min.ftz", "max.ftz.NaN"])
@pytest.mark.parametrize("turns", [1, 400])
def test_one_half_is_as_two(name, turns):
    """Also as machine code, which takes over after some hundred executions."""
    given = np.stack([*map(words, INPUTS), np.zeros(12, np.uint32)], 1)
    form = f""".reg .b16 j, k; .reg .u32 n; mov.b32 {{j, k}}, b; mov.u32 n, 0;
AGAIN: {name}.f16 k, h, j; {name}.f16x2 d, a, b; add.u32 n, n, 1; setp.lt.u32 p, n, {turns}; @p bra AGAIN;
and.b32 d, d, 0xffff0000; cvt.u32.u16 c, k; or.b32 d, d, c;"""
    launch(kernel(form), "k", block=12, arguments=[given])
    assert [f"{word:x}" for word in given[:, 3]] == RECORDED[f"{name}.f16x2 d,a,b;"].split()


@pytest.mark.parametrize(
    ("form", "same"), [("add.f16x2 d,a,b;", np.add), ("mul.f16x2 d,a,b;", np.multiply), ("min.f16x2 d,a,b;", np.fmin)]
)
def test_without_it_they_are_kept(form, same):
    given = np.stack([*map(words, INPUTS), np.zeros(12, np.uint32)], 1)
    launch(kernel(form), "k", block=12, arguments=[given])
    a, b = (np.ascontiguousarray(given[:, place]).view(np.float16).astype(np.float64) for place in (0, 1))
    with np.errstate(over="ignore"):
        found, exact = np.ascontiguousarray(given[:, 3]).view(np.float16), same(a, b).astype(np.float16)
    assert ((found == exact) | (np.isnan(found) & np.isnan(exact))).all()
    assert (np.abs(found[found != 0]) < 2.0**-14).any()
