"""pytest imports test modules of folders that are no packages by their bare names, so these must differ."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_test_modules_have_names_of_their_own() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py") if not (path.parent / "__init__.py").exists())
    assert [name for name, count in names.items() if count > 1] == []
