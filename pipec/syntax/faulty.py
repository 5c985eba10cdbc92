"""What is wrong in a text, told by Lark, which knows what would have been right: each fault costs its statement, and the rest is read."""

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

# After each fault the text is parsed once more, so this also bounds the time.
_MOST_FAULTS = 20


def parse_with_faults(source: Source, sink: Sink) -> ast.File | None:
    """The syntax tree where nothing is wrong; else None, and what is wrong is reported."""
    lines, faults = source.lines, list[int]()
    for _ in range(_MOST_FAULTS):
        parsed = _attempt(source, lines)
        if isinstance(parsed, ast.File):
            return None if faults else parsed
        if not continues_a_fault(source.lines, parsed, faults):
            if faults and parsed.line <= max(faults):
                return None  # a consequence of what was reported
            sink.report(parsed.message)
        faults.append(parsed.line)
        repair = repaired(lines, parsed.kind, parsed.line)
        if repair is None:
            return None
        lines = repair
    return None


def _attempt(source: Source, lines: list[str]) -> ast.File | Fault:
    """Parses the lines, which are those of the source or what recovery made of them."""
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


_ONE_AT_A_TIME = Lock()  # the indenter and the builder belong to the parse that runs


@cache
def _shaped() -> tuple[Lark, Builder]:
    """Lark's parser, which makes a Part whose value is what the builder made of the whole file."""
    lark, builder = parser(), Builder(Source("", ""))
    machine = lark.parser.parser.parser
    # The table's own rule objects: looking an equal one up would compare them at each reduction.
    targets = (target for actions in machine.parse_table.states.values() for _, target in actions.values())
    rules = (rule for rule in dict.fromkeys(targets) if isinstance(rule, Rule))
    machine.callbacks = {rule: reduction(shape_of(rule), builder) for rule in rules}
    return lark, builder
