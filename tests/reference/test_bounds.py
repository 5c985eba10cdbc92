"""The bounds of a reference: what float32 computes lies within them, whatever the expression, and they allow little more."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipec.driver import Options, compile_source
from pipec.reference import Precision, bounded, compare, expected_values, poisoned, rounding_to
from pipec.reference.problem import ReferenceProblem
from pipec.reference.trial import Trial, trial_of
from pipec.source import Source

DTYPES = (
    np.float32,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    np.int32,
    np.int8,
    np.uint8,
    np.bool_,
)


def single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32)


def weights(x: np.ndarray) -> np.ndarray:
    rate = np.float32(1 / np.log(2))
    return np.exp2(x * rate - x.max(1, keepdims=True) * rate)


# Each expression with the same in float32 NumPy, in another order where one suggests itself.
FORMS = {
    "y = a @ b.T": lambda a, b: single(np.add.reduce(a[:, None, ::-1] * b[None, :, ::-1], axis=2, dtype=np.float32)),
    "y = a @ b.T + a @ b.T": lambda a, b: a @ (2 * b.T),
    "y = (a - b) * (a + b)": lambda a, b: a * a - b * b,
    "y = exp(a) / (1 + exp(a))": lambda a, b: 1 / (1 + np.exp(-a)),
    "y = sigmoid(a)": lambda a, b: np.exp(a) / (1 + np.exp(a)),
    "y = softmax(4 * a)": lambda a, b: weights(4 * a) * (1 / weights(4 * a).sum(1, keepdims=True)),
    "y = maximum(a * 3 - b, relu(b)) / 3": lambda a, b: np.maximum(
        a - b * np.float32(1 / 3), np.maximum(b, 0) * np.float32(1 / 3)
    ),
    "y = log(abs(a) + 1) * sqrt(abs(b))": lambda a, b: np.log2(np.abs(a) + 1) * np.float32(np.log(2)) * np.sqrt(np.abs(b)),
    "y = where(a > b, a, b) ** 3": lambda a, b: np.maximum(a, b) * np.maximum(a, b) * np.maximum(a, b),
    "y = a / sqrt(sum(a * a, axis=1)[:, None] + 0.001)": lambda a, b: (
        a * (1 / np.sqrt((a * a).sum(1, keepdims=True) + np.float32(0.001)))
    ),
    "y = tanh(a) + max(b, axis=0)": lambda a, b: b.max(0) + np.tanh(a),
    "y = clip(a, -1, 1) - min(b)": lambda a, b: np.minimum(np.maximum(a, -1), 1) - b.min(),
}


@pytest.mark.parametrize("line", FORMS)
@pytest.mark.parametrize("scale", [1.0, 1e-3, 8.0])
def test_single_precision_lies_within(line: str, scale: float) -> None:
    generator = np.random.default_rng(5)
    a, b = (single(generator.standard_normal((24, 24)) * scale) for _ in "ab")
    found = single(FORMS[line](a, b))
    outcome = compare("y", found, expected_values([line], {"a": a, "b": b, "y": found})["y"])
    assert outcome.passed, outcome
    # And little more: a thousandth of what the element is made of is seen.
    found[3, 5] += 1e-3 * max(abs(float(found[3, 5])), 20 * scale * scale if "@" in line else scale)
    assert not compare("y", found, expected_values([line], {"a": a, "b": b, "y": found})["y"]).passed


def test_an_infinity_loosens_nothing_else() -> None:
    x = np.ones((4, 4), np.float32)
    expected = expected_values(["y = x + where(x * 0 + offsets(1, 1, 1) > 2.5, 1e999, 0)"], {"x": x, "y": x})["y"]
    assert np.isinf(expected.value).any() and np.isfinite(expected.value).any() and expected.error.max() < 1e-5
    found = expected.value.astype(np.float32)
    assert compare("y", found, expected).passed
    found[0, 0] += 1
    assert compare("y", found, expected).wrong == 1


@pytest.mark.parametrize("wanted", [np.inf, -np.inf, np.nan, 1.0])
@pytest.mark.parametrize("got", [np.inf, -np.inf, np.nan, 1.0])
def test_kinds_agree_in_place(wanted: float, got: float) -> None:
    outcome = compare("y", np.array([got, 2.0], np.float32), bounded([wanted, 2.0], [0.25, 0.25]))
    assert outcome.passed == (repr(wanted) == repr(got))


def test_overflow_of_the_outputs_type() -> None:
    expected = bounded([7e4, 65519.0, 65519.0, 60000.0], 8.0)
    assert compare("y", np.array([np.inf, np.inf, 65504, 60000], np.float16), expected).passed
    assert compare("y", np.array([65504, 0, 65504, np.inf], np.float16), expected).wrong == 3
    largest = np.array([448, -448, 448], ml_dtypes.float8_e4m3fn)
    assert compare("y", largest, bounded([1000.0, -np.inf, 500.0])).passed, "conversions to 8-bit floats saturate"


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(bits=st.binary(min_size=32, max_size=32))
def test_poison_is_wrong_at_any_position(dtype: type, bits: bytes) -> None:
    """Also where the right value has the bits that the poison would have."""
    right = (
        np.frombuffer(bits, np.uint8).view(f"u{np.dtype(dtype).itemsize}")
        if dtype is not np.bool_
        else np.frombuffer(bits, np.uint8) & 1
    )
    right = right.view(dtype)
    with np.errstate(invalid="ignore"):
        expected = bounded(right.astype(np.float64))
        for candidate in (expected, bounded(poisoned(right, None).astype(np.float64))):
            poison = poisoned(right, candidate)
            outcome = compare("y", poison, candidate, poison)
            assert (outcome.wrong, outcome.unwritten) == (right.size, right.size)


_OF = """
kernel k(x: tensor[TYPE, 32, 64], y: tensor[TYPE, 32, 64], z: tensor[TYPE, 32, 64]):
    grid(1)
    role a(warps=1):
        store.direct(y[0, 0], load(x[0, 0], 32, 64))
        store.direct(z[0, 0], load(x[0, 0], 32, 64))
"""


def _trial(dtype: str, line: str) -> Trial:
    text = _OF.replace("TYPE", dtype).replace("    grid", f'    """numpy: {line}"""\n    grid')
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert state.plans is not None
    return trial_of(state.plans[0], {})


@pytest.mark.parametrize(
    ("dtype", "line", "says"),
    [
        ("f32", "y = y + x", "reads `y`"),
        ("f32", "y = (x + 100000000) - 100000000", "zeros would pass"),
        ("i64", "y = x * 1152921504606846976 + 1", "beyond 2"),
        ("u64", "y = x + 9007199254740994", "beyond 2"),
    ],
)
def test_a_comparison_that_says_nothing_is_refused(dtype: str, line: str, says: str) -> None:
    with pytest.raises(ReferenceProblem, match=says):
        _trial(dtype, line)


@pytest.mark.parametrize(
    ("dtype", "line"), [("f32", "y = 0 * x"), ("f32", "y = (x + 1000) - 1000"), ("i64", "y = x + 9007199254740000")]
)
def test_outputs_that_no_line_names_are_known(dtype: str, line: str) -> None:
    assert _trial(dtype, line).unjudged == ("z",)
    assert _trial(dtype, line.replace("y", "z")).unjudged == ("y",)


def _flushed(values: np.ndarray) -> np.ndarray:
    """As float32, without subnormal numbers: how approximate functions and tensor cores may give them."""
    single = values.astype(np.float32)
    return np.where(np.abs(single) < np.finfo(np.float32).smallest_normal, np.float32(0), single)


_SMALL = {
    "exp(x)": (np.exp, np.linspace(-100, -60, 3001)),
    "exp2(x)": (np.exp2, np.linspace(-140, -100, 3001)),
    "sigmoid(x)": (lambda x: 1 / (1 + np.exp(-x)), np.linspace(-100, -60, 3001)),
    "1 / x": (lambda x: 1 / x, np.geomspace(1e30, 3e38, 3001)),
}


@pytest.mark.parametrize("text", _SMALL)
def test_what_underflows_may_be_multiplied(text: str) -> None:
    """A value flushed to zero is lost as a whole, and what it is multiplied by makes that larger."""
    function, values = _SMALL[text]
    x = single(values)
    z = np.full_like(x, 3e9)
    with np.errstate(under="ignore"):
        value = _flushed(function(x.astype(np.float64)))
        found = _flushed(_flushed(value * z) * np.float32(1e-5))
    expected = expected_values([f"y = ({text}) * z * 0.00001"], {"x": x, "z": z, "y": np.zeros_like(x)})["y"]
    assert (found == 0).any() and compare("y", found, expected).passed
    assert not compare("y", found + np.float32(1e-32), expected).passed


def test_operands_that_underflow_are_multiplied() -> None:
    """Probabilities written in eight bits, for example: half the least positive number of the type, for each term."""
    made = rounding_to(ml_dtypes.float8_e4m3fn)
    a, b = np.full((4, 64), 2.0**-11, np.float32), np.ones((64, 8), np.float32)
    found = (a.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)) @ b
    arguments = {"a": a, "b": b, "y": np.zeros((4, 8), np.float32)}
    expected = expected_values(["y = a @ b"], arguments, precision=Precision(operand=made, argument=made))["y"]
    assert not found.any() and compare("y", found, expected).passed
    assert not compare("y", found + np.float32(0.1), expected).passed
