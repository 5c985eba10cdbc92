"""Several syntax errors are told in one run, each at its own statement, and none is a consequence of another.

Mistakes of known kinds are planted into the examples at random: exactly the lines with mistakes may be reported.
"""

import random
import re
from pathlib import Path

import pytest
from samples import numbers

from pipec.diag.edits import applied
from pipec.diag.message import Diagnostic, Sink
from pipec.source import Source
from pipec.syntax.lines import Logical, logical_lines, masked
from pipec.syntax.parse import parse

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.pipe"))

# For a statement that opens no block: what stands in its place.
STATEMENTS = (
    "x = = 1",
    "x = y z",
    "x = 'text'",
    "x = $",
    "x = 1)",
    "x = (1",
    "store(y[block.x",
    'x = "text',
    "x++",
    "x = y ** 2",
    "y[0, 0] = 1.0",
    "import math",
    "x = [1, 2]",
    "x = lambda y: y",
    "x, z = 1, 2",
    "x = 1;",
    "x = \u0663",
    "else if x:",
    "raise x",
    "for i in:",
    "if x:",
    "role :",
)
# For the header of a block inside a kernel: what it becomes, made of its text.
HEADERS = (
    lambda header: header.rstrip()[:-1],
    lambda header: header.replace(":", " = 1:", 1) if ":" in header else header,
    lambda header: re.sub(r"^(\s*)\w+", r"\1for in", header),
    lambda header: re.sub(r"^(\s*).*", r"\1try:", header),
    lambda header: re.sub(r"^(\s*).*", r"\1def f(x):", header),
    lambda header: re.sub(r"^(\s*).*", r"\1while (x:", header),
)


def errors(text: str) -> list[Diagnostic]:
    sink = Sink()
    assert (parse(Source("t.pipe", text), sink) is None) == bool(sink.diagnostics)
    return sink.diagnostics


def lines_of(diagnostics: list[Diagnostic]) -> list[int]:
    return [diagnostic.span.line for diagnostic in diagnostics if diagnostic.span is not None]


def planted(text: str, seed: int) -> tuple[str, list[int]]:
    """The text with one to five mistakes, and their lines."""
    random_ = random.Random(seed)
    lines = text.split("\n")
    logical = logical_lines(lines)
    candidates = [
        n for n, one in enumerate(logical) if one.indent >= 4 and one.first == one.last and '"' not in lines[one.first - 1]
    ]
    # A docstring and the first statement of a block stay, so that no block is left without one that is right.
    chosen: list[int] = []
    for index in random_.sample(candidates, min(len(candidates), 12)):
        if all(abs(index - other) > 2 for other in chosen) and len(chosen) < random_.randint(1, 5):
            chosen.append(index)
    for index in chosen:
        one = logical[index]
        lines[one.first - 1] = _mistake(
            lines[one.first - 1], one, index + 1 < len(logical) and logical[index + 1].indent > one.indent, random_
        )
    return "\n".join(lines), sorted(logical[index].first for index in chosen)


def _mistake(line: str, one: Logical, opens_block: bool, random_: random.Random) -> str:
    if opens_block:
        return random_.choice(HEADERS)(masked(line))
    return line[: len(line) - len(line.lstrip())] + random_.choice(STATEMENTS)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_mistake_is_reported_and_nothing_else(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for seed in numbers(f"mistakes in {path.stem}", 1, 8):
        wrong, expected = planted(text, seed)
        assert lines_of(errors(wrong)) == expected, (seed, wrong)


def test_right_examples_stay_right() -> None:
    for path in EXAMPLES:
        assert errors(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("word", ["elif", "else", "except", "finally", "case"])
@pytest.mark.parametrize("before", ["", "\n", "# text\n", "    \n\n", "\t", " "])
@pytest.mark.parametrize("after", ["", ":", " x:\n    y = 1\n", "\nkernel a():\n    pass\n", "\nelse:\n"])
def test_text_that_continues_nothing_is_an_error(before: str, word: str, after: str) -> None:
    assert errors(before + word + after)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kernel a(:\n    x = 1\n\nkernel b():\n    y = = 2\n", [("E0101", 1), ("E0101", 5)]),
        ("kernel a():\n    x = 1\n        y = 2\n        z = 3\n    w = = 1\n", [("E0106", 3), ("E0101", 5)]),
        ("kernel a():\n        x = 1\n    y = 2\n    z = 3\nkernel b():\n    w = = 1\n", [("E0107", 3), ("E0101", 6)]),
        ("kernel a():\n    for i in range(3):\n    x = = 1\n", [("E0105", 2), ("E0101", 3)]),
        (
            "kernel a():\n    if x y:\n        pass\n    elif y:\n        pass\n    else:\n        z = = 1\n",
            [("E0101", 2), ("E0101", 7)],
        ),
        (
            "kernel a():\n    try:\n        x = 1\n    except E:\n        y = = 2\n    finally:\n        pass\n",
            [("E0114", 2), ("E0101", 5)],
        ),
        ("class A:\n    def f(self):\n        return self.x[0:1]\nkernel a():\n    x = = 1\n", [("E0114", 1), ("E0101", 5)]),
        ("@jit\ndef f(x):\n    return x\nkernel a():\n    pass\n", [("E0114", 1), ("E0114", 2)]),
        ("import triton\nimport triton.language as tl\nkernel a():\n    pass\n", [("E0114", 1), ("E0114", 2)]),
        ("kernel a():\n    x = f(1,\n    y = 2\n    z = = 3\n", [("E0113", 2), ("E0101", 4)]),
        ("kernel a():\n    x = (1 + 2]\n    z = = 3\n", [("E0113", 2), ("E0101", 3)]),
        ("kernel a(\n    x: tensor[f32, M\n):\n    z = = 3\n", [("E0113", 2), ("E0101", 4)]),
        ('kernel a():\n    """text\n    x = = 1\n', [("E0103", 2)]),
        ("kernel a():\n    x = f(\n", [("E0113", 2)]),
        ("kernel a():\n    match x:\n        case 1:\n            pass\n    y = = 1\n", [("E0114", 2), ("E0101", 5)]),
    ],
)
def test_parsing_resumes_after_an_error(text: str, found: list[tuple[str, int]]) -> None:
    diagnostics = errors(text)
    assert list(zip([one.code for one in diagnostics], lines_of(diagnostics), strict=True)) == found


def test_the_number_of_errors_is_bounded() -> None:
    text = "kernel a():\n" + "    x = = 1\n" * 500
    assert len(errors(text)) == 20


def test_edits_of_all_errors_apply_together() -> None:
    text = "import math\nkernel a()\n    x = i ** 2\n    y = 'a'\n    z++\n    if a && b:\n        w = \u0663;\n"
    while found := errors(text):
        edits = [edit for diagnostic in found for edit in diagnostic.edits]
        assert edits, found
        text = applied(text, edits)
    assert text == '\nkernel a():\n    x = i * i\n    y = "a"\n    z += 1\n    if a and b:\n        w = 3\n'
