"""Random GEMMs with scale factors along K compute what the bytes of their arrays stand for (`fuzz_scaled.py`)."""

import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from effort import reached
from fuzz.fuzz_scaled import attempt, tried, wrong
from fuzz.scaled_kernels import draw
from samples import numbers

from pipec.driver import Options, compile_source
from pipec.source import Source


@pytest.mark.parametrize("number", numbers("scaled", 12, 300))
def test_what_is_accepted_computes_what_its_bytes_stand_for(number: int) -> None:
    assert attempt(random.Random(f"scaled/0/{number}")) is None


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        (r"(sfa\[\w+\.x), k \* \(BK // \d+\)", r"\1, 0"),
        (r"(sfb\[\w+\.y \* BN // 128), k", r"\1, k + 1"),
        (r", sfb_row=[^)]*\)", r", sfb_row=64)"),
    ],
)
def test_factors_of_another_chunk_or_row_are_noticed(line: str, instead: str) -> None:
    def noticed(number: int) -> bool:
        program = draw(random.Random(f"scaled/0/{number}"))
        changed = replace(program, source=re.sub(line, instead, program.source))
        return changed.source != program.source and "another result" in (tried(changed, number) or "")

    assert reached(2, map(noticed, range(12)))


def _without(opcode: str) -> Callable[[str], str]:
    """The last such instruction is left out."""

    def changed(ptx: str) -> str:
        at = ptx.rfind(opcode)
        return ptx[:at] + ptx[ptx.index(";", at) + 1 :]

    return changed


@pytest.mark.parametrize(
    "changed",
    [
        _without("tcgen05.cp."),
        lambda ptx: ptx.replace(".block16", ".block32"),
    ],
    ids=["a copy of factors is left out", "factors for 32 elements in place of 16"],
)
def test_faults_planted_into_the_text_are_noticed(changed: Callable[[str], str]) -> None:
    def noticed(number: int) -> bool:
        program = draw(random.Random(f"scaled/0/{number}"))
        state = compile_source(Source("k.pipe", program.source), Options("sm_100a"))
        assert state.plans is not None and state.ptx is not None
        text = changed(state.ptx)
        return text != state.ptx and wrong(program, state.plans[0].interface, text, number) is not None

    assert reached(3, map(noticed, range(12)))
