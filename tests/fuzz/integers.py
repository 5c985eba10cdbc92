"""The integers of a kernel's text where Python runs it: 32 bits wide, but for arithmetic of literals alone."""

import ast
import re
import textwrap
from types import CodeType
from typing import Self


class Int(int):
    """An i32."""

    def __new__(cls, value: int) -> Self:
        return int.__new__(cls, (int(value) + (1 << 31)) % (1 << 32) - (1 << 31))

    def __add__(self, other: int) -> "Int":
        return Int(int(self) + int(other))

    def __sub__(self, other: int) -> "Int":
        return Int(int(self) - int(other))

    def __mul__(self, other: int) -> "Int":
        return Int(int(self) * int(other))

    def __floordiv__(self, other: int) -> "Int":
        return Int(int(self) // int(other))

    def __mod__(self, other: int) -> "Int":
        return Int(int(self) % int(other))

    def __neg__(self) -> "Int":
        return Int(-int(self))

    __radd__ = __add__
    __rmul__ = __mul__


class _Literals(ast.NodeTransformer):
    """Numbers become 32-bit ones, but for arithmetic of literals alone: the compiler does that, exactly, and only the result has a type."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if _of_literals(node):
            return ast.Call(ast.Name("_Int", ast.Load()), [node], [])
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        return ast.Call(ast.Name("_Int", ast.Load()), [node], []) if _of_literals(node) else self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return node if _of_literals(node) else self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if type(node.value) is int:
            return ast.Call(ast.Name("_Int", ast.Load()), [node], [])
        return node


def _of_literals(node: ast.AST) -> bool:
    match node:
        case ast.BinOp(left=left, right=right):
            return _of_literals(left) and _of_literals(right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _of_literals(operand)
        case ast.Compare(left=left, comparators=others):
            return _of_literals(left) and all(map(_of_literals, others))
        case _:
            return isinstance(node, ast.Constant) and type(node.value) is int


def compiled(body: str, name: str) -> CodeType:
    """A role's body as Python; `_Int` stands for `Int` in it."""
    tree = _Literals().visit(ast.parse(textwrap.dedent(re.sub(r"\bcp\.async\(", "cp.async_(", body))))
    return compile(ast.fix_missing_locations(tree), name, "exec")
