"""Lines that number rows and columns and index with what they compute: gathers, cross-entropy, masks and slopes of attention."""

import numpy as np
import pytest

from pipec.reference import Bounded, apply_given, expected_values
from pipec.reference.problem import ReferenceProblem

S, T, WINDOW = 5, 7, 3
GENERATOR = np.random.default_rng(3)
SCORES = GENERATOR.standard_normal((2, S, T))
SLOPES = np.array([0.5, 0.25])
TABLE = GENERATOR.standard_normal((6, 4))
TOKENS = np.array([5, 0, 5, 2], np.int32)
LABELS = np.array([1, 3, 0, 0, 2, 1], np.int32)
QUERIES, KEYS = np.indices((S, T))


def cross_entropy() -> np.ndarray:
    return np.log(np.exp(TABLE).sum(1)) - np.array([row[label] for row, label in zip(TABLE, LABELS, strict=True)])


LINES = {
    "y = table[tokens]": np.stack([TABLE[token] for token in TOKENS]),
    "y = table[:, 2]": TABLE[:, 2],
    "y = table[1:3]": TABLE[1:3],
    "y = scores[:, None, 1:, T - 3:T - 1]": SCORES[:, None, 1:, 4:6],
    "y = table[:, ::2] * table[:, 1::2]": TABLE[:, ::2] * TABLE[:, 1::2],
    "y = table[tokens, 1:2 + 1]": TABLE[TOKENS, 1:3],
    "y = table[tokens, arange(4)]": np.array([TABLE[token, i] for i, token in enumerate(TOKENS)]),
    "y = log(sum(exp(table), axis=1)) - table[arange(6), labels]": cross_entropy(),
    "y = where(arange(T) <= arange(S)[:, None], scores, -7)": np.where(KEYS <= QUERIES, SCORES, -7),
    "y = where((arange(T) <= arange(S)[:, None]) * (arange(S)[:, None] - arange(T) < WINDOW), scores, -7)": np.where(
        (KEYS <= QUERIES) & (QUERIES - KEYS < WINDOW), SCORES, -7
    ),
    "y = table[arange(6) * 5 % 6]": TABLE[[0, 5, 4, 3, 2, 1]],
    "y = (tokens - 4) % 3 + (tokens != 2)": (TOKENS - 4) % 3 + (TOKENS != 2),
    "y = scores % 0.75": SCORES % 0.75,
    "y = argmax(scores, axis=2)": SCORES.argmax(2),
    "y = argmin(labels - 3)": (LABELS - 3).argmin(),
    "y = argmin(scores, axis=0)": SCORES.argmin(0),
    "y = cumsum(scores, axis=2)": SCORES.cumsum(2),
    "y = cumsum(labels)": LABELS.cumsum(),
    "y = scores - slopes[:, None, None] * (arange(S)[:, None] - arange(T))": SCORES - SLOPES[:, None, None] * (QUERIES - KEYS),
}


def evaluate(line: str, like: np.ndarray) -> Bounded:
    given = {"scores": SCORES, "slopes": SLOPES, "table": TABLE, "tokens": TOKENS, "labels": LABELS, "y": np.zeros(like.shape)}
    return expected_values([line], given, constants={"S": S, "T": T, "WINDOW": WINDOW})["y"]


@pytest.mark.parametrize("line", LINES)
def test_equals_numpy(line: str) -> None:
    stated = evaluate(line, LINES[line])
    assert np.abs(stated.value - LINES[line]).max() < 1e-12
    assert (stated.error <= 1e-4 * (1 + np.abs(LINES[line]))).all(), "at a mask's edge nothing but its own side is right"


@pytest.mark.parametrize(
    ("index", "says"),
    [
        ("table[tokens - 1]", "not negative"),
        ("table[tokens + 1]", "index 6 is out of bounds"),
        ("table[tokens / 2]", "whole"),
        ("table[exp(scores)]", "exact"),
        ("table[5:7]", "reaches to 7, but the axis has 6"),
        ("table[:, None, 5:]", "reaches to 5, but the axis has 4"),
        ("table[-2:]", "not negative"),
        ("table[::-1]", "not negative"),
        ("table[::0]", "at least 1"),
        ("table[tokens:]", "one beginning"),
        ("table[arange(1.5)]", "no whole number"),
        ("table[arange(1e12)]", "no whole number"),
        ("table[arange(0 - 1)]", "no whole number"),
        ("table[arange(tokens)]", "one number"),
        ("table[other]", "no argument `other`"),
    ],
)
def test_what_is_no_index(index: str, says: str) -> None:
    with pytest.raises(ReferenceProblem, match=says):
        evaluate(f"y = {index}", TABLE)


@pytest.mark.parametrize(("apart", "decided"), [(0.0, True), (1e-9, False), (1e-2, True)])
def test_the_largest_is_decided_where_rounding_cannot_change_it(apart: float, decided: bool) -> None:
    """Of equal arguments the first is the largest; of computed numbers that are nearly equal each may be."""
    x = np.array([[0.5, 2.0, 2.0 + apart], [1.0, 0.0, 0.0]])
    line = "y = argmax(x, axis=1)" if apart == 0 else "y = argmax(exp(x), axis=1)"
    found = expected_values([line], {"x": x, "y": np.zeros(2)})["y"]
    assert np.array_equal(found.value, x.argmax(1))
    assert np.isfinite(found.error).tolist() == [decided, True]


def test_arguments_are_given_by_others() -> None:
    arguments = {"x": TABLE.copy(), "norms": np.zeros(6), "order": np.zeros(6, np.int32)}
    document = """
    given: norms = sum(x * x, axis=1) + BIAS
    given: order = argmax(norms[None, :] > 0, axis=0) + (M - 1 - arange(M))
    """
    assert apply_given(document, arguments, {"M": 6, "BIAS": 2, "AB": "bf16"}) == {"norms", "order"}
    assert np.allclose(arguments["norms"], (TABLE**2).sum(1) + 2)
    assert np.array_equal(arguments["order"], [5, 4, 3, 2, 1, 0])


def test_what_is_given_cannot_read_what_is_not_there() -> None:
    with pytest.raises(ReferenceProblem, match="no argument `z`"):
        apply_given("given: x = z + 1", {"x": TABLE.copy()}, {"M": 6})
