"""What a program's things are called decides nothing: with every name renamed pipec says the same about it, at the same lines."""

import re
import tokenize
import zlib
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from diagnose import Options, diagnose, outcomes
from examples.catalogue import Case, proved
from samples import some

from pipec.isa.dtypes import DTYPES
from pipec.sema.language.functions import FUNCTIONS
from pipec.sema.language.operations import FREE
from pipec.sema.values.names import BUILT_IN

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.pipe"))
CASES = sorted((ROOT / "tests/errors").glob("*/*.pipe"))
# What these say is about the names or the letters themselves.
ABOUT_NAMES = ("names", "syntax")

_DEFINED = re.compile(
    r"^[ \t]*(?:kernel|fn|role|comptime)[ \t]+(\w+)|\bas[ \t]+(\w+)|^[ \t]*(\w+)[ \t]*(?:[-+*/%]|//)?=(?!=)|\bfor[ \t]+(\w+)[ \t]+in\b"
    r"|\b(\w+)[ \t]*:[ \t]*(?:tensor\b|int\b|float\b|bool\b|dtype\b|str\b|[iuf]\d+\b|bf16\b)",
    re.MULTILINE,
)
_HEADERS = re.compile(r"^fn[ \t]+\w+\(([^)]*)\)", re.MULTILINE)
_DIMENSIONS = re.compile(r"tensor\[\w+,([^\]]*)\]")
OWN = {*BUILT_IN, *FREE, *FUNCTIONS, *DTYPES, "row_sum", "row_max", "row_min", "tma", "cp", "target"}
SPACES = {"mma", "tma", "cp", "target", "block", "grid", "cta", "cluster", "clusters"}  # what stands before a dot
_WORDS = {
    "if",
    "else",
    "elif",
    "for",
    "in",
    "while",
    "with",
    "as",
    "and",
    "or",
    "not",
    "pass",
    "return",
    "True",
    "False",
    "tensor",
    "tmem",
}
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


def defined(text: str) -> list[str]:
    """The names that a text gives to things of its own, in their order; members of payloads are not among them."""
    code = re.sub(r'"""(?:.|\n)*?"""|#[^\n]*|"[^"\n]*"', lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    code = _joined(code)
    found = [next(filter(None, groups)) for groups in _DEFINED.findall(code)]
    found += [name.strip() for names in (*_HEADERS.findall(code), *_DIMENSIONS.findall(code)) for name in names.split(",")]
    return [name for name in dict.fromkeys(found) if _NAME.match(name) and name not in _WORDS]


def _joined(code: str) -> str:
    """With every bracket on one line."""
    made, depth = [], 0
    for letter in code:
        depth = max(0, depth + {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0))
        made.append(" " if letter == "\n" and depth else letter)
    return "".join(made)


def renamed(text: str, names: dict[str, str]) -> str:
    """Each of the names as a word of its own; neither members behind a dot nor keywords of calls."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    made, last, depth, before = [], 0, 0, ""
    tokens = list(_tokens(text))
    # An operation may have the name of a role.
    callable_ = set(re.findall(r"^(?:kernel|fn)[ \t]+(\w+)", text, re.MULTILINE))
    for number, (kind, word, at) in enumerate(tokens):
        after = tokens[number + 1][1] if number + 1 < len(tokens) else ""
        keyword = depth > 0 and after == "=" and before in ("(", ",")
        language = (after == "(" or word in SPACES and after == "." or word == "tile" and after == "[") and word not in callable_
        language = language and before != "role"
        if kind == tokenize.NAME and word in names and before != "." and not keyword and not language:
            place = starts[at[0] - 1] + at[1]
            made += [text[last:place], names[word]]
            last = place + len(word)
        depth += {"(": 1, ")": -1}.get(word, 0)
        if kind not in (tokenize.NL, tokenize.COMMENT):
            before = word
    made.append(text[last:])
    first, _, rest = "".join(made).partition("\n")
    if first.startswith("# options:"):
        first = re.sub(r"(\w+)=", lambda found: f"{names.get(found[1], found[1])}=", first)
    return f"{first}\n{rest}"


def _tokens(text: str) -> Iterator[tuple[int, str, tuple[int, int]]]:
    try:
        for token in tokenize.generate_tokens(StringIO(text).readline):
            yield token.type, token.string, token.start
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return


def numbered(names: list[str]) -> dict[str, str]:
    return {name: f"v{number}" for number, name in enumerate(names)}


def rotated(names: list[str]) -> dict[str, str]:
    """Each by the name of another one, if that names nothing in the language."""
    free = [name for name in names if name not in OWN]
    return numbered(names) | dict(zip(free, [*free[1:], *free[:1]], strict=True))


def internal(names: list[str]) -> dict[str, str]:
    """Names that the compiler has for things of its own."""
    own = (
        "parity",
        "stage",
        "cursor0",
        "full",
        "empty",
        "remote",
        "shared",
        "ctaid",
        "k",
        "P0",
        "tid",
        "barrier0",
        "phase",
        "warp",
        "r1",
    )
    return {name: own[number] if number < len(own) else f"loop_{number}" for number, name in enumerate(names)}


WAYS: tuple[Callable[[list[str]], dict[str, str]], ...] = (numbered, rotated, internal)


def said(name: str, text: str) -> tuple[list[tuple[str, int]], list[str]]:
    """Codes with their lines, and what is known of the protocols."""
    options = Options.of(text)
    codes = sorted((one.code, one.span.shown_line if one.span else 0) for one in diagnose(name, text, options))
    return codes, outcomes(name, text, options)


def by_other_names(text: str, way: Callable[[list[str]], dict[str, str]]) -> str:
    names = defined(text)
    assert names
    other = renamed(text, way(names))
    assert other != text or len(names) == 1
    return other


@pytest.mark.sample(0.01, of="path")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("path", some("renamed", EXAMPLES, 0.2), ids=lambda path: path.stem)
def test_examples_by_other_names(path: Path, way: Callable[[list[str]], dict[str, str]]) -> None:
    other = by_other_names(path.read_text(encoding="utf-8"), way)
    verdicts = proved(Case(path, ())).protocol.values()
    assert said(path.name, other) == ([], [verdict.outcome for verdict in verdicts]), other


@pytest.mark.sample(0.4)
@pytest.mark.parametrize(
    "path", [path for path in CASES if path.parent.name not in ABOUT_NAMES], ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_mistakes_by_other_names(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    other = by_other_names(text, WAYS[zlib.crc32(path.stem.encode()) % len(WAYS)])
    assert said(path.name, other) == said(path.name, text), other


def test_what_is_renamed() -> None:
    text = "kernel k[B: int = 2](a: tensor[f32, M, 4], n: i32):\n    role r(warps=B):\n        t = load(a[n, 0], B, 4)\n"
    assert defined(text) == ["k", "B", "a", "n", "r", "t", "M"]
    assert renamed(text, numbered(defined(text))) == (
        "kernel v0[v1: int = 2](v2: tensor[f32, v6, 4], v3: i32):\n    role v4(warps=v1):\n        v5 = load(v2[v3, 0], v1, 4)\n"
    )
