"""Bounds of choices among values: sound for every rounding of the operands, and no wider than the farthest of them."""

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipec.reference import Bounded, Precision, bounded, choices, expected_values, rounding_to

VALUES = st.sampled_from([-1e30, -2.0, -0.5, 0.0, 0.25, 0.5, 0.5000001, 3.0, np.inf, -np.inf, np.nan])
ERRORS = st.sampled_from([0.0, 0.0, 1e-7, 0.25, 4.0, 1e22, np.inf])
OPERANDS = st.lists(st.tuples(VALUES, ERRORS), min_size=3, max_size=3).map(
    lambda pairs: bounded([value for value, _ in pairs], [error for _, error in pairs])
)


def parts(x: Bounded) -> list[Bounded]:
    return [Bounded(x.value[i : i + 1], x.error[i : i + 1]) for i in range(len(x.value))]


# Each as a function of three numbers, and its bound.
CHOICES: dict[str, tuple[Callable[..., object], Callable[[Bounded], Bounded]]] = {
    "max": (lambda a, b, c: np.max([a, b, c]), choices.max),
    "min": (lambda a, b, c: np.min([a, b, c]), choices.min),
    "maximum": (lambda a, b, c: np.maximum(a, b), lambda x: choices.maximum(*parts(x)[:2])),
    "fmin": (lambda a, b, c: np.fmin(a, b), lambda x: choices.fmin(*parts(x)[:2])),
    "clip": (lambda a, b, c: np.minimum(np.maximum(a, b), c), lambda x: choices.clip(*parts(x))),
    "where": (lambda a, b, c: np.where(a != 0, b, c), lambda x: choices.where(*parts(x))),
}


def corners(x: Bounded) -> list[tuple[float, ...]]:
    """The values that the three numbers may have: both ends of each interval, the middle, and zero if that is inside."""
    sides = []
    for value, error in zip(x.value, x.error, strict=True):
        reach = min(error, 1e300)
        ends = {value - reach, value, value + reach, *((0.0,) if abs(value) <= error else ())}
        sides.append(ends if np.isfinite(value) else {value})
    return list(itertools.product(*sides))


@pytest.mark.parametrize("name", CHOICES)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(x=OPERANDS)
def test_the_bound_is_the_farthest_that_rounding_leads_to(name: str, x: Bounded) -> None:
    function, bound = CHOICES[name]
    with np.errstate(all="ignore"):
        stated = bound(x)
        found = [float(function(*corner)) for corner in corners(x)]
    value, error = (float(part.reshape(-1)[0]) for part in (stated.value, stated.error))
    if not all(map(np.isfinite, found)):
        # What may be an infinity is one in any case, or nothing is known of it.
        same = len({repr(one) for one in found}) == 1 and repr(value) == repr(found[0])
        assert same or error == np.inf
        return
    farthest = max(abs(Fraction(one) - Fraction(value)) for one in found)
    if farthest >= 1e299:
        assert error == np.inf
    else:
        size = np.abs(x.value[np.isfinite(x.value)]).max(initial=1.0)  # of what is added in float64
        assert abs(Fraction(float(error)) - farthest) <= Fraction(2**-50 * (float(size) + float(farthest)))


def randomly(values: np.ndarray, dtype: type, chance: np.random.Generator) -> np.ndarray:
    """Each number rounded to one of its neighbours in the type."""
    near = values.astype(dtype)
    other = np.nextafter(near, np.where(near.astype(np.float64) < values, np.inf, -np.inf).astype(dtype))
    inexact = near.astype(np.float64) != values
    return np.where(inexact & chance.choice((False, True), values.shape), other, near).astype(np.float64)


NUMBERS = {"TENTH": 0.1, "ONE": 1.0, "MASK": -33333.3}
TERMS = st.sampled_from(["x", "z", *NUMBERS, "arange(4)"])
CONDITIONS = ("({a} > {b})", "({a} == {b})", "({a} <= TENTH)")
FORMS = (
    "({a} + {b})",
    "({a} * {b})",
    "({a} - {b})",
    "maximum({a}, {b})",
    "minimum({a}, {b})",
    "clip({a}, MASK, {b})",
    "relu({a})",
    "max({a} + 0 * x, axis=1)[:, None]",
    "min({a} + 0 * x, axis=0)",
    *(f"where({condition}, {{a}}, {{b}})" for condition in CONDITIONS),
    *(f"where({condition}, {{c}}, {{d}})" for condition in CONDITIONS),
    *(f"sum({condition} + 0 * x, axis=1)[:, None]" for condition in CONDITIONS),
)
EXPRESSIONS = st.recursive(
    TERMS,
    lambda inner: st.tuples(st.sampled_from(FORMS), inner, inner, inner, inner).map(
        lambda made: made[0].format(a=made[1], b=made[2], c=made[3], d=made[4])
    ),
    max_leaves=8,
)


class Rounded:
    """NumPy's own operations, each of which rounds its result at random; so independent of the bounds' code."""

    def __init__(self, value: object, like: "Rounded | None" = None) -> None:
        self.value = np.asarray(value, np.float64)

    @staticmethod
    def names(dtype: type, chance: np.random.Generator, arguments: dict[str, Any]) -> dict[str, object]:
        def made(value: object) -> Rounded:
            return Rounded(randomly(np.asarray(value, np.float64), dtype, chance))

        def plain(one: object) -> np.ndarray:
            return one.value if isinstance(one, Rounded) else np.asarray(one, np.float64).astype(dtype).astype(np.float64)

        def of(function: Callable[..., object]) -> Callable[..., Rounded]:
            return lambda *operands, **options: made(function(*map(plain, operands), **options))

        Rounded.of = staticmethod(of)
        named = {name: of(getattr(np, name)) for name in ("maximum", "minimum", "where", "max", "min", "sum")}
        named |= {"clip": of(lambda x, low, high: np.minimum(np.maximum(x, low), high)), "relu": of(lambda x: np.maximum(x, 0))}
        return {**named, "arange": of(np.arange), **{name: Rounded(plain(value)) for name, value in arguments.items()}}

    def __getitem__(self, place: object) -> "Rounded":
        return Rounded(self.value[place])


def _operator(name: str, reflected: bool = False) -> Callable[[Rounded, object], Rounded]:
    function = {"add": np.add, "mul": np.multiply, "sub": np.subtract, "gt": np.greater, "eq": np.equal, "le": np.less_equal}[
        name
    ]
    return lambda a, b: Rounded.of(function)(b, a) if reflected else Rounded.of(function)(a, b)


for _name in ("add", "mul", "sub", "gt", "eq", "le"):
    setattr(Rounded, f"__{_name}__", _operator(_name))
for _name in ("add", "mul", "sub"):
    setattr(Rounded, f"__r{_name}__", _operator(_name, reflected=True))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=["float32", "bfloat16"])
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(text=EXPRESSIONS, seed=st.integers(0, 2**32 - 1))
def test_what_rounds_at_random_lies_within(dtype: type, text: str, seed: int) -> None:
    """Numbers from few values, so that many are as good as equal; every operation rounds up or down, as chance has it."""
    chance = np.random.default_rng(seed)
    numbers = np.array([0.0, 0.3, 1 / 3, 0.5, 1.0, 3.0, -2.0], dtype).astype(np.float64)
    arguments = {name: chance.choice(numbers, (3, 4)) for name in "xz"}
    precision = Precision() if dtype is np.float32 else Precision(working=doubled(rounding_to(dtype)), term=2.0**-7)
    given = {**arguments, "y": np.zeros((3, 4))}
    stated = expected_values([f"y = {text} + 0 * x"], given, constants=NUMBERS, precision=precision)["y"]
    with np.errstate(all="ignore"):
        found = eval(
            f"{text} + 0 * x", Rounded.names(dtype, chance, {**arguments, **NUMBERS})
        ).value  # the text is from the forms above
    within = (found == stated.value) | (np.abs(found - stated.value) <= stated.error)
    assert within.all(), (text, found[~within], stated.value[~within], stated.error[~within])


def doubled(rounding: object) -> object:
    """Rounding to either side loses up to twice as much as rounding to the nearest."""
    return type(rounding)(2 * rounding.relative, 2 * rounding.absolute)


@pytest.mark.parametrize("function", ["max", "min"])
def test_what_is_masked_adds_nothing(function: str) -> None:
    """-1e30 is no float32: its error of 1.5e22 is that of elements that cannot be the largest."""
    chance = np.random.default_rng(1)
    x = chance.standard_normal((5, 8)).astype(np.float32)
    sign = "-" if function == "max" else ""
    line = f"y = exp(0.5 * {function}(where(arange(8) < 3, {sign}1e30, x), axis=1))"
    stated = expected_values([line], {"x": x, "y": np.zeros(5)})["y"]
    assert np.allclose(stated.value, np.exp(0.5 * getattr(x.astype(np.float64)[:, 3:], function)(1)))
    assert (stated.error <= 1e-4 * stated.value).all()
