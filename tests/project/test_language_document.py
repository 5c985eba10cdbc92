"""docs/language.md shows the tables of the compiler itself, and its example compiles."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from test_seed_names import PAGES

from pipec.driver import Options, compile_source
from pipec.reference.arithmetic import Arithmetic
from pipec.reference.bounded import Precision
from pipec.reference.functions import functions
from pipec.sema.language.functions import FUNCTIONS
from pipec.sema.language.operation import (
    BARRIER,
    CONSUMER,
    CONSUMER_VIEW,
    EPILOGUE_LOAD,
    EPILOGUE_STAGE,
    INPUT,
    OUTPUT,
    PARTS,
    PER_K_VIEW,
    PRODUCER,
    PRODUCER_VIEW,
    RING,
    ROLE,
)
from pipec.sema.language.operations import OPERATIONS
from pipec.sema.language.other_names import NAMES
from pipec.source import Source
from pipec.syntax.other_forms import FORMS

DOCUMENT = Path(__file__).parents[2] / "docs" / "language.md"


_OPERANDS = {"float": "float, not `f64`"}


def functions_table() -> str:
    rows = [
        f"| `{row.name}({', '.join(row.parameters)})` | {row.document} | {_OPERANDS.get(row.domain, row.domain)} |"
        for row in FUNCTIONS.values()
    ]
    return "\n".join(["| function | value | works on |", "|---|---|---|", *rows])


def reference_functions() -> str:
    return ", ".join(f"`{row.shown}`" for _, row in sorted(functions(Arithmetic(Precision())).items()))


PAGE = {RING: "S0", ROLE: "S1", INPUT: "S2", OUTPUT: "S3", EPILOGUE_LOAD: "S4"}
OWNERS = {
    PRODUCER: "producer's stage",
    CONSUMER: "consumer's stage",
    PRODUCER_VIEW: "`producer()`",
    CONSUMER_VIEW: "`consumer()`",
    PER_K_VIEW: "`per_k()`",
    EPILOGUE_STAGE: "`per_k_epilogue` stage",
    BARRIER: "barrier",
}


def pipeline_table(pipeline: str) -> str:
    """A row for each name of the pipeline, its views and its stages; the page is the pipeline's own where that has the name."""
    rows = [
        "| of | operation | who may call it | waits for | signals | the stage | page | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in OPERATIONS:
        parts = [part for part in PARTS[pipeline] if part in row.receivers]
        if not parts or not row.belongs_to(pipeline):
            continue
        own = pipeline in parts and row.name in PAGES[pipeline]
        owner = ", ".join(OWNERS.get(part, "pipeline") for part in parts)
        page = PAGE[pipeline] if own else row.page
        cells = (owner, f"`{row.signature}`", row.caller, row.waits, row.signals, row.stage, page, row.document)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def free_table() -> str:
    rows = ["| operation | signals | the stage | |", "|---|---|---|---|"]
    rows += [
        f"| `{row.signature}` | {row.signals} | {row.stage} | {row.document} |" for row in OPERATIONS if row.receivers == ("",)
    ]
    return "\n".join(rows)


def elsewhere_table() -> str:
    """Forms and names of other languages that have one certain counterpart."""
    forms = [(form.what, form.instead) for form in FORMS if "{" not in form.what + form.instead]
    names = [(", ".join(f"`{name}`" for name in row.names), row.instead) for row in dict.fromkeys(NAMES.values())]
    rows = [f"| {what.replace('|', chr(92) + '|')} | {instead} |" for what, instead in dict.fromkeys([*forms, *names])]
    return "\n".join(["| elsewhere | in pipec |", "|---|---|", *rows])


TABLES: dict[str, Callable[[], str]] = {
    "functions": functions_table,
    "numpy": reference_functions,
    **{pipeline: partial(pipeline_table, pipeline) for pipeline in PARTS},
    "operations": free_table,
    "elsewhere": elsewhere_table,
}


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


def test_every_operation_is_in_a_table() -> None:
    shown = DOCUMENT.read_text(encoding="utf-8")
    assert [row.signature for row in OPERATIONS if f"| `{row.signature}` |" not in shown] == []
