"""Counts, places and other whole numbers are exact as far as the kernel's types have them all, however they are added up."""

import ml_dtypes
import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.reference import Bounded, Precision, bounded, precision_of, rounding_to
from pipec.reference.evaluator import Evaluator
from pipec.source import Source

SINGLE = Precision()
BF16 = Precision(working=rounding_to(ml_dtypes.bfloat16))
HALF_SUMS = Precision(term=2.0**-15)


def evaluate(expression: str, precision: Precision = SINGLE) -> Bounded:
    chance = np.random.default_rng(2)
    given = {
        "x": bounded(chance.integers(-9, 10, (6, 32))),
        "z": bounded(chance.standard_normal((6, 32))),
        "ones": bounded(np.ones(300)),
        "N": bounded(32),
    }
    return Evaluator(given, precision).assignment(f"y = {expression}")[1]


@pytest.mark.parametrize(
    "line",
    [
        "sum(arange(N)[:, None] >= x[0], axis=1)",
        "sum(z > 0, axis=1)",
        "cumsum(where(z > 0, 1, 0), axis=1)",
        "x @ x.T",
        "(z > 0) @ (z > 0).T",
        "grouped(x, stack((x, x)), offsets(3, 3))",
        "sum(x * x) // 7 + sum(x) % 5",
        "x ** 2 - x ** 3",
        "floor(x) + ceil(z) + round(z)",
        "max(x * x, axis=0) + argmax(z, axis=0)",
        "(sum(z > 0, axis=1)[:, None] == sum(z > 0, axis=1)) @ x",
        "roll(pad(stack((x, x)), 1), 3)",
    ],
)
def test_what_is_counted_is_exact(line: str) -> None:
    assert evaluate(line).exact


@pytest.mark.parametrize(
    ("line", "precision", "exact"),
    [
        ("sum(ones) * 55924", SINGLE, True),
        ("sum(ones) * 55925", SINGLE, False),
        ("sum(ones) * 55925", Precision(whole=2.0**53), True),
        ("sum(ones * 55924)", SINGLE, True),
        ("sum(ones * 55925)", SINGLE, False),
        ("(ones * 55924) @ ones", SINGLE, True),
        ("(ones * 55925) @ ones", SINGLE, False),
        ("16777217 + 0 * N", SINGLE, False),
        ("16777217 + 0 * N", Precision(whole=2.0**53), True),
        ("sum(ones[:256])", BF16, True),
        ("sum(ones)", BF16, False),
        ("sum(7 * ones[:292])", HALF_SUMS, True),
        ("sum(7 * ones[:293])", HALF_SUMS, False),
        ("sum(z)", SINGLE, False),
        ("sum(x / 2)", SINGLE, False),
        ("2 ** x[0:1]", SINGLE, False),
    ],
)
def test_up_to_where_they_are(line: str, precision: Precision, exact: bool) -> None:
    assert evaluate(line, precision).exact == exact


def test_one_rounded_element_leaves_the_others_exact() -> None:
    stated = evaluate("sum(where(arange(6)[:, None] == 2, z, x), axis=1)")
    assert (stated.error > 0).tolist() == [row == 2 for row in range(6)]


OF = """
kernel k(x: tensor[{0}, 32, 64], y: tensor[{0}, 32, 64]):
    grid(1)
    role a(warps=1):
        store.direct(y[0, 0], {1})
"""


@pytest.mark.parametrize(
    ("dtype", "value", "whole"),
    [
        ("i32", "load(x[0, 0], 32, 64) * 3", 2.0**53),
        ("f64", "load(x[0, 0], 32, 64)", 2.0**53),
        ("f32", "load(x[0, 0], 32, 64)", 2.0**24),
        ("i32", "cast[i32](cast[f32](load(x[0, 0], 32, 64)) + 1.0)", 2.0**24),
    ],
)
def test_the_types_of_a_kernel_say_up_to_where(dtype: str, value: str, whole: float) -> None:
    state = compile_source(Source("k.pipe", OF.format(dtype, value)), Options("sm_90a"))
    assert state.plans, state.diagnostics
    assert precision_of(state.plans[0].kernel).whole == whole
