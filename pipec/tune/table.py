"""Measured tiles as text that can be read, reviewed and shipped beside a kernel: `gemm.tiles` beside `gemm.pipe`.

    NVIDIA H200 | gemm | M=4096 N=4096 K=4096 | BM=128 BN=256 STAGES=4 | 196.8 | 197.0

A line has the device, the kernel, sizes, values of tuned parameters, and microseconds with these values and with those in the file.
Blank lines and lines that start with `#` are ignored.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from math import log

from pipec.record import record

ENDING = ".tiles"
MOST_BYTES = 1 << 20
_HEAD = "# Measured by `pipec tune`: device | kernel | sizes | values | microseconds with them | with the values in the file"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w{0,99})=([\w.+-]{1,100})")
_MOST_DIGITS = 10  # of a size


@record
class Row:
    """One measurement. `values` as text, as `-D` takes them."""

    device: str
    kernel: str
    sizes: tuple[tuple[str, int], ...]
    values: tuple[tuple[str, str], ...]
    microseconds: float
    file_microseconds: float

    def __str__(self) -> str:
        sizes, values = (" ".join(f"{name}={value}" for name, value in part) for part in (self.sizes, self.values))
        return f"{self.device} | {self.kernel} | {sizes} | {values} | {self.microseconds:.4g} | {self.file_microseconds:.4g}"


class TableError(ValueError):
    """An invalid line; `line` counts from 1."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(f"line {line}: {problem}")
        self.line, self.problem = line, problem


def rendered(rows: Iterable[Row]) -> str:
    """The table's text, sorted."""
    ordered = sorted(rows, key=lambda row: (row.kernel, row.device, row.sizes))
    return "\n".join([_HEAD, *map(str, ordered)]) + "\n"


def parsed(text: str) -> list[Row]:
    """The rows of a table. Raises TableError for the first invalid line."""
    if len(text) > MOST_BYTES:
        raise TableError(1, f"the table is longer than {MOST_BYTES:,} characters")
    return [
        _row(number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]


def _row(number: int, line: str) -> Row:
    cells = [cell.strip() for cell in line.split("|")]
    if len(cells) != 6 or not all(cells[:2]):
        raise TableError(number, f"{len(cells)} cells between `|`, not 6")
    sizes = tuple((name, _size(number, value)) for name, value in _assignments(number, cells[2]))
    return Row(cells[0], cells[1], sizes, _assignments(number, cells[3]), _time(number, cells[4]), _time(number, cells[5]))


def _assignments(number: int, cell: str) -> tuple[tuple[str, str], ...]:
    found = []
    for word in cell.split():
        match = _ASSIGNMENT.fullmatch(word)
        if match is None:
            raise TableError(number, f"`{word[:40]}` is not NAME=VALUE")
        found.append((match[1], match[2]))
    if len({name for name, _ in found}) < len(found):
        raise TableError(number, "a name stands there twice")
    return tuple(found)


def _size(number: int, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise TableError(number, f"`{text}` is no size")
    return int(text)


def _time(number: int, text: str) -> float:
    try:
        time = float(text)
    except ValueError:
        time = 0.0
    if not 0 < time < float("inf"):
        raise TableError(number, f"`{text[:40]}` is no number of microseconds")
    return time


def bucket(size: int) -> int:
    """Sizes that share a tile: a power of two up to 16, then four per doubling; returns the largest size of the bucket."""
    if size <= 1:
        return size
    step = 1 << max(0, size.bit_length() - 3) if size > 16 else 1
    return -(-size // step) * step if size > 16 else 1 << (size - 1).bit_length()


def found(rows: Sequence[Row], device: str, kernel: str, sizes: Mapping[str, int]) -> Row | None:
    """The row for exactly these sizes, else the nearest one with all sizes in the same buckets."""
    mine = [row for row in rows if (row.device, row.kernel) == (device, kernel) and dict(row.sizes).keys() == sizes.keys()]
    exact = next((row for row in mine if dict(row.sizes) == dict(sizes)), None)
    if exact is not None:
        return exact
    near = [row for row in mine if all(bucket(size) == bucket(sizes[name]) for name, size in row.sizes)]
    return min(near, key=lambda row: _distance(row, sizes), default=None)


def _distance(row: Row, sizes: Mapping[str, int]) -> float:
    return sum(abs(log(max(size, 1) / max(sizes[name], 1))) for name, size in row.sizes)


def merged(rows: Iterable[Row], new: Iterable[Row]) -> list[Row]:
    """`rows` with `new`, which replace those with the same device, kernel and sizes."""
    return list({(row.device, row.kernel, row.sizes): row for row in (*rows, *new)}.values())
