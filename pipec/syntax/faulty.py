"""Reports syntax errors by means of Lark, which knows what would have been valid: each error costs its statement, and the rest is
parsed."""

from functools import cache
from threading import Lock
from typing import Any

from lark import Lark, UnexpectedInput
from lark.grammar import Rule
from lark.indenter import DedentError

from pipec.diag.message import Sink
from pipec.source import Source
from pipec.syntax import ast
from pipec.syntax.build import Builder
from pipec.syntax.faults import Fault, Overlong, Unbalanced, fault_of
from pipec.syntax.grammar import parser, shape_of
from pipec.syntax.recover import continues_a_fault, repaired
from pipec.syntax.shape import reduction

# The text is parsed again after each error, so this also bounds the time.
_MOST_FAULTS = 20


def parse_with_faults(source: Source, sink: Sink) -> ast.File | None:
    """The syntax tree if there are no errors; else None, after reporting them."""
    lines, faults = source.lines, list[int]()
    for _ in range(_MOST_FAULTS):
        parsed = _attempt(source, lines)
        if isinstance(parsed, ast.File):
            return None if faults else parsed
        if not continues_a_fault(source.lines, parsed, faults):
            if faults and parsed.line <= max(faults):
                return None  # a consequence of an earlier error
            sink.report(parsed.message)
        faults.append(parsed.line)
        repair = repaired(lines, parsed.kind, parsed.line)
        if repair is None:
            return None
        lines = repair
    return None


def _attempt(source: Source, lines: list[str]) -> ast.File | Fault:
    """Parses the lines of the source, possibly modified by recovery."""
    with _ONE_AT_A_TIME:
        lark, builder = _shaped()
        builder.source = source
        try:
            whole: Any = lark.parse("\n".join(lines) + "\n")  # a Part, see _shaped
        except (Overlong, Unbalanced, DedentError, UnexpectedInput) as error:
            indenter: Any = lark.options.postlex
            return fault_of(error, source, lines, indenter.paren_level > 0)
        file: ast.File = whole.value
        return file


_ONE_AT_A_TIME = Lock()  # the indenter and the builder belong to the running parse


@cache
def _shaped() -> tuple[Lark, Builder]:
    """Lark's parser, which produces a Part whose value is the node for the whole file."""
    lark, builder = parser(), Builder(Source("", ""))
    machine = lark.parser.parser.parser
    # The table's own rule objects: looking up equal ones would compare them at each reduction.
    targets = (target for actions in machine.parse_table.states.values() for _, target in actions.values())
    rules = (rule for rule in dict.fromkeys(targets) if isinstance(rule, Rule))
    machine.callbacks = {rule: reduction(shape_of(rule), builder) for rule in rules}
    return lark, builder
