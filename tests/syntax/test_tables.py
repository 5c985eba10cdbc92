"""The grammar's tables: kept in the user's cache, rebuilt when they are damaged, never needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lark import Lark

from pipec import cache as kept
from pipec.record import fields_of
from pipec.syntax import grammar, machine, tables
from pipec.syntax.parts import Part

TEXT = "kernel k():\n    grid(1)\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "pipec"))
    grammar.parser.cache_clear()
    yield tmp_path / "pipec"
    grammar.parser.cache_clear()


def again() -> Lark:
    grammar.parser.cache_clear()
    return grammar.parser()


def test_tables_are_written_once_and_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = grammar.parser().parse(TEXT)
    (tables,) = cache.iterdir()
    monkeypatch.setattr(grammar, "_built", lambda *_: pytest.fail("the tables were not read"))
    assert again().parse(TEXT) == tree
    assert list(cache.iterdir()) == [tables]


@pytest.mark.parametrize("kept", [0, 10, 5000])
def test_damaged_tables_are_built_again(kept: int, cache: Path) -> None:
    tree = grammar.parser().parse(TEXT)
    (tables,) = cache.iterdir()
    whole = len(tables.read_bytes())
    tables.write_bytes(tables.read_bytes()[:kept] + b"?")
    assert again().parse(TEXT) == tree
    assert abs(len(tables.read_bytes()) - whole) < 2000


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b"9" * 5000, b"damaged"])
def test_the_machine_makes_its_tables_anew(content: bytes | None, cache: Path) -> None:
    """Of Lark's, where there are none or they have another form."""
    tables.tables.cache_clear()
    made = tables.tables()
    (entry,) = cache.glob("*.machine")
    if content == b"damaged":
        entry.write_bytes(entry.read_bytes()[:5000])
    elif content is not None:
        kept.write("machine", entry.stem, content)
    tables.tables.cache_clear()
    assert fields_of(tables.tables()).keys() == fields_of(made).keys()
    assert machine.Machine(tables.tables(), lambda shape: lambda parts: Part(parts)).read(TEXT).end_line == 3


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.touch()  # a file where the folder would be
    assert grammar.parser().parse(TEXT)
    assert cache.read_bytes() == b""
