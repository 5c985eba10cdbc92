"""docs/proof.md says how every instruction is read, and what each assumption is needed by, as the reader has it."""

import re
from pathlib import Path

from pipec.verify.network import ASSUMED
from pipec.verify.reader.text.opcodes import ROWS, Kind

DOCUMENT = Path(__file__).parents[2] / "docs" / "proof.md"
TABLE = re.compile(r"(<!-- instructions: .*? -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> str:
    lines = ["| instruction | what it does to the protocol |", "|---|---|"]
    for kind in Kind:
        opcodes = [opcode for opcode, of in ROWS.items() if of is kind]
        lines.append(f"| {', '.join(f'`{opcode}`' for opcode in sorted(opcodes))} | {kind.value} |")
    return "\n".join(lines) + "\n"


def test_the_table_is_that_of_the_reader(update_golden: bool) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    found = TABLE.sub(lambda match: f"{match[1]}{table()}{match[2]}", text)
    if update_golden:
        DOCUMENT.write_text(found, encoding="utf-8")
    assert found == DOCUMENT.read_text(encoding="utf-8"), "pytest tests/verify/test_documented.py --update-golden"


def test_every_assumption_is_documented() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [one for one in ASSUMED.values() if f"| {one} |" not in text] == []
