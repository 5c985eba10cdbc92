"""docs/language.md shows the tables of the compiler itself, and its example compiles."""

import re
from pathlib import Path

from pipec.driver import Options, compile_source
from pipec.sema.functions import FUNCTIONS
from pipec.sema.operations import OPERATIONS
from pipec.source import Source

DOCUMENT = Path(__file__).parents[2] / "docs" / "language.md"


def functions_table() -> str:
    rows = [f"| `{row.name}({', '.join(row.parameters)})` | {row.document} | {row.domain} |" for row in FUNCTIONS.values()]
    return "\n".join(["| function | value | works on |", "|---|---|---|", *rows])


def operations_table() -> str:
    head = ["| operation | of | waits for | signals | the stage | page | |", "|---|---|---|---|---|---|---|"]
    rows = []
    for row in OPERATIONS:
        cells = (f"`{row.signature}`", ", ".join(row.receivers) or "-", row.waits, row.signals, row.stage, row.page, row.document)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(head + rows)


TABLES = {"functions": functions_table, "operations": operations_table}


def test_the_tables_are_those_of_the_compiler(update_golden: bool) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    expected = text
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        assert pattern.search(text)
        expected = pattern.sub(lambda match, table=table: f"{match[1]}{table()}\n{match[2]}", expected)
    if update_golden:
        DOCUMENT.write_text(expected, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == expected


def test_the_example_compiles() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    state = compile_source(Source("language.md", example), Options())
    assert state.diagnostics == []
    assert state.ptx is not None
