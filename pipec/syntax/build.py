"""The syntax-tree node for each rule of the grammar. Rule names are method names; no user error is raised here."""

from typing import Any, Literal, Protocol

from pipec.record import replace
from pipec.source import Source, Span
from pipec.syntax import ast
from pipec.syntax.parts import Token
from pipec.vocabulary import BINARY_OPERATORS, UNARY_OPERATORS, UnaryOperator, Word, one_of

# The parser's results follow the grammar, which type checkers cannot see: each method accesses its children by position.
Children = list[Any]
Parts = tuple[Any, ...]

# Operator precedence, as in Python. Comparisons chain: `a < b < c` is `a < b and b < c`.
_COMPARISON = 2
_TIGHTNESS = {
    **dict.fromkeys(("or",), 0),
    **dict.fromkeys(("and",), 1),
    **dict.fromkeys(("==", "!=", "<=", ">=", "<", ">"), _COMPARISON),
    **dict.fromkeys(("|",), 3),
    **dict.fromkeys(("^",), 4),
    **dict.fromkeys(("&",), 5),
    **dict.fromkeys(("<<", ">>"), 6),
    **dict.fromkeys(("+", "-"), 7),
    **dict.fromkeys(("*", "//", "/", "%"), 8),
}


_SIGNS: tuple[UnaryOperator | Literal["+"], ...] = (*UNARY_OPERATORS, "+")


def _chosen(choices: tuple[Word, ...], token: str) -> Word:
    """The operator of a token; the grammar admits no others."""
    found = one_of(choices, token)
    assert found is not None
    return found


def _climb(items: Children, least: int) -> ast.Expression:
    """Precedence climbing: `items` are operands and operators from the last to the first; stops at an operator that binds less tightly
    than `least`."""
    left: ast.Expression = items.pop()
    compared: ast.Expression | None = None
    while items and (tightness := _TIGHTNESS[items[-1]]) >= least:
        operator = _chosen(BINARY_OPERATORS, items.pop())
        right = _climb(items, tightness + 1)
        operand = left if compared is None else compared
        link = ast.Binary(operator, operand, right, operand.span.to(right.span))
        left = link if compared is None else ast.Binary("and", left, link, left.span.to(right.span))
        compared = right if tightness == _COMPARISON else None
    return left


class Meta(Protocol):
    """The text that a rule covers."""

    line: int
    column: int
    end_line: int
    end_column: int


class Builder:
    """One method per rule of grammar/pipec.lark that produces a node, called with the text it covers and its children."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def _span(self, meta: Meta) -> Span:
        return Span(self.source, meta.line, meta.column, meta.end_line, meta.end_column)

    def _token_span(self, token: Token) -> Span:
        return Span(self.source, token.line, token.column, token.end_line, token.end_column)

    def _name(self, token: Token) -> ast.Name:
        return ast.Name(str(token), self._token_span(token))

    def _header(self, meta: Meta, last: Span) -> Span:
        """From the start of a statement to the end of its header."""
        return Span(self.source, meta.line, meta.column, last.end_line, last.end_column)

    def _word(self, meta: Meta, word: str) -> Span:
        """The keyword at the start of a statement; the statement's own span extends over the line end."""
        return Span(self.source, meta.line, meta.column, meta.line, meta.column + len(word))

    # ------------------------------------------------------------------------------------------------------ definitions

    def file(self, meta: Meta, children: Children) -> ast.File:
        def of(kind: type) -> Parts:
            return tuple(child for child in children if isinstance(child, kind))

        return ast.File(of(ast.Kernel), of(ast.Function), of(ast.Comptime))

    def kernel(self, meta: Meta, children: Children) -> ast.Kernel:
        name, constants, (parameters, end), body = children
        return ast.Kernel(self._name(name), constants or (), parameters, body, self._header(meta, end))

    def function(self, meta: Meta, children: Children) -> ast.Function:
        name, (parameters, end), _result, body = children
        return ast.Function(self._name(name), parameters, body, self._header(meta, end))

    def comptime(self, meta: Meta, children: Children) -> ast.Comptime:
        name, annotation, value = children
        return ast.Comptime(self._name(name), annotation, value, self._header(meta, value.span))

    def constants(self, meta: Meta, children: Children) -> Parts:
        return tuple(child for child in children if child is not None)

    def constant(self, meta: Meta, children: Children) -> ast.Constant:
        name, annotation, default = children
        return ast.Constant(self._name(name), annotation, default, self._span(meta))

    def parameters(self, meta: Meta, children: Children) -> Parts:
        return tuple(child for child in children if child is not None), self._span(meta)

    def parameter(self, meta: Meta, children: Children) -> ast.Parameter:
        name, annotation = children
        return ast.Parameter(self._name(name), annotation, self._span(meta))

    def role(self, meta: Meta, children: Children) -> ast.Role:
        name, (arguments, end), *clauses, body = children
        last = clauses[-1].span if clauses else end
        return ast.Role(self._name(name), arguments, tuple(clauses), body, self._header(meta, last))

    def role_clause(self, meta: Meta, children: Children) -> ast.RoleClause:
        word, *names = children
        return ast.RoleClause(
            "produces" if word == "produces" else "consumes", tuple(self._name(name) for name in names), self._span(meta)
        )

    # ------------------------------------------------------------------------------------------------------- statements

    def suite(self, meta: Meta, children: Children) -> Parts:
        return tuple(children)

    def assign(self, meta: Meta, children: Children) -> ast.Assign:
        name, annotation, value = children
        return ast.Assign(self._name(name), annotation, value, self._header(meta, value.span))

    def augmented_assign(self, meta: Meta, children: Children) -> ast.AugmentedAssign:
        name, operator, value = children
        return ast.AugmentedAssign(
            self._name(name), _chosen(BINARY_OPERATORS, operator[:-1]), value, self._header(meta, value.span)
        )

    def return_statement(self, meta: Meta, children: Children) -> ast.Return:
        (value,) = children
        return ast.Return(value, self._header(meta, value.span) if value else self._word(meta, "return"))

    def tune_statement(self, meta: Meta, children: Children) -> ast.Tune:
        *parameters, condition = children
        last = parameters[-1].span if condition is None else condition.span
        return ast.Tune(tuple(parameters), condition, self._header(meta, last))

    def tuned(self, meta: Meta, children: Children) -> ast.Tuned:
        name, *values = children
        return ast.Tuned(self._name(name), tuple(value for value in values if value is not None), self._span(meta))

    def pass_statement(self, meta: Meta, children: Children) -> ast.Pass:
        return ast.Pass(self._word(meta, "pass"))

    def expression_statement(self, meta: Meta, children: Children) -> ast.ExpressionStatement:
        (value,) = children
        return ast.ExpressionStatement(value, value.span)

    def for_statement(self, meta: Meta, children: Children) -> ast.For:
        name, iterable, body = children
        return ast.For(self._name(name), iterable, body, self._header(meta, iterable.span))

    def while_statement(self, meta: Meta, children: Children) -> ast.While:
        condition, body = children
        return ast.While(condition, body, self._header(meta, condition.span))

    def if_statement(self, meta: Meta, children: Children) -> ast.If:
        condition, then, *rest = children
        *elifs, otherwise = rest
        otherwise = otherwise or ()
        for elif_condition, elif_body, span in reversed(elifs):
            otherwise = (ast.If(elif_condition, elif_body, otherwise, span),)
        return ast.If(condition, then, otherwise, self._header(meta, condition.span))

    def elif_part(self, meta: Meta, children: Children) -> Parts:
        condition, body = children
        return condition, body, self._header(meta, condition.span)

    def else_part(self, meta: Meta, children: Children) -> Parts:
        (body,) = children
        return tuple(body)

    def with_statement(self, meta: Meta, children: Children) -> ast.With:
        *items, body = children
        return ast.With(tuple(items), body, self._header(meta, items[-1].span))

    def with_item(self, meta: Meta, children: Children) -> ast.WithItem:
        context, target = children
        return ast.WithItem(context, self._name(target) if target else None, self._span(meta))

    # ------------------------------------------------------------------------------------------------------ expressions

    def conditional(self, meta: Meta, children: Children) -> ast.Conditional:
        when_true, condition, when_false = children
        return ast.Conditional(condition, when_true, when_false, self._span(meta))

    def chain(self, meta: Meta, children: Children) -> ast.Expression:
        return _climb(children[::-1], 0)

    def unary(self, meta: Meta, children: Children) -> ast.Unary:
        operator, operand = children
        return ast.Unary(_chosen(_SIGNS, operator), operand, self._span(meta))

    def attribute(self, meta: Meta, children: Children) -> ast.Attribute:
        value, name = children
        return ast.Attribute(value, str(name), self._span(meta))

    def call(self, meta: Meta, children: Children) -> ast.Call:
        callee, (arguments, _) = children
        return ast.Call(callee, arguments, self._span(meta))

    def call_arguments(self, meta: Meta, children: Children) -> Parts:
        return tuple(child for child in children if child is not None), self._span(meta)

    def argument(self, meta: Meta, children: Children) -> ast.Argument:
        name, value = children
        return ast.Argument(str(name) if name else None, value, self._span(meta))

    def subscript(self, meta: Meta, children: Children) -> ast.Subscript:
        value, *items = children
        return ast.Subscript(value, tuple(item for item in items if item is not None), self._span(meta))

    def name(self, meta: Meta, children: Children) -> ast.Name:
        return self._name(children[0])

    def integer(self, meta: Meta, children: Children) -> ast.Number:
        text = str(children[0]).replace("_", "").lower()
        base = {"0x": 16, "0b": 2}.get(text[:2], 10)
        return ast.Number(int(text, base), self._span(meta))

    def float(self, meta: Meta, children: Children) -> ast.Number:
        return ast.Number(float(str(children[0]).replace("_", "")), self._span(meta))

    def string(self, meta: Meta, children: Children) -> ast.String:
        text = str(children[0])
        quotes = 3 if text.startswith(('"""', "'''")) else 1
        return ast.String(text[quotes:-quotes], self._span(meta))

    def boolean(self, meta: Meta, children: Children) -> ast.Boolean:
        return ast.Boolean(str(children[0]) == "True", self._span(meta))

    def parenthesised(self, meta: Meta, children: Children) -> ast.Expression:
        inner: ast.Expression = children[0]
        # With its parentheses: what begins or ends with them is quoted in messages, and marked, as it is written.
        return replace(inner, span=self._span(meta))
