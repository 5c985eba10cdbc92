"""Where measured tiles are found: in the user's cache, then in the table beside the kernel's source."""

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
    """What was measured on this machine; a damaged entry is none."""
    content = cache.read(_KIND, _key(source, device))
    try:
        return [] if content is None else parsed(content.decode())
    except (TableError, UnicodeDecodeError):
        return []


def keep(source: Source, row: Row) -> None:
    rows = merged(kept(source, row.device), [row])
    cache.write(_KIND, _key(source, row.device), rendered(rows).encode())


def table_path(source: Source) -> Path | None:
    """Beside the file that the source was read from; None for text from elsewhere."""
    path = Path(source.name)
    return path.with_suffix(ENDING) if path.suffix == ".pipe" and path.is_file() else None


def shipped(source: Source) -> list[Row]:
    """The rows of the table beside the source; none without one. Raises Failure for a table that is none."""
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
