"""Whatever the text, compiling ends in a result or in diagnostics: never in an exception, never in an internal error."""

import re

import pytest
from examples.catalogue import EXAMPLES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import volume

from pipec.diag.render import render_json, render_text
from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
SOURCES = [_TOKEN.findall(path.read_text(encoding="utf-8")) for path in sorted(EXAMPLES.glob("*.pipe"))]
WORDS = sorted({token for source in SOURCES for token in source if not token.isspace()})
ODD = [
    "0",
    "-1",
    "99999999999999999999",
    "1e400",
    "0x",
    '"x"',
    "\n",
    "    ",
    "\t",
    "(",
    ")",
    "[",
    "True",
    "tensor",
    "é",
    "\0",
    "é" * 300,
    "",
]

_edit = st.tuples(
    st.sampled_from(["delete", "replace", "insert", "swap", "repeat"]),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from(WORDS + ODD),
)


def mutated(tokens: list[str], edits: list[tuple[str, int, int, str]]) -> str:
    """The source with each edit made at a place taken modulo its length."""
    tokens = list(tokens)
    for kind, here, there, word in edits:
        if not tokens:
            break
        here, there = here % len(tokens), there % len(tokens)
        match kind:
            case "delete":
                del tokens[here]
            case "replace":
                tokens[here] = word
            case "insert":
                tokens.insert(here, word)
            case "swap":
                tokens[here], tokens[there] = tokens[there], tokens[here]
            case "repeat":
                tokens[here:here] = tokens[min(here, there) : max(here, there)][:200]
    return "".join(tokens)


def ends_well(text: str, until: str) -> Compilation:
    state = compile_source(Source("fuzz.pipe", text), Options(), until)
    codes = [diagnostic.code for diagnostic in state.diagnostics]
    assert "E0001" not in codes, [diagnostic.title for diagnostic in state.diagnostics]
    render_text(state.diagnostics)
    render_json(state.diagnostics)
    return state


# `make fuzz` tries others each day (fuzz_sources.py).
@settings(max_examples=volume(60, 400), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SOURCES), st.lists(_edit, min_size=1, max_size=3))
def test_mutated_sources_end_in_an_answer(tokens: list[str], edits: list[tuple[str, int, int, str]]) -> None:
    state = ends_well(mutated(tokens, edits), "limits")
    if not state.failed:
        assert state.plans


@settings(max_examples=volume(15, 40), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SOURCES), st.lists(_edit, min_size=1, max_size=1))
def test_kernels_that_pass_the_checks_also_compile(tokens: list[str], edits: list[tuple[str, int, int, str]]) -> None:
    state = ends_well(mutated(tokens, edits), "emit")
    assert state.failed or state.ptx


# A loaded machine is no fault of the text: hypothesis would report inputs that are slow to draw as an error.
@settings(max_examples=volume(80, 150), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=200))
def test_any_text_ends_in_an_answer(text: str) -> None:
    assert ends_well(text, "limits").failed


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 40 + "1" + ")" * 40,
        "-" * 3000 + "1",
        " + ".join(["K"] * 3000),
        " if K > 0 else ".join(["1"] * 1500),
        "f(" * 50 + ")" * 50,
        "K" + ".T" * 4000,
    ],
    ids=["brackets", "signs", "sum", "conditions", "calls", "attributes"],
)
def test_deep_nesting_ends_in_an_answer(expression: str) -> None:
    ends_well(f"kernel k(a: tensor[f32, M, K]):\n    grid(1)\n    role r(warps=1):\n        x = {expression}\n", "limits")


def test_many_nested_blocks_end_in_an_answer() -> None:
    lines = ["kernel k(a: tensor[f32, M, K]):", "    grid(1)", "    role r(warps=1):"]
    lines += [" " * (8 + depth) + f"for i{depth} in range(K):" for depth in range(200)]
    ends_well("\n".join([*lines, " " * 210 + "pass"]), "limits")


def test_helpers_that_double_each_other_end_in_an_answer() -> None:
    helpers = ["fn twice0(x):\n    return x + x\n"] + [
        f"fn twice{n}(x):\n    return twice{n - 1}(x) + twice{n - 1}(x)\n" for n in range(1, 40)
    ]
    text = "\n".join(helpers) + "\nkernel k(a: tensor[f32, M, K]):\n    grid(1)\n    role r(warps=1):\n        x = twice39(K)\n"
    assert [diagnostic.code for diagnostic in ends_well(text, "limits").diagnostics] == ["E0232"]


_PLACES = ("comptime X = {}\n", "kernel {}(a: tensor[f32, M]):\n    grid(1)\n", "kernel k(a: tensor[f32, {}]):\n    grid(1)\n")
_NUMBERS = (
    "9" * 201,
    "9" * 5000,
    "0x" + "f" * 15000,
    "0b" + "1" * 5000,
    "9" * 4000 + ".0",
    "0x_",
    "0b__",
    "0x",
    "1e" + "9" * 4000,
)


@pytest.mark.parametrize("word", [*_NUMBERS, "n" * 1100], ids=lambda word: f"{word[:6]} of {len(word)}")
@pytest.mark.parametrize("place", _PLACES)
def test_words_of_any_length_end_in_an_answer(word: str, place: str) -> None:
    assert ends_well(place.format(word), "emit").failed
