"""Two tiles in the same columns of tensor memory: scores, and what is made of them. The right program, and what happens where the order is
another one: the check refuses what the simulator computes wrongly."""

from pathlib import Path

import numpy as np
import pytest
from running import compiled, run

import pipec.api.embed
from pipec.api.program import CompileError

ERRORS = Path(__file__).parents[1] / "errors"
WRONG = ["alias_given_back_early", "alias_not_read", "alias_obtained_twice", "alias_read_late", "alias_written_without_stage"]
# The mended form of the first wrong one.
SOURCE = (ERRORS / "lifetime" / "alias_given_back_early.pipe").read_text()
RIGHT = SOURCE.replace(
    "            scores.release()\n            turned.commit()\n", "            turned.commit()\n            scores.release()\n"
)


def operands(n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(n)
    a, b, c = (rng.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (128, n, n))
    return a, b, c, np.full((128, 64), 77, np.float32)


def expected(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    a, b, c = (x.astype(np.float64) for x in (a, b, c))
    return (a @ b.T * 0.5) @ c


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("n", [64, 320])
def test_the_tiles_take_turns(n, timing):
    assert RIGHT != SOURCE
    a, b, c, d = operands(n)
    run(RIGHT, "chain", a, b, c, d, timing=timing)
    np.testing.assert_array_equal(d, expected(a, b, c))


def test_they_use_the_same_columns():
    """64 columns for scores, 64 for the sum: what is made of the scores adds none, where 160 would be rounded up to 256."""
    assert compiled(RIGHT).report["chain"].tensor_columns == 128
    assert compiled(RIGHT.replace(", alias=s, column=32", "")).report["chain"].tensor_columns == 256


@pytest.mark.parametrize("case", WRONG)
def test_another_order_is_refused(case):
    with pytest.raises(CompileError) as refused:
        pipec.api.embed.compile(ERRORS / "lifetime" / f"{case}.pipe")
    assert {found.code for found in refused.value.diagnostics} <= {"E0747", "E0748"}


def test_what_is_refused_goes_wrong():
    """The next scores are multiplied over what was made of the last ones, before that is read."""
    program = pipec.api.embed.compile(ERRORS / "lifetime" / "alias_not_read.pipe", unchecked=True)
    a, b, c, d = operands(320)
    program["chain"](a, b, c, d, device="sim")
    assert (d != expected(a, b, c)).any()
