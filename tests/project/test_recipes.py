"""The kernels of docs/recipes.md are proved and compute what they say, and its table names all examples."""

import re
from pathlib import Path

import pytest

from pipec.commands.cli import main

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
KERNELS = {re.findall(r"kernel (\w+)", block)[0]: block for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)}


def test_there_are_kernels() -> None:
    assert len(KERNELS) >= 6


@pytest.mark.parametrize("name", KERNELS)
def test_the_kernel_is_proved_and_computes_what_it_says(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{name}.pipe"
    path.write_text(KERNELS[name], encoding="utf-8")
    assert main(["run", str(path)]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "  proved  " in said
    assert said.count("against float64 NumPy") >= 2


def test_the_table_names_all_examples() -> None:
    named = set(re.findall(r"\.\./examples/(\w+)\.pipe", TEXT))
    assert named == {path.stem for path in (ROOT / "examples").glob("*.pipe")}
