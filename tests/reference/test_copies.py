"""`stack`, `concatenate`, `pad` and `roll` are NumPy's, and their bounds move with the values."""

import numpy as np
import pytest

from pipec.reference import Bounded, Precision, ReferenceProblem, bounded
from pipec.reference.evaluator import Evaluator

CHANCE = np.random.default_rng(4)
# An error that says where its element comes from.
A, B, ROW = (bounded(CHANCE.standard_normal(shape), CHANCE.random(shape)) for shape in ((3, 4), (3, 4), (4,)))
NAMES = {"a": A, "b": B, "row": ROW, "one": bounded(1.5, 0.25), "K": bounded(3), "W": bounded(2)}

SAME = {
    "stack((a, b))": lambda a, b, row, one: np.stack((a, b)),
    "stack([a, b, a], axis=-1)": lambda a, b, row, one: np.stack([a, b, a], axis=-1),
    "stack((one, row[0], one))": lambda a, b, row, one: np.stack((one, row[0], one)),
    "concatenate((a, row[None, :], b))": lambda a, b, row, one: np.concatenate((a, row[None], b)),
    "concatenate([a, b[:, 1:3]], axis=-1)": lambda a, b, row, one: np.concatenate([a, b[:, 1:3]], axis=1),
    "pad(a, 2)": lambda a, b, row, one: np.pad(a, 2),
    "pad(a, (K - 1, 0), constant_values=one)": lambda a, b, row, one: np.pad(a, (2, 0), constant_values=one),
    "pad(a, ((1, 0), (W, K)), constant_values=one)": lambda a, b, row, one: np.pad(a, ((1, 0), (2, 3)), constant_values=one),
    "pad(row, [[0, 2]])": lambda a, b, row, one: np.pad(row, [[0, 2]]),
    **{
        f'pad(a, ((1, 2), (0, 1)), mode="{mode}")': lambda a, b, row, one, mode=mode: np.pad(a, ((1, 2), (0, 1)), mode=mode)
        for mode in ("edge", "reflect", "symmetric", "wrap")
    },
    "roll(a, K)": lambda a, b, row, one: np.roll(a, 3),
    "roll(a, -1, axis=0)": lambda a, b, row, one: np.roll(a, -1, axis=0),
    "roll(a, W, axis=-1)": lambda a, b, row, one: np.roll(a, 2, axis=1),
}


def evaluate(expression: str) -> Bounded:
    return Evaluator(dict(NAMES), Precision()).assignment(f"y = {expression}")[1]


@pytest.mark.parametrize("expression", SAME)
def test_values_and_bounds_are_where_numpy_puts_them(expression: str) -> None:
    stated = evaluate(expression)
    arrays = A, B, ROW, NAMES["one"]
    padded_by_zeros = "pad" in expression and "one" not in expression
    assert np.array_equal(stated.value, SAME[expression](*(one.value for one in arrays)))
    assert np.array_equal(stated.error, SAME[expression](*(one.error for one in arrays)))
    assert not padded_by_zeros or stated.error[stated.value == 0].max(initial=0.0) == 0


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("stack((a, row))", r"arrays of one shape, and these have the shapes \(3, 4\) and \(4,\)"),
        ("stack((a, b), axis=3)", "no axis 3: the array has 3 dimensions"),
        ("stack((a, b), axis=None)", "needs an axis"),
        ("stack(a, b)", "there are 2 arguments for 1, and `axis=` is written out"),
        ("stack(a)", r"`a` is no list of arrays: they are written `\(a, b\)`"),
        ("stack(())", "no list of arrays"),
        ("concatenate((a, b[:, 1:3]))", "differ along axis 0 alone"),
        ("concatenate((a, row))", "differ along axis 0 alone"),
        ("concatenate((one, one))", "`stack` makes an array of numbers"),
        ("concatenate((a, b), axis=2)", "no axis 2"),
        ("pad(a, -1)", "`-1` is no whole number from 0"),
        ("pad(a, 0.5)", "`0.5` is no whole number"),
        ("pad(a, (1, 2, 3))", "is no width"),
        ("pad(a, ((1, 2), 3))", "is no width"),
        ("pad(a, (((1, 2), 3), (1, 2)))", "is no width"),
        ("pad(a, ((1, 2), (3, 4), (5, 6)))", "widths for 3 axes, and the array has 2"),
        ("pad(one, 1)", "`x` has at least 1 dimension"),
        ("pad(a, 1, mode='mean')", 'is none of `"constant"`, `"edge"`'),
        ("pad(a, 1, mode='edge', constant_values=1)", "leave out `constant_values`"),
        ("pad(a[3:], 1, mode='edge')", "has no elements"),
        ("pad(a, 1, constant_values=row)", "here stands one number"),
        ("pad(a, 100000000)", "no whole number from 0 to 16777216"),
        ("roll(a, 0.5)", "no whole number"),
        ("roll(a, row)", "here stands one number"),
        ("roll(a, 1, axis=2)", "no axis 2"),
        ("roll(a, 1, axis=(0, 1))", "takes one axis"),
    ],
)
def test_what_numpy_has_no_answer_to(expression: str, says: str) -> None:
    with pytest.raises(ReferenceProblem, match=says):
        evaluate(expression)


X, W = CHANCE.standard_normal((5, 6)), CHANCE.standard_normal((3, 3))


def at(i: int, j: int) -> float:
    """An element of X, which zeros surround."""
    return float(X[i, j]) if 0 <= i < 5 and 0 <= j < 6 else 0.0


CONVOLUTIONS = {
    "4 * x - p[0:M, 1:N + 1] - p[2:M + 2, 1:N + 1] - p[1:M + 1, 0:N] - p[1:M + 1, 2:N + 2]": lambda i, j: (
        4 * at(i, j) - at(i - 1, j) - at(i + 1, j) - at(i, j - 1) - at(i, j + 1)
    ),
    "p[1:M + 1, 0:N] * w[1, 0] + x * w[1, 1] + p[1:M + 1, 2:N + 2] * w[1, 2]": lambda i, j: sum(
        at(i, j + k - 1) * W[1, k] for k in range(3)
    ),
    "sum(sum(p[(arange(M)[:, None] + arange(3))[:, :, None, None], arange(N)[:, None] + arange(3)] * w[:, None], axis=3), axis=1)": (
        lambda i, j: sum(at(i + k - 1, j + l - 1) * W[k, l] for k in range(3) for l in range(3))
    ),
    "roll(x, 1, axis=1) - roll(x, -1, axis=0)": lambda i, j: X[i, (j - 1) % 6] - X[(i + 1) % 5, j],
}


@pytest.mark.parametrize("expression", CONVOLUTIONS)
def test_stencils_and_convolutions(expression: str) -> None:
    names = {"x": bounded(X), "w": bounded(W), "M": bounded(5), "N": bounded(6)}
    evaluator = Evaluator(names, Precision())
    evaluator.names["p"] = evaluator.assignment("p = pad(x, 1)")[1]
    found = evaluator.assignment(f"y = {expression}")[1]
    expected = [[CONVOLUTIONS[expression](i, j) for j in range(6)] for i in range(5)]
    assert np.allclose(found.value, expected, rtol=1e-13, atol=1e-13)
    assert found.error.max() < 1e-4
