"""The PTX of every example, whole, with its source above it: what a reviewer reads when code generation changes.

Each golden is legal PTX (the source stands in comments) and is assembled as it is. `pytest tests/golden --update-golden` rewrites them;
a refactoring leaves them byte-identical.
"""

from pathlib import Path

import pytest
from examples.assembling import assert_assembles
from examples.catalogue import EXAMPLES, Case, cases, compiled

HERE = Path(__file__).parent
# Variants whose code differs in more than numbers.
_ALSO = (Case(EXAMPLES / "attention.pipe", (("CTAS", "2"),)),)
CASES = [*(case for case in cases() if not case.constants), *_ALSO]


def golden_text(case: Case) -> str:
    state = compiled(case)
    listing = "\n".join(f"// {number:4} | {line}".rstrip() for number, line in enumerate(state.source.lines, 1))
    return f"{listing}\n\n{state.ptx}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ptx_is_the_golden_one(case: Case, update_golden: bool) -> None:
    path = HERE / f"{case.name}.ptx"
    if update_golden:
        path.write_text(golden_text(case), encoding="utf-8")
    assert golden_text(case) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", sorted(HERE.glob("*.ptx")), ids=lambda path: path.stem)
def test_goldens_assemble(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    arch = next(line.split()[1] for line in text.splitlines() if line.startswith(".target"))
    assert_assembles(text, arch, "ptxas")


def test_no_stray_goldens() -> None:
    assert {path.stem for path in HERE.glob("*.ptx")} == {case.name for case in CASES}
