"""Where measured tiles are looked up: in the user's cache, then in the table beside the kernel's source; also caches the model's
choices, so that later processes need not rank the candidates again."""

from functools import cache as once
from pathlib import Path

from pipec import cache
from pipec._version import VERSION
from pipec.diag.catalogue.language.tuning import BadTable
from pipec.diag.message import Failure
from pipec.source import Source
from pipec.tune.table import ENDING, MOST_BYTES, Row, TableError, merged, parsed, rendered

_KIND = "tiles"


def _key(source: Source, device: str) -> str:
    return cache.key_of("tiles", VERSION, device, source.text)


def kept(source: Source, device: str) -> list[Row]:
    """The measurements on this machine."""
    return _rows(_key(source, device))


def keep(source: Source, row: Row) -> None:
    _write(_key(source, row.device), row)


def ranked_before(source: Source, device: str, multiprocessors: int) -> list[Row]:
    """Earlier choices of the current model, with the times that it predicted."""
    return _rows(_ranking(source, device, multiprocessors))


def keep_ranked(source: Source, row: Row, multiprocessors: int) -> None:
    _write(_ranking(source, row.device, multiprocessors), row)


def _ranking(source: Source, device: str, multiprocessors: int) -> str:
    return cache.key_of("choices", VERSION, _model(), f"{device}, {multiprocessors}", source.text)


@once
def _model() -> str:
    """The source text of the model: if a constant changes, earlier choices are invalid."""
    package = Path(__file__).parents[1]
    files = (path for part in ("predict", "tune") for path in sorted((package / part).glob("*.py")))
    return cache.key_of(*(path.read_bytes() for path in files))


def _rows(key: str) -> list[Row]:
    """A damaged entry is ignored."""
    content = cache.read(_KIND, key)
    try:
        return [] if content is None else parsed(content.decode())
    except (TableError, UnicodeDecodeError):
        return []


def _write(key: str, row: Row) -> None:
    cache.write(_KIND, key, rendered(merged(_rows(key), [row])).encode())


def table_path(source: Source) -> Path | None:
    """Beside the file of the source; None for other sources."""
    path = Path(source.name)
    return path.with_suffix(ENDING) if path.suffix == ".pipe" and path.is_file() else None


def shipped(source: Source) -> list[Row]:
    """The rows of the table beside the source; empty without one. Raises Failure for an invalid table."""
    path = table_path(source)
    if path is None or not path.is_file():
        return []
    return read_table(path)


def read_table(path: Path) -> list[Row]:
    """Raises Failure."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1).decode()
        return parsed(text)
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(BadTable(name=str(path), problem=str(error))) from None
    except TableError as error:
        raise Failure(BadTable(name=str(path), problem=str(error))) from None
