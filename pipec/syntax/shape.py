"""From reductions to the syntax tree in one step: each rule of the grammar calls its method of the builder while the text is parsed.

Lark by itself makes a tree, gives every node a position, and a transformer walks it afterwards: more work than parsing. Its tables
and its loop are used as they are; only what a reduction calls is replaced.
"""

from collections.abc import Callable
from typing import Any

from lark import Lark, Token
from lark.grammar import Rule, Terminal

from pipec.syntax.build import Builder

Parts = list[Any]  # of Part and Token; a method of the parser reads the attributes that both have


class Part:
    """What a rule was reduced to, and the text it covers; `line` is 0 where it covers none. Children of a repetition are a list."""

    __slots__ = ("column", "end_column", "end_line", "line", "value")

    def __init__(self, parts: "list[Part | Token]") -> None:
        self.line = self.column = self.end_line = self.end_column = 0
        self.value: Any = None
        for first in parts:
            if first.line and first.column:
                self.line, self.column = first.line, first.column
                break
        for last in reversed(parts):
            if last.end_line and last.end_column:
                self.end_line, self.end_column = last.end_line, last.end_column
                break


Reduce = Callable[[Parts], object]


def shape(lark: Lark, builder: Builder) -> None:
    """Makes `lark.parse` give a Part whose value is what the builder made of the whole file."""
    machine = lark.parser.parser.parser
    # The table's own rule objects: looking an equal one up would compare them at each reduction.
    targets = (target for actions in machine.parse_table.states.values() for _, target in actions.values())
    machine.callbacks = {rule: _reduce(rule, builder) for rule in dict.fromkeys(targets) if isinstance(rule, Rule)}


def _reduce(rule: Rule, builder: Builder) -> Reduce:
    kept, absent = _kept(rule)
    passes = rule.options.expand1 and rule.alias is None
    if passes and len(rule.expansion) == 1 and not absent:
        return _only
    name = rule.alias or rule.origin.name
    build = None if name.startswith("_") else getattr(builder, name)

    def reduce(parts: Parts) -> Part:
        children: list[Any] = []
        for index, spliced, missing in kept:
            if missing:
                children += [None] * missing
            part = parts[index]
            if spliced:
                children += part.value
            else:
                children.append(part.value if type(part) is Part else part)
        if absent:
            children += [None] * absent
        made = Part(parts)
        if passes and len(children) == 1:
            made.value = children[0]
        else:
            made.value = children if build is None else build(made, children)
        return made

    return reduce


def _only(parts: Parts) -> object:
    return parts[0]


def _kept(rule: Rule) -> tuple[list[tuple[int, bool, int]], int]:
    """The symbols whose values the builder gets (place, whether a list to splice in, absent optionals in front), and the absent at the end.

    As Lark shapes trees: punctuation and keywords are left out, `_rule` is spliced, what an empty `[...]` holds is None.
    """
    gaps = [0] * (len(rule.expansion) + 1)
    if rule.options.empty_indices:
        gaps = [len(gap) for gap in "".join("-" if empty else "|" for empty in rule.options.empty_indices).split("|")]
    kept: list[tuple[int, bool, int]] = []
    absent = 0
    for index, symbol in enumerate(rule.expansion):
        absent += gaps[index]
        if not (isinstance(symbol, Terminal) and symbol.filter_out):
            kept.append((index, not symbol.is_term and symbol.name.startswith("_"), absent))
            absent = 0
    return kept, absent + gaps[-1]
