"""Machine code of plain functions: Python over integers and bytes of memory, which are read and written as `i64[address]`.

Such a function also runs as plain Python, which tests do; both give the same results as long as numbers fit 64 bits. It consists of
assignments, `if`, `while`, `for NAME in range(...)`, `return`, integer arithmetic and comparisons, constants of its module or of an
imported one, and calls of other such functions.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import textwrap
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pipec import cache

from .library import named

Plain = Callable[..., int]


class _Memory:
    """The host's memory as numbers of one type."""

    def __init__(self, kind: Any, bits: int, signed: bool) -> None:
        self.kind, self.bits, self.signed = kind, bits, signed

    def __getitem__(self, address: int) -> int:
        return int(self.kind.from_address(address).value)

    def __setitem__(self, address: int, value: int) -> None:
        self.kind.from_address(address).value = value


u8 = _Memory(ctypes.c_uint8, 8, False)
u16 = _Memory(ctypes.c_uint16, 16, False)
i32 = _Memory(ctypes.c_int32, 32, True)
i64 = _Memory(ctypes.c_int64, 64, True)

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
_RELATIONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.LtE: "sle",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}


class _Writer:
    """Writes one function as LLVM IR; variables live in memory, from where LLVM promotes them to registers."""

    def __init__(self, function: FunctionType, called: list[FunctionType]) -> None:
        self.globals, self.called = function.__globals__, called
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
        assert isinstance(tree, ast.FunctionDef)
        self.tree, self.lines, self.variables, self.count = tree, list[str](), set[str](), 0
        self.loops: list[tuple[str, str]] = []  # targets of `continue` and `break`

    def text(self, name: str, linkage: str) -> str:
        parameters = [one.arg for one in self.tree.args.args]
        for one in parameters:
            self.store(one, f"%in.{one}")
        self.block(self.tree.body)
        self.lines.append("  ret i64 0")
        variables = [f"  %{one} = alloca i64" for one in sorted(self.variables)]
        given = ", ".join(f"i64 %in.{one}" for one in parameters)
        return "\n".join([f"define {linkage} i64 @{name}({given}) {{", *variables, *self.lines, "}", ""])

    def emit(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def label(self) -> str:
        self.count += 1
        return f"l{self.count}"

    def start(self, label: str) -> None:
        self.lines += [f"  br label %{label}", f"{label}:"]

    def leave(self, text: str) -> None:
        """Ends the block; anything that follows in it is unreachable."""
        self.lines += [f"  {text}", f"{self.label()}:"]

    def store(self, name: str, value: str) -> None:
        self.variables.add(name)
        self.lines.append(f"  store i64 {value}, ptr %{name}")

    # ---- statements

    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.value(value)
            case ast.Return(value=ast.expr() as value):
                self.leave(f"ret i64 {self.value(value)}")
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, found in zip(targets, [self.value(one) for one in values], strict=True):
                    self.assign(target, found)
            case ast.Assign(targets=[target], value=value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target=target, op=op, value=value):
                self.assign(target, self.value(ast.BinOp(target, op, value)))
            case ast.If(test=test, body=body, orelse=orelse):
                self.branch(test, body, orelse)
            case ast.While(test=test, body=body):
                self.loop(test, body, [])
            case ast.For(target=ast.Name(id=name) as variable, iter=ast.Call(args=limits), body=body):
                first = limits[0] if len(limits) > 1 else ast.Constant(0)
                self.store(name, self.value(first))
                test = ast.Compare(variable, [ast.Lt()], [limits[-1] if len(limits) == 1 else limits[1]])
                step = limits[2] if len(limits) > 2 else ast.Constant(1)
                self.loop(test, body, [ast.AugAssign(variable, ast.Add(), step)])
            case ast.Break():
                self.leave(f"br label %{self.loops[-1][1]}")
            case ast.Continue():
                self.leave(f"br label %{self.loops[-1][0]}")
            case _:
                raise TypeError(f"{self.tree.name}: {ast.unparse(node)}")

    def assign(self, target: ast.expr, value: str) -> None:
        if isinstance(target, ast.Name):
            self.store(target.id, value)
            return
        memory, place = self.place(target)
        if memory.bits < 64:
            value = self.emit(f"trunc i64 {value} to i{memory.bits}")
        self.lines.append(f"  store i{memory.bits} {value}, ptr {place}, align {memory.bits // 8}")

    def branch(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        yes, no, after = self.label(), self.label(), self.label()
        self.lines += [f"  br i1 {self.condition(test)}, label %{yes}, label %{no}", f"{yes}:"]
        self.block(body)
        self.lines += [f"  br label %{after}", f"{no}:"]
        self.block(orelse)
        self.start(after)

    def loop(self, test: ast.expr, body: list[ast.stmt], step: list[ast.stmt]) -> None:
        head, inside, following, after = self.label(), self.label(), self.label(), self.label()
        self.start(head)
        self.lines += [f"  br i1 {self.condition(test)}, label %{inside}, label %{after}", f"{inside}:"]
        self.loops.append((following, after))
        self.block(body)
        self.loops.pop()
        self.start(following)
        self.block(step)
        self.lines += [f"  br label %{head}", f"{after}:"]

    # ---- expressions

    def place(self, node: ast.expr) -> tuple[_Memory, str]:
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if isinstance(self.globals.get(name), _Memory):
                return self.globals[name], self.emit(f"inttoptr i64 {self.value(index)} to ptr")
        raise TypeError(f"{self.tree.name}: {ast.unparse(node)}")

    def value(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=int() as number):
                return str(int(number))
            case ast.Name(id=name) if name in self.variables:
                return self.emit(f"load i64, ptr %{name}")
            case ast.Name(id=name) if isinstance(self.globals.get(name), int):
                return str(int(self.globals[name]))
            case ast.Attribute(value=ast.Name(id=module), attr=name) if isinstance(self.globals.get(module), ModuleType):
                return str(int(getattr(self.globals[module], name)))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.emit(f"sub i64 0, {self.value(operand)}")
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return self.emit(f"xor i64 -1, {self.value(operand)}")
            case ast.BinOp(left=left, op=op, right=right):
                first = self.value(left)
                return self.emit(f"{_OPERATORS[type(op)]} i64 {first}, {self.value(right)}")
            case ast.Subscript():
                memory, place = self.place(node)
                found = self.emit(f"load i{memory.bits}, ptr {place}, align {memory.bits // 8}")
                widen = "sext" if memory.signed else "zext"
                return found if memory.bits == 64 else self.emit(f"{widen} i{memory.bits} {found} to i64")
            case ast.Call(func=ast.Name(id="min" | "max" as name), args=[left, right]):
                given = f"i64 {self.value(left)}, i64 {self.value(right)}"
                return self.emit(f"call i64 @llvm.s{name}.i64({given})")
            case ast.Call(func=ast.Name(id=name), args=arguments):
                function = self.globals[name]
                if function not in self.called:
                    self.called.append(function)
                given = ", ".join(f"i64 {one}" for one in [self.value(one) for one in arguments])
                return self.emit(f"call i64 @{name}({given})")
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return self.emit(f"zext i1 {self.condition(node)} to i64")
        raise TypeError(f"{self.tree.name}: {ast.unparse(node)}")

    def condition(self, node: ast.expr) -> str:
        match node:
            case ast.Compare(left=left, ops=[relation], comparators=[right]):
                first = self.value(left)
                return self.emit(f"icmp {_RELATIONS[type(relation)]} i64 {first}, {self.value(right)}")
            case ast.BoolOp(op=op, values=values):
                return self.one_after_the_other(isinstance(op, ast.And), values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self.emit(f"xor i1 true, {self.condition(operand)}")
        return self.emit(f"icmp ne i64 {self.value(node)}, 0")

    def one_after_the_other(self, all_of: bool, values: list[ast.expr]) -> str:
        """`and` or `or`, with short-circuit evaluation."""
        result, end = self.label(), self.label()
        for number, one in enumerate(values):
            found = self.condition(one)
            self.store(result, self.emit(f"zext i1 {found} to i64"))
            if number + 1 < len(values):
                following = self.label()
                yes, no = (following, end) if all_of else (end, following)
                self.lines += [f"  br i1 {found}, label %{yes}, label %{no}", f"{following}:"]
        self.start(end)
        return self.emit(f"icmp ne i64 {self.emit(f'load i64, ptr %{result}')}, 0")


def text_of(function: Plain, name: str) -> str:
    """LLVM IR of a plain function under another name, and of the functions that it calls."""
    called = [function]
    parts = [f"declare i64 @llvm.s{name}.i64(i64, i64)" for name in ("min", "max")]
    for one in called:  # grows during the iteration
        assert isinstance(one, FunctionType)
        writer = _Writer(one, called)  # type: ignore[arg-type]
        parts.append(writer.text(name if one is function else one.__name__, "" if one is function else "internal"))
    return "\n".join(parts)


@functools.cache
def _sources() -> str:
    """A key for this folder's functions: all its source files. Parsing a function takes as long as a short launch."""
    with suppress(OSError):
        return cache.key_of(*(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))
    return ""


@functools.cache
def machine_code(function: Plain) -> str:
    """The name under which other machine code finds a plain function. A compiler must be available."""
    here = Path(function.__code__.co_filename).parent == Path(__file__).parent and _sources()
    source = f"{function.__module__}.{function.__qualname__} of {here}" if here else ""
    return named(lambda name: text_of(function, name), optimised=True, source=source)
