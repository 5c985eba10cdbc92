"""Shared by the tests of the command line: a right and a wrong file."""

from pathlib import Path

import pytest
from faces.kernels import SCALE, WRONG


@pytest.fixture
def scale(tmp_path: Path) -> str:
    path = tmp_path / "scale.pipe"
    path.write_text(SCALE, encoding="utf-8")
    return str(path)


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.pipe"
    path.write_text(WRONG, encoding="utf-8")
    return str(path)
