"""Random kernels that store tiles at indices of blocks and loops, and the elements that each block stores, counted one by one.

A template has holes; one alternative of each is right, the others are mistakes that authors make: the other axis, the other tile size, a
forgotten factor, an index that is off by one. Whether a filled template is right is not known, but counted.
"""

import ast
import itertools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType
from typing import Any

Values = Mapping[str, int]
Element = tuple[int, ...]


@dataclass(frozen=True)
class Template:
    """`grid`: the numbers of blocks. `loops`: loops and conditions, one in the other. `lets`: assignments in the innermost; with a
    `while` the first comes before it, the second last in it. Holes are `{a|b|c}`, with what is right first."""

    name: str
    grid: tuple[str, ...]
    loops: tuple[str, ...]
    corner: tuple[str, ...]
    cluster: tuple[int, int] = (1, 1)
    lets: tuple[str, ...] = ()


TEMPLATES = (
    Template(
        "plain",
        ("{ceildiv(R, 8)|ceildiv(R, 4)|n}", "ceildiv(C, 64)"),
        (),
        ("{block.x|block.y} * {8|4|64}", "{block.y|block.x} * {64|32|8}"),
    ),
    Template("shifted", ("n", "{2|m}"), (), ("block.x * {16|8} + block.y * {8|4|16}", "{0|block.y * 64}")),
    Template(
        "dealt",
        ("{min(n * m, 3)|3|n}",),
        ("for t in range(block.x, {n * m|n * m + 1|n}, {3|2|1|4})",),
        ("t {//|%} {n|m} * 8", "t {%|//} {n|m} * {64|32}"),
    ),
    Template(
        "counted",
        ("{n|n + 1|m|2}",),
        ("for i in range({m|n + m|2})",),
        (
            "{(block.x + i * grid.x)|(block.x + i * n)|(block.x + i)|(block.x * grid.x + i)|(block.x * m + i)} * {8|4}",
            "{0|i * 64}",
        ),
    ),
    Template(
        "walked",
        ("n",),
        ("for i in range({ceildiv(m * n - block.x, grid.x)|m|ceildiv(m * n, grid.x)})",),
        ("({t|t + 1} {//|%} {m|n}) * 8", "t {%|//} {m|n} * 64"),
        lets=("t = block.x + i * {grid.x|n|m|1}",),
    ),
    Template(
        "runs",
        ("{n|3}",),
        ("for t in range(block.x * {ceildiv(n * m, grid.x)|m|n}, {min(n * m, (block.x + 1) * ceildiv(n * m, grid.x))|n * m})",),
        ("t {//|%} {m|n} * {8|4}", "t {%|//} {m|n} * 64"),
    ),
    Template(
        "digits",
        ("{6 * n|n|12}",),
        (),
        ("block.x // {6|3|2} * {16|8} + block.x % {2|3|6} * {8|4}", "block.x // 2 % {3|2} * {64|32}"),
    ),
    Template(
        "decoded",
        ("{n * R * 2|n * C}",),
        (),
        ("block.x // 2 % {R|C|3} * {8|4}", "(block.x // {(2 * R)|(R * 3)|(2 * C)|(R * C)} * {2|1} + block.x % {2|3}) * 64"),
    ),
    Template(
        "tiles_of_a_batch",
        ("{3 * ceildiv(R, 8) * ceildiv(C, 64)|n * C|3 * n * ceildiv(C, 64)}",),
        (),
        (
            "(block.x // (down * across) * {down|across} + block.x % (down * {across|2}) // {across|down|2}) * {8|4}",
            "block.x % {across|down} * 64",
        ),
        lets=("down = ceildiv({R, 8|C, 64})", "across = ceildiv({C, 64|R, 8})"),
    ),
    Template(
        "strips",
        ("{min(ceildiv(R, 8) * ceildiv(C, 64), 4)|4}",),
        ("for t in range(block.x, ceildiv(R, 8) * ceildiv(C, 64), {4|3})",),
        (
            "(first + {t % (2 * ceildiv(C, 64))|t % (2 * m)|t} % {width|2}) * 8",
            "t % (2 * ceildiv(C, 64)) // {width|2|n} * {64|32}",
        ),
        lets=("first = t // (2 * ceildiv({C, 64|R, 8})) * {2|1}", "width = min(ceildiv({R, 8|C, 64}) - first, 2)"),
    ),
    Template(
        "pair",
        ("{2 * n|2 * m}", "m"),
        (),
        ("{block.x|cluster.x|cluster.x * 2} * {8|4} {+ 0|+ cta.x * 8}", "{block.y|cta.x} * 64"),
        cluster=(2, 1),
    ),
    Template(
        "one_of_the_pair",
        ("{2 * n|2}",),
        ("for own in range({2|3})", "if cta.x == {own|0|own // 2}"),
        ("{cluster.x|block.x} * {16|8} + own * {8|4}", "0"),
        cluster=(2, 1),
    ),
    Template(
        "one_block",
        ("n",),
        ("if block.x {==|<|!=} {0|1|m}",),
        ("{0|block.x * 8}", "0"),
    ),
    Template(
        "two_loops",
        ("n",),
        ("for i in range({2|m})", "for j in range({3|m})"),
        ("(block.x * {6|5|2 * m} + i * {3|2|m} + j) * 8", "{0|j * 64}"),
    ),
    Template(
        "back",
        ("{n|m}",),
        ("for t in range({0|1|block.x}, {m|n})",),
        ("(n * m - 1 - (block.x + t * {n|m})) * 8", "{0|t * 64}"),
    ),
    Template(
        "rotated",
        ("{n|n + 1|m}",),
        (),
        ("(block.x {+ n|+ 1|+ m|+ block.x}) % {n|m|(n + 1)|5} * {8|4}", "0"),
    ),
    Template(
        "rotated_tiles",
        ("3",),
        ("for t in range(block.x, {n * m|n|m}, {3|2})",),
        ("(t {+ n * m|+ m|+ 1|+ 3}) % {(n * m)|n|(n * m + 1)} * {8|4}", "0"),
    ),
    Template(
        "while",
        ("n",),
        ("while t < {n * m|m}",),
        ("t // {m|n} * 8", "t % {m|n} * 64"),
        lets=("t = block.x", "t = t + {grid.x|n|1|m}"),
    ),
)


@dataclass(frozen=True)
class Filled:
    template: Template
    grid: tuple[str, ...]
    loops: tuple[str, ...]
    corner: tuple[str, ...]
    lets: tuple[str, ...]

    @property
    def text(self) -> str:
        cluster = f"    cluster{self.template.cluster}\n" if self.template.cluster != (1, 1) else ""
        lines, depth = [], 2
        lets = list(self.lets)
        step = lets.pop() if any(one.startswith("while") for one in self.loops) else None
        if step is not None:
            lines.append("        " + lets.pop(0))
        for one in self.loops:
            lines.append("    " * depth + one + ":")
            depth += 1
        lines += ["    " * depth + one for one in lets]
        lines.append("    " * depth + f"store(y[{', '.join(self.corner)}], load(x[0, 0], 8, 64))")
        if step is not None:
            lines.append("    " * depth + step)
        body = "\n".join(lines)
        return (
            f"kernel k(x: tensor[f32, 8, 64], y: tensor[f32, R, C], n: i32, m: i32):\n    grid({', '.join(self.grid)})\n{cluster}"
            f"    role work(warps=4):\n{body}\n"
        )

    def uses(self, sizes: Values) -> Iterator[tuple[Element, Element]]:
        """Each element of `y` that a block stores: the block and the iteration, the element."""
        for who, ranges in self.tiles(sizes):
            yield from ((who, element) for element in itertools.product(*ranges))

    def tiles(self, sizes: Values) -> Iterator[tuple[Element, tuple[range, ...]]]:
        """What a block stores in an iteration: rows and columns that lie in `y`."""
        for who, first in self.corners(sizes):
            ranges = (range(max(0, a), min(a + n, sizes[size])) for a, n, size in zip(first, (8, 64), "RC", strict=True))
            yield who, tuple(ranges)

    def corners(self, sizes: Values) -> Iterator[tuple[Element, Element]]:
        """Where the tile begins that a block stores in an iteration."""
        known: dict[str, object] = dict(sizes)
        grid = [_value(one, known) for one in self.grid]
        if any(extent <= 0 for extent in grid) or grid[0] % self.template.cluster[0]:
            return
        for block in itertools.product(*map(range, grid)):
            here = dict(known)
            for axis, at, extent, width in zip("xy", (*block, 0), (*grid, 1), self.template.cluster, strict=False):
                here |= {f"block_{axis}": at, f"grid_{axis}": extent, f"cta_{axis}": at % width, f"cluster_{axis}": at // width}
                here[f"clusters_{axis}"] = extent // width
            for turn, names in enumerate(self._turns(here)):
                yield (*block, turn), tuple(_value(one, names) for one in self.corner)

    def _turns(self, names: dict[str, object]) -> Iterator[dict[str, object]]:
        if self.loops and self.loops[0].startswith("while"):
            name, _, start = self.lets[0].partition(" = ")
            names[name] = _value(start, names)
            for _ in range(200):
                if not _value(self.loops[0].removeprefix("while "), names):
                    return
                yield names
                names[name] = _value(self.lets[1].partition(" = ")[2], names)
            return
        yield from self._inside(list(self.loops), names)

    def _inside(self, loops: list[str], names: dict[str, object]) -> Iterator[dict[str, object]]:
        if not loops:
            for one in self.lets:
                name, _, value = one.partition(" = ")
                names[name] = _value(value, names)
            yield names
        elif loops[0].startswith("if"):
            if _value(loops[0].removeprefix("if "), names):
                yield from self._inside(loops[1:], names)
        else:
            name, _, bounds = loops[0].removeprefix("for ").partition(" in ")
            for value in _value(bounds, names):
                names[name] = value
                yield from self._inside(loops[1:], names)


SIZES = [
    {"n": n, "m": m, "R": rows, "C": columns}
    for n, m in itertools.product((1, 2, 3, 5), (1, 2, 3, 4))
    for rows, columns in ((8 * n, 64 * m), (200, 700), (21, 130))
]


_FUNCTIONS = {
    "range": range,
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: -(-a // (b or 1)),
    "FloorDiv": lambda a, b: a // (b or 1),  # a divisor 0 counts as 1
    "Mod": lambda a, b: a % (b or 1),
}


class _Divisions(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        name = type(node.op).__name__
        return ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], []) if name in _FUNCTIONS else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        assert isinstance(node.value, ast.Name)
        return ast.Name(f"{node.value.id}_{node.attr}", ast.Load())


@cache
def _code(text: str) -> CodeType:
    return compile(ast.fix_missing_locations(_Divisions().visit(ast.parse(text, mode="eval"))), text, "eval")


def _value(text: str, names: Mapping[str, object]) -> Any:
    return eval(_code(text), _FUNCTIONS, names)


def filled(template: Template, random: random.Random, right: float) -> Filled:
    """Each hole gets what is right with this probability."""

    def fill(text: str) -> str:
        while "{" in text:
            before, _, rest = text.partition("{")
            hole, _, behind = rest.partition("}")
            ways = hole.split("|")
            text = before + (ways[0] if random.random() < right else random.choice(ways)) + behind
        return text

    parts = (template.grid, template.loops, template.corner, template.lets)
    return Filled(template, *(tuple(map(fill, part)) for part in parts))


def collision(kernel: Filled, sizes: Values, *, in_blocks: bool) -> tuple[Element, Element, Element] | None:
    """Two blocks that store the same element, or two iterations of one: both, and the element."""
    seen: dict[Element, Element] = {}
    for who, element in kernel.uses(sizes):
        other = seen.setdefault((*element, *(() if in_blocks else who[:-1])), who)
        if other != who and (other[:-1] != who[:-1] or not in_blocks):
            return other, who, element
    return None
