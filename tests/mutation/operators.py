"""One operator or constant of a Python file changed: every such change of pipec's own checks."""

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("checks", "kir/global_memory", "protocol", "verify")

_COMPARED = {ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
             ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.Is: ("is", "is not"),
             ast.IsNot: ("is not", "is")}  # fmt: skip
_ADDED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.BitAnd: ("&", "|"), ast.BitOr: ("|", "&"), ast.Mult: ("*", "+"),
          ast.FloorDiv: ("//", "*"), ast.Mod: ("%", "//")}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """`old` at character `at` of a file becomes `new`."""

    file: str
    line: int
    at: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.old}` becomes `{self.new}`"

    def text(self) -> str:
        source = (ROOT / self.file).read_text(encoding="utf-8")
        assert source[self.at : self.at + len(self.old)] == self.old
        return source[: self.at] + self.new + source[self.at + len(self.old) :]

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def changes() -> list[Change]:
    """Every change of one operator or constant, in the order of the files."""
    paths = sorted(path for folder in FOLDERS for path in (ROOT / "pipec" / folder).rglob("*.py"))
    return [change for path in paths for change in _of_file(path)]


def sample(count: int, seed: int) -> list[Change]:
    return random.Random(seed).sample(changes(), count)


def _of_file(path: Path) -> list[Change]:
    source = path.read_text(encoding="utf-8")
    starts = [0]
    for line in source.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    lines = source.split("\n")

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    found: list[Change] = []

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> None:
        begin, end = place(left.end_lineno or 0, left.end_col_offset or 0), place(right.lineno, right.col_offset)
        at = source.find(old, begin, end)
        if at >= 0:
            found.append(Change(str(path.relative_to(ROOT)), source.count("\n", 0, at) + 1, at, old, new))

    for node in _code(ast.parse(source)):
        match node:
            case ast.Compare(left, [operator], [right]) if type(operator) in _COMPARED:
                between(left, right, *_COMPARED[type(operator)])
            case ast.BoolOp(operator, values):
                words = ("and", "or") if isinstance(operator, ast.And) else ("or", "and")
                for left, right in pairwise(values):
                    between(left, right, *words)
            case ast.BinOp(left, operator, right) if type(operator) in _ADDED and not _textual(left, right):
                between(left, right, *_ADDED[type(operator)])
            case ast.Constant(value) if type(value) in (int, bool):
                at, old = place(node.lineno, node.col_offset), repr(value)
                if source.startswith(old, at):
                    new = repr(not value) if isinstance(value, bool) else repr(value + 1)
                    found.append(Change(str(path.relative_to(ROOT)), node.lineno, at, old, new))
            case ast.UnaryOp(ast.Not()):
                at = place(node.lineno, node.col_offset)
                found.append(Change(str(path.relative_to(ROOT)), node.lineno, at, "not ", ""))
    return sorted(found, key=lambda change: (change.at, change.new))


def _textual(*sides: ast.expr) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides
    )


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """What runs: neither annotations nor decorators nor the texts of messages; limits of effort (MOST...) say nothing of right
    and wrong."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(node, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _limit(child):
                continue
            yield child
            yield from _code(child)


def _limit(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id.strip("_").startswith("MOST") for target in node.targets
    )
