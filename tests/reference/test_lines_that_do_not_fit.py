"""Whatever a line says, what a user reads of it is ours: which part of the line is wrong, and what should stand there."""

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipec.reference import Precision, ReferenceProblem, bounded, shapes
from pipec.reference.arithmetic import Arithmetic
from pipec.reference.evaluator import Evaluator
from pipec.reference.functions import functions
from pipec.reference.packed_arrays import chunked, scaled

CHANCE = np.random.default_rng(7)
FUNCTIONS = functions(Arithmetic(Precision()))
NAMES = {
    "one": bounded(2.0),
    "inexact": bounded(2.0, 0.1),
    "no_number": bounded(np.nan),
    "infinite": bounded(np.inf),
    "none": bounded(np.zeros((0, 3))),
    "row": bounded(CHANCE.standard_normal(3)),
    "square": bounded(CHANCE.standard_normal((3, 3)), 0.01),
    "bits": bounded(CHANCE.integers(0, 2, (2, 3)).astype(bool)),
    "bytes": bounded(CHANCE.integers(0, 256, (2, 3)).astype(np.uint8)),
    "three": bounded(CHANCE.standard_normal((2, 3, 4))),
    "chunks": bounded(np.ones((1, 1, 512))),
    "four": bounded(CHANCE.standard_normal((2, 2, 3, 2))),
    "begins": bounded([0, 1, 3]),
}
LITERALS = ("0", "1", "-1", "2", "0.5", "1e300", "None", "True", "'edge'", "(0, 1)", "((1, 2), (0, 1))", "()", "[1]", "9" * 400)
OPERANDS = st.sampled_from([*NAMES, *LITERALS, "(row, row)", "[square, bits]", "(one, (row, 1))", "unknown", "*row", "lambda: 1"])
OPTIONS = st.sampled_from(["axis", "keepdims", "mode", "constant_values", "x", "causal", "rest", "foo"])
CALLS = st.builds(
    lambda name, operands, options: f"{name}({', '.join([*operands, *(f'{key}={value}' for key, value in options.items())])})",
    st.sampled_from(sorted(FUNCTIONS)),
    st.lists(OPERANDS, max_size=5),
    st.dictionaries(OPTIONS, OPERANDS, max_size=2),
)
OPERATORS = ("+", "-", "*", "/", "//", "%", "@", "**", "<", "==", "!=", ">=", "&", "and")
FORMS = st.one_of(
    CALLS,
    st.builds("({} {} {})".format, OPERANDS, st.sampled_from(OPERATORS), OPERANDS),
    st.builds(
        "{}[{}]".format,
        OPERANDS,
        st.lists(st.one_of(OPERANDS, st.just(":"), st.just("0:2:0")), min_size=1, max_size=4).map(", ".join),
    ),
    st.builds("{}.{}".format, OPERANDS, st.sampled_from(("T", "mT", "shape"))),
    st.builds("{}{}".format, st.sampled_from("+-~"), OPERANDS),
)
# What NumPy and Python say, and our last resort, which says nothing.
FOREIGN = re.compile(
    r"unpack|broadcast together|positional|keyword|must be an|object|Error|np\.|numpy|operand[s]? could|tuple index|cannot convert|__|"
    r"unsupported|not subscriptable|does not fit its operands|invalid|ufunc|dimension mismatch|iterable"
)


def evaluate(expression: str) -> object:
    return Evaluator(dict(NAMES), Precision()).assignment(f"y = {expression}")[1]


@settings(max_examples=2500, deadline=None, suppress_health_check=list(HealthCheck))
@given(expression=FORMS)
def test_nothing_of_python_is_shown(expression: str) -> None:
    try:
        evaluate(expression)
    except ReferenceProblem as problem:
        text = re.sub("`[^`]*`", "", str(problem))  # without what it cites
        assert not FOREIGN.search(text), f"{expression}: {problem}"
        assert problem.line == f"y = {expression}"
        start, end = problem.part or (0, len(problem.line))
        assert 0 <= start < end <= len(problem.line)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_says_how_it_is_called(name: str) -> None:
    with pytest.raises(ReferenceProblem, match=re.escape(f"`{name}` is called as `{FUNCTIONS[name].shown}`: it has no `foo`")):
        evaluate(f"{name}(row, foo=1)")
    if "*sizes" in FUNCTIONS[name].signature:
        return
    with pytest.raises(
        ReferenceProblem, match=re.escape(f"`{name}` is called as `{FUNCTIONS[name].shown}`: there are 9 arguments")
    ):
        evaluate(f"{name}({', '.join(['row'] * 9)})")
    with pytest.raises(ReferenceProblem, match="(is|are) missing"):
        evaluate(f"{name}()")


@pytest.mark.parametrize(
    ("expression", "part", "says"),
    [
        ("one + row * square[0:2, 0:2]", "row * square[0:2, 0:2]", r"the shapes \(3,\) and \(2, 2\) do not fit"),
        ("exp(max(row, 1))", "max(row, 1)", r"`axis=` is written out; of two values it is `maximum\(a, b\)`"),
        ("sum(square, axis=(0, 0))", "sum(square, axis=(0, 0))", "names an axis twice"),
        ("sum(square, axis='x')", "sum(square, axis='x')", "`'x'` is no axis"),
        ("row +", None, "no Python expression where it ends"),
        ("sum(square, axis=1, axis=0)", "sum(square, axis=1, axis=0)", "`axis` is given twice"),
        ("clip(row, x=row, low=0, high=1)", "clip(row, x=row, low=0, high=1)", "`x` is given twice"),
        ("clip(row, **row)", "clip(row, **row)", "one by one"),
        ("max(none)", "max(none)", "of no elements"),
        ("row @ bits", "row @ bits", "3 columns on the left and 2 rows on the right"),
        ("three @ four", "three @ four", "`@` with 4 columns"),
        ("pad(three, ((0, 1), (0, 0), (0, 0))).mT @ four", "pad(three, ((0, 1), (0, 0), (0, 0))).mT @ four", "do not fit"),
        ("row.mT", "row.mT", "exchanges the last two"),
        ("row[0, 1]", "row[0, 1]", "2 indices for an array of 1 dimension"),
        ("square[arange(3), arange(2)]", "square[arange(3), arange(2)]", "do not fit"),
        ("square[1e300]", "square[1e300]", "is no index"),
        ("softmax(one)", "softmax(one)", "`x` has at least 1 dimension, and here it has 0"),
        ("softmax(row, causal=1)", "softmax(row, causal=1)", "the last two axes, rows and columns"),
        ("causal(row, 1)", "causal(row, 1)", "`x` has at least 2 dimensions, and here it has 1"),
        ("scaled(square, bits, 32)", "scaled(square, bits, 32)", "`chunks` has at least 3 dimensions"),
        ("scaled(square, three, 32)", "scaled(square, three, 32)", "one chunk of 512"),
        ("scaled(pad(square, 200), chunks, 32)", "scaled(pad(square, 200), chunks, 32)", "1 x 1 chunks are for 128 rows"),
        ("scaled(four, stack((chunks, chunks, chunks)), 32)", "scaled(four, stack((chunks, chunks, chunks)), 32)", "do not fit"),
        (
            "block_scale(square, bits, 1, 1)",
            "block_scale(square, bits, 1, 1)",
            "reach to 2 x 3 elements, and the array has 3 x 3",
        ),
        ("grouped(square, four, begins)", "grouped(square, four, begins)", "2, 3 and 1 dimensions"),
        ("arange(inexact)", "arange(inexact)", "is no whole number"),
        ("\u00e9 + row.x", "\u00e9", "no argument `\u00e9`"),
        ("1 + " + "9" * 400, "9" * 400, "larger than any float64"),
    ],
)
def test_the_part_that_is_wrong_is_shown(expression: str, part: str | None, says: str) -> None:
    with pytest.raises(ReferenceProblem, match=says) as caught:
        evaluate(expression)
    problem = caught.value
    assert problem.line == f"y = {expression}"
    assert (problem.line[slice(*problem.part)] if problem.part else None) == part


def test_scale_factors_with_dimensions_in_front() -> None:
    """Each matrix has the factors of its own; and one may be that of all."""
    operand = CHANCE.standard_normal((2, 2, 130, 100))
    factors = 2.0 ** CHANCE.integers(-2, 3, (2, 2, 130, 4))
    single = np.stack([[chunked(one.astype(np.int8)) for one in row] for row in factors])
    names = {"a": bounded(operand), "s": bounded(single.astype(np.float64))}
    found = Evaluator(names, Precision()).assignment("y = scaled(a, s, 32)")[1]
    for i, j in np.ndindex(2, 2):
        grown = np.repeat(factors[i, j].astype(np.int8), 32, axis=1)[:, :100]
        assert np.array_equal(found.value[i, j], operand[i, j] * grown)
        assert np.array_equal(found.value[i, j], scaled(operand[i, j], single[i, j].astype(np.float64), 32))
    alone = Evaluator(names, Precision()).assignment("y = scaled(a, s[0, 0], 32)")[1]
    assert np.array_equal(alone.value[1, 1], scaled(operand[1, 1], single[0, 0].astype(np.float64), 32))


def test_blocks_with_dimensions_in_front() -> None:
    x, scales = CHANCE.standard_normal((2, 5, 7)), CHANCE.standard_normal((2, 3, 2))
    found = Evaluator({"x": bounded(x), "s": bounded(scales)}, Precision()).assignment("y = block_scale(x, s, 2, 4)")[1]
    expected = [[[x[i, j, k] * scales[i, j // 2, k // 4] for k in range(7)] for j in range(5)] for i in range(2)]
    assert np.array_equal(found.value, expected)


@settings(max_examples=300, deadline=None)
@given(pair=st.lists(st.lists(st.integers(0, 3), max_size=3).map(tuple), min_size=1, max_size=3))
def test_shapes_fit_as_in_numpy(pair: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_arrays(*map(np.zeros, pair))[0].shape
    except ValueError:
        with pytest.raises(ReferenceProblem, match="do not fit"):
            shapes.fitting(pair)
    else:
        assert shapes.fitting(pair) == expected
