"""docs/proof.md says how every instruction is read, what each assumption is needed by, and how large the checker is, as the code has it."""

import ast
import io
import re
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

from pipec.verify.network import ASSUMED
from pipec.verify.reader.text.opcodes import ROWS, Kind

DOCUMENT = Path(__file__).parents[2] / "docs" / "proof.md"
VERIFY = Path(__file__).parents[2] / "pipec" / "verify"
# What an outsider reads of the checker, in this order.
READ = {
    "what is proved, and about what": (
        "network.py", "checker/certificate.py", "document.py", "data.py", "conditions.py", "condition_text.py", "accept.py",
    ),
    "where each process is, and what has arrived": ("checker/check.py", "checker/configuration.py"),
    "does every parity mean its phase": ("checker/knowledge.py",),
    "does the schedule end": ("checker/progress.py",),
    "are CTAs there as long as others signal them": ("checker/outlived.py",),
    "is a restatement the process": ("checker/restated.py", "checker/unknown.py"),
    "what is a number": ("terms.py",),
    "what follows from facts": ("inequalities.py", "definitions.py", "renaming.py", "logic.py", "per_thread.py"),
}  # fmt: skip


def table() -> str:
    lines = ["| instruction | what it does to the protocol |", "|---|---|"]
    for kind in Kind:
        opcodes = [opcode for opcode, of in ROWS.items() if of is kind]
        lines.append(f"| {', '.join(f'`{opcode}`' for opcode in sorted(opcodes))} | {kind.value} |")
    return "\n".join(lines) + "\n"


def lines_of(path: Path) -> int:
    """Lines of code, without comments and documentation."""
    text = path.read_text(encoding="utf-8")
    said = {
        line
        for one in ast.walk(ast.parse(text))
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)
        for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)
    }
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    tokens = [one for one in tokenize.generate_tokens(io.StringIO(text).readline) if one.type not in nothing]
    return len({line for one in tokens for line in range(one.start[0], one.end[0] + 1)} - said)


def lines() -> str:
    """To tens, so that not every change is one of the document."""
    counts = {question: sum(lines_of(VERIFY / name) for name in names) for question, names in READ.items()}
    rows = [
        f"| {question} | {', '.join(f'`{name}`' for name in READ[question])} | {round(count, -1)} |"
        for question, count in counts.items()
    ]
    return "\n".join(["| question | files | lines |", "|---|---|---|", *rows, f"| | | {round(sum(counts.values()), -1):,} |", ""])


@pytest.mark.parametrize(("name", "made"), [("instructions", table), ("lines", lines)])
def test_a_table_is_that_of_the_code(name: str, made: Callable[[], str], update_golden: bool) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
    found = marked.sub(lambda match: f"{match[1]}{made()}{match[2]}", text)
    if update_golden:
        DOCUMENT.write_text(found, encoding="utf-8")
    assert found == DOCUMENT.read_text(encoding="utf-8"), "pytest tests/verify/test_documented.py --update-golden"


def test_all_of_the_checker_is_counted() -> None:
    """Also what it imports."""
    counted = {f"pipec.verify.{name.removesuffix('.py').replace('/', '.')}" for names in READ.values() for name in names}
    used: set[str] = set()
    for name in counted:
        tree = ast.parse((VERIFY.parents[1] / f"{name.replace('.', '/')}.py").read_text(encoding="utf-8"))
        used |= {one.module or "" for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)}
    verify = {one for one in used if one.startswith("pipec.verify.") and not one.startswith("pipec.verify.reader")}
    assert verify <= counted


def test_every_assumption_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [one for one in ASSUMED.values() if f"| {one} |" not in text] == []
