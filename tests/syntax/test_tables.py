"""The grammar's tables: kept in the user's cache, rebuilt when they are damaged, never needed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lark import Lark

from pipec.syntax import parse

TEXT = "kernel k():\n    grid(1)\n"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "pipec"))
    parse.parser.cache_clear()
    yield tmp_path / "pipec"
    parse.parser.cache_clear()


def again() -> Lark:
    parse.parser.cache_clear()
    return parse.parser()


def test_tables_are_written_once_and_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = parse.parser().parse(TEXT)
    (tables,) = cache.iterdir()
    monkeypatch.setattr(parse, "_built", lambda *_: pytest.fail("the tables were not read"))
    assert again().parse(TEXT) == tree
    assert list(cache.iterdir()) == [tables]


@pytest.mark.parametrize("kept", [0, 10, 5000])
def test_damaged_tables_are_built_again(kept: int, cache: Path) -> None:
    tree = parse.parser().parse(TEXT)
    (tables,) = cache.iterdir()
    whole = len(tables.read_bytes())
    tables.write_bytes(tables.read_bytes()[:kept] + b"?")
    assert again().parse(TEXT) == tree
    assert abs(len(tables.read_bytes()) - whole) < 2000


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    cache.touch()  # a file where the folder would be
    assert parse.parser().parse(TEXT)
    assert cache.read_bytes() == b""
