"""The list of changes says each thing once: where branches meet, their lines are easily kept twice."""

from collections import Counter
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"


def test_no_line_stands_twice() -> None:
    lines = [line for line in CHANGELOG.read_text(encoding="utf-8").splitlines() if line[:2] in ("- ", "  ")]
    assert len(lines) > 100
    assert [line for line, times in Counter(lines).items() if times > 1] == []
