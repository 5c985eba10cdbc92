"""`hardware.md 3.1` in code, tests and documents names a section of docs/reference that exists, and each section is cited."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(REFERENCE.glob("*.md"))
CITING = ("pipec", "runtime", "grammar", "tests", "tools", "benchmarks", "docs")

_NUMBER = r"\d+(?:\.\d+)?"
# `hardware.md 3.2, 3.3 and 9`. The name may be the end of a line of a comment; a full stop behind a number is not part of it.
_CITATION = re.compile(rf"\b([a-z]+)\.md[ \n#]+({_NUMBER}(?:(?:, and|,| and)\s{_NUMBER}\b)*)")
_SECTION = re.compile(rf"^#+ ({_NUMBER}) ", re.MULTILINE)


def sections(page: Path) -> list[str]:
    return _SECTION.findall(page.read_text(encoding="utf-8"))


def citations(text: str) -> Iterator[tuple[str, str]]:
    for page, numbers in _CITATION.findall(text):
        for number in re.findall(_NUMBER, numbers):
            yield page, number


@cache
def cited() -> dict[tuple[str, str], set[str]]:
    """(page, section) -> the files that cite it."""
    names = {page.stem for page in PAGES}
    found: dict[tuple[str, str], set[str]] = {}
    for folder in CITING:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".py", ".md", ".lark", ".pipe") or path == Path(__file__):
                continue
            for page, number in citations(path.read_text(encoding="utf-8")):
                if page in names:
                    found.setdefault((page, number), set()).add(path.relative_to(ROOT).as_posix())
    return found


def test_a_citation_may_name_several_sections() -> None:
    text = "# worked values (hardware.md 3.2, 3.3 and 9); hardware.md 7. See hardware.md, 2 of them"
    assert list(citations(text)) == [("hardware", "3.2"), ("hardware", "3.3"), ("hardware", "9"), ("hardware", "7")]


def test_cited_files_exist() -> None:
    existing = {(page.stem, number) for page in PAGES for number in sections(page)}
    assert {key: files for key, files in cited().items() if key not in existing} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_section_is_cited(page: Path) -> None:
    """A section that only has sections inside it is cited by those."""
    numbers = sections(page)
    assert len(numbers) == len(set(numbers))
    leaves = [one for one in numbers if not any(other.startswith(f"{one}.") for other in numbers)]
    assert [one for one in leaves if (page.stem, one) not in cited()] == []


def test_nothing_outside_the_project_is_cited() -> None:
    for folder in CITING:
        for path in (ROOT / folder).rglob("*.py"):
            assert path == Path(__file__) or not re.search(r"\b[A-Z][A-Z0-9_]+\.md [0-9]", path.read_text(encoding="utf-8")), path
