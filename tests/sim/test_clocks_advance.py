"""Each reading of the clock is later than those before it, of the same warp and of warps that it has met."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, launch

# The first warp reads twice and meets the second one, which reads then.
TEXT = """.version 8.6\n.target sm_90a\n.address_size 64
.visible .entry k(.param .u64 p) {{ .reg .pred %first; .reg .b64 %out, %x, %d<4>; .reg .b32 %t, %r<4>;
ld.param.u64 %out, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %x, %t, 8; add.s64 %out, %out, %x; setp.lt.u32 %first, %t, 32;
mov.b64 %d1, 0; mov.b64 %d2, 0; mov.b64 %d3, 0;
@!%first bra MEET;
mov.{type} {register}1, {clock}; mov.{type} {register}2, {clock}; {extended}
MEET: bar.sync 0;
@%first bra OUT;
mov.{type} {register}3, {clock}; {last}
OUT: st.global.b64 [%out], %d1; st.global.b64 [%out+512], %d2; st.global.b64 [%out+1024], %d3;
ret; }}"""
WIDE = {"type": "u64", "register": "%d", "extended": "", "last": ""}
SHORT = {
    "type": "u32",
    "register": "%r",
    "extended": "cvt.u64.u32 %d1, %r1; cvt.u64.u32 %d2, %r2;",
    "last": "cvt.u64.u32 %d3, %r3;",
}


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize(("clock", "words"), [("%clock64", WIDE), ("%clock", SHORT)])
def test_two_readings_differ(clock: str, words: dict[str, str], timing: str) -> None:
    out = np.zeros((3, 64), np.uint64)
    text = TEXT.format(clock=clock, **words)
    launch(text, block=64, arguments=[ArrayArgument(out)], options=Options(timing=timing))  # type: ignore[arg-type]
    assert 0 < out[0, 0] < out[1, 0] < out[2, 32]
