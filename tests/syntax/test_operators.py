"""Precedence and grouping of operators are Python's: the same text parsed by Python's own parser gives the same tree."""

import ast as python
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipec.diag.message import Sink
from pipec.source import Source
from pipec.syntax import ast
from pipec.syntax.parse import parse

COMPARISONS = {python.Eq: "==", python.NotEq: "!=", python.LtE: "<=", python.GtE: ">=", python.Lt: "<", python.Gt: ">"}
BINARY = {
    python.BitOr: "|", python.BitXor: "^", python.BitAnd: "&", python.LShift: "<<", python.RShift: ">>", python.Add: "+",
    python.Sub: "-", python.Mult: "*", python.FloorDiv: "//", python.Div: "/", python.Mod: "%",
}  # fmt: skip
LOGIC = {python.And: "and", python.Or: "or"}
UNARY = {python.Not: "not", python.USub: "-", python.UAdd: "+", python.Invert: "~"}
OPERATORS = (*COMPARISONS.values(), *BINARY.values(), *LOGIC.values())


def parsed(text: str) -> ast.Expression:
    sink = Sink()
    file = parse(Source("operators.pipe", f"comptime X = {text}\n"), sink)
    assert file is not None, sink.diagnostics
    return file.constants[0].value


def shown(node: ast.Expression) -> str:
    match node:
        case ast.Name(name):
            return name
        case ast.Unary(operator, operand):
            return f"({operator} {shown(operand)})"
        case ast.Binary(operator, left, right):
            return f"({shown(left)} {operator} {shown(right)})"
        case ast.Conditional(condition, when_true, when_false):
            return f"({shown(when_true)} if {shown(condition)} else {shown(when_false)})"
        case _:
            raise AssertionError(node)


def pythons(node: python.expr) -> str:
    match node:
        case python.Name(name):
            return name
        case python.UnaryOp(operator, operand):
            return f"({UNARY[type(operator)]} {pythons(operand)})"
        case python.BinOp(left, operator, right):
            return f"({pythons(left)} {BINARY[type(operator)]} {pythons(right)})"
        case python.BoolOp(operator, [first, *rest]):
            return grouped(LOGIC[type(operator)], [pythons(first), *map(pythons, rest)])
        case python.Compare(left, operators, right):
            sides = [pythons(one) for one in (left, *right)]
            return grouped("and", [f"({sides[i]} {COMPARISONS[type(one)]} {sides[i + 1]})" for i, one in enumerate(operators)])
        case python.IfExp(condition, when_true, when_false):
            return f"({pythons(when_true)} if {pythons(condition)} else {pythons(when_false)})"
        case _:
            raise AssertionError(node)


def grouped(operator: str, parts: list[str]) -> str:
    text = parts[0]
    for part in parts[1:]:
        text = f"({text} {operator} {part})"
    return text


def some_expression(choose: random.Random, depth: int) -> str:
    parts = [some_operand(choose, depth)]
    for _ in range(choose.randrange(6)):
        parts += [choose.choice(OPERATORS), some_operand(choose, depth)]
    if depth and choose.random() < 0.2:
        parts += ["if", some_operand(choose, 0), "else", some_operand(choose, 0)]
    return " ".join(parts)


def some_operand(choose: random.Random, depth: int) -> str:
    sign = choose.choice(("", "", "", "-", "~", "- ~"))
    return sign + (f"({some_expression(choose, depth - 1)})" if depth and choose.random() < 0.3 else choose.choice("abcdefg"))


@pytest.mark.parametrize("seed", range(200))
def test_operators_group_as_in_python(seed: int) -> None:
    text = some_expression(random.Random(seed), 2)
    assert shown(parsed(text)) == pythons(python.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    "text", ["not a == b", "a and not b or c", "not a < b < c", "not not a", "a if not b else c if d else e"]
)
def test_not_binds_as_in_python(text: str) -> None:
    assert shown(parsed(text)) == pythons(python.parse(text, mode="eval").body)


def test_a_span_covers_the_operands_with_their_brackets() -> None:
    node = parsed("(a + b).T * c")
    assert isinstance(node, ast.Binary) and isinstance(node.left, ast.Attribute)
    assert (node.span.text(), node.left.span.text()) == ("(a + b).T * c", "(a + b).T")


def test_threads_parse_at_the_same_time() -> None:
    texts = [some_expression(random.Random(seed), 2) for seed in range(64)]
    with ThreadPoolExecutor(8) as threads:
        assert [shown(node) for node in threads.map(parsed, texts)] == [shown(parsed(text)) for text in texts]
