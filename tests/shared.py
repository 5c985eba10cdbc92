"""Which tests one worker runs, one after the other: those that compile the same program, and those of a file.

With `--dist loadgroup` a test without a group goes to whichever worker is free, which then compiles anew what another one has at hand.
"""

import hashlib
from pathlib import Path

import pytest

# Each test of these takes long and shares little: by themselves, and before the others, so that nobody waits for one at the end.
APART = ("test_protocol_kernels", "test_fuzz_assembler", "test_fuzz_bounds", "test_fuzz", "test_budgets", "test_packaging")
# Then the folders whose groups take longest; the rest are many small ones.
LONG = ("fuzz", "examples", "oracle", "verify", "errors")


def group_of(item: pytest.Item) -> str | None:
    """The program that the test is about, else its file: what several of its tests compile is kept in the worker that compiled it."""
    for value in item.callspec.params.values() if hasattr(item, "callspec") else ():
        path = getattr(getattr(value, "case", value), "path", value)  # a run of a case of an example; a case; its file
        if isinstance(path, Path) and path.suffix == ".pipe":
            return f"{path.parent.name}/{path.stem}"
    if item.path.stem in APART:
        return None
    return item.nodeid.partition("::")[0]


def grouped(items: list[pytest.Item]) -> None:
    """Marks the groups, and puts those that take long in front."""
    for item in items:
        group = group_of(item)
        if group is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=_length)


def _length(item: pytest.Item) -> int:
    if item.path.stem in APART:
        return 0
    folder = item.path.parent.name
    return LONG.index(folder) + 1 if folder in LONG else len(LONG) + 1


def shuffled(items: list[pytest.Item], seed: str) -> None:
    """In an order of their own for each seed, each by itself: a fixture of a file may be made anew again and again."""
    items.sort(key=lambda item: hashlib.sha256(f"{seed}/{item.nodeid}".encode(errors="surrogatepass")).digest())
