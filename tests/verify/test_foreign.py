"""PTX of another compiler: the reader answers, or says why it does not; it never fails, and it takes no longer than for pipec's own."""

import re
import time
from pathlib import Path

import pytest

from pipec.verify.network import Network, Unreadable
from pipec.verify.reader.read import read
from pipec.verify.reader.text.statements import entries_of

FILES = sorted((Path(__file__).parents[1] / "sim" / "ptx").glob("*.ptx"))
SECONDS = 1.0  # of processor time; 10 ms is usual


def sized(ptx: str) -> str:
    """nvcc leaves the number of threads to the launch; without it nothing is read."""
    return re.sub(r"(\.entry [^{;]*?\))(?=[^{;)]*\{)", r"\1\n.reqntid 128\n", ptx)


def kernels() -> list[tuple[Path, str]]:
    return [(path, name) for path in FILES for name in entries_of(path.read_text(encoding="utf-8"))]


@pytest.mark.parametrize(("path", "name"), kernels())
def test_the_reader_answers(path: Path, name: str) -> None:
    text = sized(path.read_text(encoding="utf-8"))
    begin = time.process_time()
    try:
        found: Network | None = read(text, name)
    except Unreadable as why:
        found = None
        assert "the reader failed" not in why.why and why.line > 1, why
    assert time.process_time() - begin < SECONDS
    assert found is None or found.name == name


def test_most_are_read() -> None:
    """Of kernels that nobody wrote for this reader."""
    read_, names = 0, kernels()
    for path, name in names:
        try:
            read_ += bool(read(sized(path.read_text(encoding="utf-8")), name).processes)
        except Unreadable:
            pass
    assert read_ > len(names) // 2


def test_what_looks_at_memory_is_named() -> None:
    text = sized((FILES[0].parent / "cuda_kernels.ptx").read_text(encoding="utf-8"))
    assert [one.kind for one in read(text, "spinlock").assumptions] == ["polling"]
    # It ends after 300 steps, which the reader does not see: it counts by four, and is compared with a number that is no multiple of it.
    assert [one.kind for one in read(text, "collatz").assumptions] == ["loops"]
