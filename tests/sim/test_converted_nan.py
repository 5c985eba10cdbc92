"""What `cvt` between floating types makes of NaNs, as an H200 does; the same in compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, launch

BITS = {"f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64}
NANS = {
    "f16": (0x7E00, 0xFE01, 0x7C01, 0xFC55),
    "bf16": (0x7FC0, 0xFFC1, 0x7F81, 0xFF85),
    "f32": (0x7FC00000, 0xFFC12345, 0x7F800001, 0xFF812345),
    "f64": (0x7FF8000000000000, 0xFFF8123456789ABC, 0x7FF0000000000001, 0xFFF0123456789ABC),
}
HALF, SINGLE, ZERO = (0x7FFF,) * 4, (0x7FFFFFFF,) * 4, (0,) * 4
TRUNCATED = (0x7FC00000, 0xFFC091A2, 0x7FC00000, 0xFFC091A2)
MEASURED = {
    "f32.f16": SINGLE,
    "sat.f32.f16": ZERO,
    "f32.bf16": (0x7FC00000, 0xFFC10000, 0x7F810000, 0xFF850000),
    "f32.f32": NANS["f32"],
    "ftz.f32.f32": SINGLE,
    "rni.f32.f32": SINGLE,
    "sat.f32.f32": ZERO,
    "rn.f32.f64": TRUNCATED,
    "rz.f32.f64": TRUNCATED,
    "rn.ftz.f32.f64": TRUNCATED,
    "rna.tf32.f32": (0x7FC00000, 0xFFC12000, 0x7F800000, 0xFF812000),  # the third one is an infinity
    "f16.f16": HALF,
    "rni.f16.f16": HALF,
    "sat.f16.f16": ZERO,
    "rn.f16.f32": HALF,
    "rz.f16.f32": HALF,
    "rn.relu.f16.f32": HALF,
    "rn.f16.bf16": HALF,
    "rn.f16.f64": (0x7E00, 0xFE04, 0x7E00, 0xFE04),
    "bf16.bf16": HALF,
    "rni.bf16.bf16": HALF,
    "rn.bf16.f16": HALF,
    "rn.bf16.f32": HALF,
    "rn.bf16.f64": (0x7FC0, 0xFFC0, 0x7FC0, 0xFFC0),
    "f64.f16": (0x7FF8000000000000, 0xFFF8040000000000, 0x7FF8040000000000, 0xFFF9540000000000),
    "f64.bf16": (0x7FF8000000000000, 0xFFF8200000000000, 0x7FF8200000000000, 0xFFF8A00000000000),
    "f64.f32": (0x7FF8000000000000, 0xFFF82468A0000000, 0x7FF8000020000000, 0xFFF82468A0000000),
    "ftz.f64.f32": (0x7FFFFFFFE0000000,) * 4,
    "f64.f64": NANS["f64"],
    "rni.f64.f64": (0x7FF8000000000000, 0xFFF8123456789ABC, 0x7FF8000000000001, 0xFFF8123456789ABC),
}
ONE = {"f16": 0x3C00, "bf16": 0x3F80, "f32": 0x3F800000, "f64": 0x3FF0000000000000}


def converted(form: str, given: list[int], turns: int) -> list[int]:
    to, source = form.split(".")[-2:]
    register = {16: "%h", 32: "%r", 64: "%d"}
    a, b = BITS[source], BITS[to]
    values, out = np.array(given * (32 // len(given)), np.uint64), np.zeros(32, np.uint64)
    text = f""".version 8.6\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 p, .param .u64 q) {{
.reg .pred %again; .reg .b64 %in, %out, %x, %d<4>; .reg .b32 %t, %n, %r<4>; .reg .b16 %h<4>;
ld.param.u64 %in, [p]; ld.param.u64 %out, [q]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 8; add.s64 %in, %in, %x; add.s64 %out, %out, %x;
ld.global.b64 %d1, [%in]; cvt.u32.u64 %r1, %d1; cvt.u16.u64 %h1, %d1; mov.u32 %n, 0; mov.b64 %d3, 0; st.global.b64 [%out], %d3;
L: cvt.{form} {register[b]}2, {register[a]}1; add.u32 %n, %n, 1; setp.lt.u32 %again, %n, {turns}; @%again bra L;
st.global.b{b} [%out], {register[b]}2; ret; }}"""
    launch(text, block=32, arguments=[ArrayArgument(values), ArrayArgument(out)])
    return out[: len(given)].tolist()


@pytest.mark.parametrize("turns", [1, 300])
@pytest.mark.parametrize("form", MEASURED)
def test_what_a_nan_becomes(form: str, turns: int) -> None:
    to, source = form.split(".")[-2:]
    *found, one = converted(form, [*NANS[source], *[ONE[source]] * 4], turns)[:5]
    assert tuple(found) == MEASURED[form]
    assert one == ONE[to.removeprefix("t")], "other numbers are converted as before"
