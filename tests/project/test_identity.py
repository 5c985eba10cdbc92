"""Nodes of the typed tree stand for themselves: what is derived for one is kept under the node, never under `id(node)`."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(file for part in ("sema", "kir", "checks", "lower") for file in (ROOT / "pipec" / part).rglob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_key_is_the_address_of_an_object(file: Path) -> None:
    calls = (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call))
    assert [call.lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "id"] == []
