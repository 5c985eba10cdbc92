"""Random kernels whose roles count the same stages in different words, seeded; and the judge notices what it is there for."""

import random
from dataclasses import replace

import pytest
from effort import given_up_soon
from fuzz.count_kernels import LARGEST, Program, draw
from fuzz.fuzz_counts import attempt, judged
from samples import numbers

from pipec.driver import Options, compile_source
from pipec.source import Source


@pytest.mark.parametrize("number", numbers("counts", 3, 200))
def test_none_that_is_proved_hangs(number: int) -> None:
    assert attempt(random.Random(f"counts/0/{number}")) is None


def test_one_stage_more_is_noticed() -> None:
    """In what is counted, of a kernel that is proved."""
    for number in range(40):
        program = draw(random.Random(f"noticed/{number}"))
        with given_up_soon(refuting=False):
            state = compile_source(Source("k.pipe", program.source), Options("sm_90a"))
        if not state.failed:
            filled, taken = program.roles
            wrong = replace(program, roles=(filled, taken + "\n{it}" * (program.stages + 1)))
            assert "stages" in (judged(wrong, random.Random(1), state) or "")
            return
    raise AssertionError("none was proved")


def test_what_the_machine_counts() -> None:
    """A sum that wraps around, and one that does not."""
    program = Program("", ("for i in range(M + K):\n    {it}", "for i in range(K - (0 - M)):\n    {it}"), "1", 1)
    assert program.counts({"M": 3, "K": 4}, 0) == (7, 7)
    assert program.counts({"M": LARGEST, "K": 4}, 0) == (0, 0)
    longer = replace(
        program, roles=("for i in range(ceildiv(M, 64)):\n    {it}", "for i in range((M + 63) // 64 - M // 64 * 64):\n    {it}")
    )
    assert longer.counts({"M": 65}, 0) == (2, 0) and longer.hangs({"M": 65}, 0)
