"""Video instructions against the pseudocode of the PTX ISA, with selectors, masks and secondary operations."""

from __future__ import annotations

import numpy as np
import pytest

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble
from pipec.sim import ArrayArgument, SimulationError, launch

from .video_forms import FAMILIES, Form, forms, module, words


def computed(found: list[Form]) -> np.ndarray:
    out = np.zeros((len(found), 32), np.uint32)
    launch(module(found), block=32, arguments=[ArrayArgument(words()), ArrayArgument(out)])
    return out


@pytest.mark.parametrize("family", FAMILIES)
def test_all_forms(family: str) -> None:
    found = forms(family, 60)
    assert assemble(module(found), "sm_90a", Sink(), tool="ptxas") is not None
    given = words().tolist()
    for form, lanes in zip(found, computed(found), strict=True):
        expected = [form.meaning(*of) & 0xFFFFFFFF for of in zip(*given, strict=True)]
        assert lanes.tolist() == expected, form.text


WRONG = {
    "two secondary operations": "vadd.s32.s32.s32.add %r3.b1, %r1, %r2, %r3;",
    "no third operand": "vadd.s32.s32.s32.add %r3, %r1, %r2;",
    "parts of a scalar": "vadd.s32.s32.s32 %r3, %r1.b10, %r2;",
    "a byte that is not there": "vadd.s32.s32.s32 %r3, %r1.b4, %r2;",
    "halves of bytes": "vadd4.s32.s32.s32 %r3, %r1.h10, %r2, %r3;",
    "too few parts": "vadd4.s32.s32.s32 %r3, %r1.b10, %r2, %r3;",
    "a part that is not there": "vadd2.s32.s32.s32 %r3, %r1.h14, %r2, %r3;",
    "a part twice": "vadd2.s32.s32.s32 %r3.h11, %r1, %r2, %r3;",
    "a mask of others": "vadd2.s32.s32.s32 %r3.h2, %r1, %r2, %r3;",
    "a negated operand": "vadd.s32.s32.s32 %r3, -%r1, %r2;",
    "a negated product and addend": "vmad.s32.s32.s32 %r3, -%r1, %r2, -%r3;",
    "a negated operand beside one more": "vmad.s32.s32.s32.po %r3, -%r1, %r2, %r3;",
    "a signed distance": "vshl.s32.s32.s32.clamp %r3, %r1, %r2;",
    "no comparison": "vset.s32.s32 %r3, %r1, %r2;",
    "another type": "vadd.s16.s32.s32 %r3, %r1, %r2;",
    "parts of another instruction": "add.u32 %r3, %r1.b0, %r2;",
}


@pytest.mark.parametrize("name", WRONG)
def test_other_forms_are_refused(name: str) -> None:
    """As ptxas does."""
    with pytest.raises(SimulationError) as caught:
        computed([Form(WRONG[name], lambda *_: 0)])
    assert caught.value.kind in ("malformed", "unsupported") and "`" in caught.value.message
    assert assemble(module([Form(WRONG[name], lambda *_: 0)]), "sm_90a", Sink(), tool="ptxas") is None


def test_an_operand_that_nothing_combines_with_is_ignored() -> None:
    (lanes,) = computed([Form("vadd.s32.s32.s32 %r3, %r1, %r2, %r3;", lambda *_: 0)])
    assert (lanes == words()[0] + words()[1]).all()
