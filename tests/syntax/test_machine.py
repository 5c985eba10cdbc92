"""What pipec's own loop reads, Lark reads alike: the same tree with the same spans. Where the loop gives up, Lark is asked anyway."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from pipec.source import Source
from pipec.syntax import faulty, parse, tables
from pipec.syntax.ast import File

ROOT = Path(__file__).parents[2]
TEXTS = [path for folder in ("examples", "tests/errors") for path in sorted((ROOT / folder).rglob("*.pipe"))]
# What a change of a character or a word may bring in.
PIECES = [*"()[]:,.=#\n\t\"'x-~\f\r@\u00e9", "==", "<<=", "//", "->", "\n    ", "    ", "\\\n", '"""', "1", "1.", ".5", "0x"]
PIECES += ["where", "in", "produces", "consumes", "role", "if", "not", "and", "else"]


def alike(text: str) -> File | None:
    source = Source("t.pipe", text)
    ours, larks = parse._read(source), faulty._attempt(source, source.lines)
    assert ours is None or ours == larks, text
    return ours


@pytest.mark.sample(0.25)
@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_files_are_read_alike(path: Path) -> None:
    """By the loop, but for those that are wrong."""
    assert alike(path.read_text(encoding="utf-8")) is not None or path.parent.name == "syntax"


@pytest.mark.parametrize("seed", range(4))
def test_changed_texts_are_read_alike(seed: int) -> None:
    """Some are still right."""
    chosen = random.Random(seed)
    right = 0
    for path in chosen.sample(TEXTS, 25):
        text = path.read_text(encoding="utf-8")
        for _ in range(6):
            at = chosen.randrange(len(text))
            right += alike(text[:at] + chosen.choice(PIECES) + text[at + chosen.randrange(3) :]) is not None
    assert 5 < right < 140


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n# nothing\n",
        "kernel k():\n    where = 1\n    produces = where + consumes\n    tune a in (1, 2), b in (where) where a > where\n",
        "kernel k():\n  role produces(warps=1) produces consumes, x consumes where:\n    pass",
        "kernel k():\n\tif x:\n\t    y = (1,\n2)\n\telse:\n\t    pass # end",
        "kernel k():\n    x = 1 + \\\n  2\r\n    y = x",
    ],
)
def test_soft_words_blocks_and_continued_lines(text: str) -> None:
    alike(text)


def test_lark_is_not_loaded_for_valid_sources() -> None:
    tables.tables()  # makes them where this user's cache has none
    code = "import sys; from pipec.driver import *; from pipec.source import Source"
    code += "; compile_source(Source('t', 'kernel k():\\n    grid(1)\\n'), until='parse'); print('lark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
