"""The grammar as read by Lark: its tables, and the parser that can tell what would have been valid."""

import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar

from lark import Lark, Token
from lark import __version__ as lark_version
from lark.grammar import Rule, Terminal
from lark.indenter import Indenter
from lark.lexer import TerminalDef

from pipec import cache as kept
from pipec.budgets import BUDGETS
from pipec.syntax.faults import Overlong, Unbalanced
from pipec.syntax.machine import Tables
from pipec.syntax.shape import Shape

_TABLES = "tables"  # the kind of entry in the cache
_WORDS = re.compile(r"(?:\(\?:)?(\w+(?:\|\w+)*)\)?")  # a terminal that is a choice of words


class GrammarIndenter(Indenter):
    NL_type = "_NEWLINE"
    OPEN_PAREN_types: ClassVar[list[str]] = ["LPAR", "LSQB"]
    CLOSE_PAREN_types: ClassVar[list[str]] = ["RPAR", "RSQB"]
    WORD_types: ClassVar[list[str]] = ["NAME", "INTEGER", "FLOAT"]
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        # An unmatched closing bracket would fail an assertion of the base class; the parser reports it better.
        yield from super().process(self._balanced(stream))  # type: ignore[no-untyped-call]  # Lark's has no types

    def _balanced(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        for token in stream:
            if token.type in self.OPEN_PAREN_types:
                depth += 1
            elif token.type in self.CLOSE_PAREN_types:
                depth -= 1
                if depth < 0:
                    raise Unbalanced(token)
            elif token.type in self.WORD_types and len(token) > BUDGETS["word"].limit:
                raise Overlong(token)
            yield token


@cache
def parser() -> Lark:
    """The parser, built once per process; its tables are cached on disk, since building them takes longer than a compilation."""
    grammar = pkgutil.get_data("pipec.grammar", "pipec.lark")
    assert grammar is not None
    key = kept.key_of(grammar, lark_version, sys.version)
    return _loaded(key) or _built(grammar.decode(), key)


def _loaded(key: str) -> Lark | None:
    """The parser from its cached tables, which are JSON."""
    content = kept.read(_TABLES, key)
    if content is None:
        return None
    try:
        tables = json.loads(content)
        tables["memo"] = _by_number(tables["memo"])
        automaton = tables["data"]["parser"]["parser"]
        automaton["tokens"] = _by_number(automaton["tokens"])
        automaton["states"] = {int(state): _by_number(actions) for state, actions in automaton["states"].items()}
        tables["data"]["options"]["postlex"] = GrammarIndenter()
        return Lark.load(tables)
    except Exception:  # noqa: BLE001 - the user's own file with other contents fails in many ways, and all mean: no tables
        return None


def _by_number(rows: dict[str, Any]) -> dict[int, Any]:
    return {int(number): row for number, row in rows.items()}


def _built(grammar: str, key: str) -> Lark:
    built = Lark(grammar, parser="lalr", start="file", postlex=GrammarIndenter(), maybe_placeholders=True)
    data, memo = built.memo_serialize([TerminalDef, Rule])
    tables = {"data": data | {"options": data["options"] | {"postlex": None}}, "memo": memo}
    kept.write(_TABLES, key, json.dumps(tables, separators=(",", ":")).encode())
    return built


def machine_tables() -> Tables:
    """The part of Lark's tables that pipec.syntax.machine needs."""
    lark = parser()
    table = lark.parser.parser.parser.parse_table
    rules = dict.fromkeys(target for row in table.states.values() for _, target in row.values() if isinstance(target, Rule))
    numbers = {rule: number for number, rule in enumerate(rules)}
    states: list[dict[str, int]] = [{} for _ in table.states]
    for state, row in table.states.items():
        states[state] = {name: ~numbers[to] if isinstance(to, Rule) else to for name, (_, to) in row.items()}
    # In the order of Lark's own lexer.
    terminals = sorted(lark.terminals, key=lambda one: (-one.priority, -one.pattern.max_width, -len(one.pattern.value), one.name))
    words = {one.name: _WORDS.fullmatch(one.pattern.to_regexp()) for one in terminals}
    return Tables(
        tuple((one.name, one.pattern.to_regexp()) for one in terminals),
        tuple(lark.parser.lexer_conf.ignore),
        {word: name for name, found in words.items() if found for word in found[1].split("|")},
        states,
        tuple(shape_of(rule) for rule in rules),
        table.start_states["file"],
        table.end_states["file"],
    )


def shape_of(rule: Rule) -> Shape:
    """Lark's rules for tree shaping: punctuation and keywords are dropped, `_rule` is inlined, an empty `[...]` gives None."""
    gaps = [0] * (len(rule.expansion) + 1)
    if rule.options.empty_indices:
        gaps = [len(gap) for gap in "".join("-" if empty else "|" for empty in rule.options.empty_indices).split("|")]
    kept_symbols: list[tuple[int, bool, int]] = []
    absent = 0
    for index, symbol in enumerate(rule.expansion):
        absent += gaps[index]
        if not (isinstance(symbol, Terminal) and symbol.filter_out):
            kept_symbols.append((index, not symbol.is_term and symbol.name.startswith("_"), absent))
            absent = 0
    passes = bool(rule.options.expand1 and rule.alias is None)
    name = str(rule.origin.name)
    return Shape(name, len(rule.expansion), rule.alias or name, tuple(kept_symbols), absent + gaps[-1], passes)
