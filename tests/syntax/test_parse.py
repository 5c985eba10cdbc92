"""Source text to syntax tree, and what a reader is told when that fails."""

import pytest

from pipec.diag.message import Sink
from pipec.source import Source
from pipec.syntax import ast
from pipec.syntax.parse import parse


def parsed(text: str) -> ast.File:
    sink = Sink()
    file = parse(Source("t.pipe", text), sink)
    assert not sink.diagnostics
    assert file is not None
    return file


def refused(text: str) -> tuple[str, str, str]:
    """Code, place and label of the one diagnostic."""
    sink = Sink()
    assert parse(Source("t.pipe", text), sink) is None
    (diagnostic,) = sink.diagnostics
    assert diagnostic.span is not None
    return diagnostic.code, diagnostic.span.location(), diagnostic.labels[0].text


def expression(text: str) -> ast.Expression:
    (statement,) = parsed(f"kernel k():\n    x = {text}\n").kernels[0].body
    assert isinstance(statement, ast.Assign)
    return statement.value


def shape(node: ast.Expression) -> str:
    """The tree of an expression with all brackets written."""
    match node:
        case ast.Name(name):
            return name
        case ast.Number(value):
            return str(value)
        case ast.Binary(operator, left, right):
            return f"({shape(left)} {operator} {shape(right)})"
        case ast.Unary(operator, operand):
            return f"({operator} {shape(operand)})"
        case ast.Conditional(condition, yes, no):
            return f"({shape(yes)} if {shape(condition)} else {shape(no)})"
        case _:
            return type(node).__name__


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c", "(a + (b * c))"),
        ("a - b - c", "((a - b) - c)"),
        ("-a * b", "((- a) * b)"),
        ("a // b % c", "((a // b) % c)"),
        ("a << 1 + b", "(a << (1 + b))"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("not a and b or c", "(((not a) and b) or c)"),
        ("a < b < c", "((a < b) and (b < c))"),
        ("a if b else c if d else e", "(a if b else (c if d else e))"),
        ("(a + b) * c", "((a + b) * c)"),
        ("0x1F + 0b11 + 1_000", "((31 + 3) + 1000)"),
        ("1.5e3 + .5", "(1500.0 + 0.5)"),
    ],
)
def test_precedence_is_pythons(text: str, tree: str) -> None:
    assert shape(expression(text)) == tree


def test_spans_cover_the_text_they_come_from() -> None:
    source = "kernel k():\n    with ring.produce() as s:\n        tma.load(s.a, a[i, j * 8])\n"
    (statement,) = parsed(source).kernels[0].body
    assert isinstance(statement, ast.With)
    assert statement.items[0].context.span.text() == "ring.produce()"
    (inner,) = statement.body
    assert inner.span.text() == "tma.load(s.a, a[i, j * 8])"
    assert isinstance(inner.value, ast.Call)
    assert [argument.span.text() for argument in inner.value.arguments] == ["s.a", "a[i, j * 8]"]


def test_elif_becomes_a_nested_if() -> None:
    (statement,) = parsed("kernel k():\n  if a:\n    pass\n  elif b:\n    pass\n  else:\n    x = 1\n").kernels[0].body
    assert isinstance(statement, ast.If)
    (inner,) = statement.otherwise
    assert isinstance(inner, ast.If)
    assert isinstance(inner.otherwise[0], ast.Assign)


def test_line_ends_do_not_count_inside_brackets() -> None:
    file = parsed("kernel k(\n  a: tensor[bf16,\n M, K],\n):\n    x = f(1,\n  2)\n")
    assert [parameter.name.name for parameter in file.kernels[0].parameters] == ["a"]


def test_a_file_may_lack_its_last_newline_and_have_comments_and_windows_line_ends() -> None:
    assert len(parsed("# c\r\nkernel k():  # d\r\n    # e\r\n\r\n    pass").kernels) == 1


@pytest.mark.parametrize(
    ("text", "code", "place", "label"),
    [
        ("kernel", "E0101", "t.pipe:1:7", "expected a name"),
        ("kernel f(", "E0113", "t.pipe:1:9", "opened here"),
        ("kernel f():\n  x = (1\n  y = 2\n", "E0113", "t.pipe:2:7", "opened here"),
        ("kernel f()\n  pass\n", "E0104", "t.pipe:1:11", "the header ends here"),
        ("kernel f():\n    x = 1\n      y = 2\n", "E0106", "t.pipe:3:7", "no block was opened by the line before"),
        ("kernel f():\n      x = 1\n   y = 2\n", "E0107", "t.pipe:3:4", "align it with the block it belongs to"),
        ("kernel f():\n  x = 'a'\n", "E0116", "t.pipe:2:7", "single quotes"),
        ('kernel f():\n  x = "a\n', "E0103", "t.pipe:2:7", "starts here, and its line ends without a closing quote"),
        ("kernel f():\n  x = 1 +\n  y=2\n", "E0101", "t.pipe:2:10", "expected an operand"),
        ("kernel f():\n  x = 1)\n", "E0108", "t.pipe:2:8", "no bracket is open here"),
        ("x = 1\n", "E0101", "t.pipe:1:1", "expected `kernel`, `fn` or `comptime`"),
        ("kernel f():\n  for k range(3):\n    pass\n", "E0101", "t.pipe:2:9", "expected `in`"),
        ("kernel f():\n  x = " + "(" * 100 + "\n", "E0109", "t.pipe:2:67", "the limit is reached here"),
        ("kernel f():\n  x = 1\0\n", "E0102", "t.pipe:2:8", "remove it"),
    ],
)
def test_syntax_errors_say_what_and_where(text: str, code: str, place: str, label: str) -> None:
    assert refused(text) == (code, place, label)


def test_no_two_terminals_compete_for_the_same_text() -> None:
    from importlib.resources import files

    from lark import Lark

    grammar = (files("pipec.grammar") / "pipec.lark").read_text()
    from pipec.syntax.grammar import GrammarIndenter

    Lark(grammar, parser="lalr", start="file", postlex=GrammarIndenter(), maybe_placeholders=True, strict=True)


@pytest.mark.parametrize("quotes", ['"""', "'''"])
def test_docstrings_take_three_quotes_of_either_kind(quotes: str) -> None:
    other = '"' if quotes == "'''" else "'"
    text = f"kernel k():\n    {quotes}It {other}s\n\n    shapes: M=1\n    {quotes}\n    pass\n"
    assert parsed(text).kernels[0].document == f"It {other}s\n\n    shapes: M=1\n    "
