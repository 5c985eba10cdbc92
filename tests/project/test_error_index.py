"""docs/errors.md: every code of the compiler with its title, and the case or test that shows it. Rewritten by --update-golden."""

import re
from pathlib import Path

from pipec.diag.explain import load_catalogue, plain_title

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "errors.md"
CASES = ROOT / "tests" / "errors"

_HEAD = """# Every message, by code

`pipec explain CODE` prints the long text: what is wrong, what hardware would do, how to mend it. A case is a
file `tests/errors/FAMILY/CASE.pipe` with the mistake, and `CASE.txt` beside it is what pipec says about it. Codes
without a case come from the command line, the assembler or a launch; the tests named show them.

A code is never given to another message. This page is written by `pytest tests/project --update-golden`.

| code | title | shown by |
|---|---|---|
"""


def shown_by_cases() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(CASES.glob("*/*.txt")):
        for code in sorted(set(re.findall(r"^error\[(E\d{4})\]", path.read_text(encoding="utf-8"), re.MULTILINE))):
            name = f"{path.parent.name}/{path.stem}"
            found.setdefault(code, []).append(f"[{name}](../tests/errors/{name}.pipe)")
    return found


def shown_by_tests() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for code in sorted(set(re.findall(r"\bE\d{4}\b", path.read_text(encoding="utf-8")))):
            name = path.relative_to(ROOT).as_posix()
            found.setdefault(code, []).append(f"[{name}](../{name})")
    return found


def page() -> str:
    cases, tests = shown_by_cases(), shown_by_tests()
    rows = []
    for code, message in sorted(load_catalogue().items()):
        title = plain_title(message).replace("|", r"\|")
        rows.append(f"| {code} | {title} | {', '.join(cases.get(code) or tests.get(code, []))} |")
    return _HEAD + "\n".join(rows) + "\n"


def test_the_index_is_that_of_the_compiler(update_golden: bool) -> None:
    if update_golden:
        DOCUMENT.write_text(page(), encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == page(), "pytest tests/project --update-golden"


def test_every_code_is_shown_somewhere() -> None:
    shown = shown_by_cases().keys() | shown_by_tests().keys()
    assert sorted(load_catalogue().keys() - shown) == []
