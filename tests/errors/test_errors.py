"""One mistake per file: `<family>/<case>.pipe`, and beside it in `<case>.txt` what pipec says about it.

A first line `# options: arch=sm_90a BM=64` sets the target and compile-time parameters. New cases: write the `.pipe` file, run
`pytest tests/errors --update-golden`, and read the message aloud before committing it.
"""

from pathlib import Path

import pytest
from diagnose import Options, diagnose

from pipec.diag.explain import explain, load_catalogue
from pipec.diag.render import render_text

HERE = Path(__file__).parent
CASES = sorted(HERE.glob("*/*.pipe"))


def case_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", CASES, ids=case_id)
def test_error(path: Path, update_golden: bool) -> None:
    text = path.read_text(encoding="utf-8")
    diagnostics = diagnose(path.name, text, Options.of(text))
    assert diagnostics, "this file is meant to be wrong"
    assert all(diagnostic.code != "E0001" for diagnostic in diagnostics), diagnostics
    rendered = render_text(diagnostics)
    golden = path.with_suffix(".txt")
    if update_golden:
        golden.write_text(rendered, encoding="utf-8")
    assert rendered == golden.read_text(encoding="utf-8")


def test_no_stray_goldens() -> None:
    assert [path for path in HERE.glob("*/*.txt") if not path.with_suffix(".pipe").exists()] == []


def test_enough_cases() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize("code", sorted(load_catalogue()))
def test_every_code_is_explained(code: str) -> None:
    text = explain(code)
    assert text is not None
    title, empty, first, *_ = text.split("\n")
    assert title.startswith(f"{code}: ") and empty == "" and len(first) > 20
    assert not title.removesuffix("...").endswith("."), "titles have no full stop"
    assert not title.split(": ")[1][:2].istitle(), "titles begin in lower case"


def test_every_check_has_a_case() -> None:
    """Codes E03xx to E08xx and the target's: what the checks report. (E095x come from the assembler.)"""
    shown = {line[6:11] for path in HERE.glob("*/*.txt") for line in path.read_text(encoding="utf-8").splitlines()}
    checked = {code for code in load_catalogue() if "E0300" < code < "E0950"}
    assert sorted(checked - shown) == []
