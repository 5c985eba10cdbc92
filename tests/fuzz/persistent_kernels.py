"""Random persistent GEMMs, in which each role says the same walk over tiles and blocks of K in words of its own.

`kind` says by what the blocks of K of a tile are counted: a size, a sum of two sizes, a number in memory, or a bound that depends on the
tile. All roles count the same numbers, none of which wraps; a faulty kernel has one role that counts others.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
from fuzz.loop_words import WALKS, Body, Bound, Lines, indented, loops, rounded_up

Size = tuple[int, int, int]
TURNS: tuple[Size, ...] = ((2, 3, 3), (3, 2, 5), (1, 1, 0), (3, 1, 1))  # tiles along M and N, blocks of K
KINDS = ("size", "sum", "loaded", "causal")
Reach = Callable[["Program", Size, int], list[range]]  # the elements of each operand that a tile needs, by its number


@dataclass(frozen=True)
class Program:
    """`fault`: what one role does otherwise, or nothing. `depth`: of a block of K. `reach`: what is true of each tile."""

    source: str
    arch: str
    kind: str
    fault: str
    rows: int
    columns: int
    depth: int
    row_first: bool  # tiles of a column of D follow each other
    ragged: int
    reach: Reach

    def sizes(self, size: Size) -> Size:
        m, n, k = size
        return m * self.rows, n * self.columns, max(0, k * self.depth - self.ragged)

    def numbers(self, size: Size) -> np.ndarray:
        """What is in memory: mostly a few blocks, or elements of so many, and some that are too small or too large."""
        return np.random.default_rng((*size, 1)).integers(-1, 5, size[0] * size[1]).astype(np.int32)

    def arguments(self, size: Size) -> dict[str, object]:
        m, n, k = self.sizes(size)
        chance = np.random.default_rng(size)
        depths = {"1": k, "2": k + self.depth} if self.kind == "sum" else {"": k}
        made: dict[str, object] = {"d": np.full((m, n), -7, np.float32)}
        for which, depth in depths.items():
            made[f"a{which}"] = chance.integers(-2, 3, (m, depth)).astype(ml_dtypes.bfloat16)
            made[f"b{which}"] = chance.integers(-2, 3, (n, depth)).astype(ml_dtypes.bfloat16)
        if self.kind == "loaded":
            made["c"] = self.numbers(size)
        return made

    def place(self, size: Size, tile: int) -> tuple[int, int]:
        down, across, _ = size
        return (tile % down, tile // down) if self.row_first else (tile // across, tile % across)

    def expected(self, size: Size) -> dict[str, np.ndarray]:
        known = self.arguments(size)
        m, n, _ = self.sizes(size)
        d = np.zeros((m, n), np.float32)
        operands = [name.removeprefix("a") for name in known if name.startswith("a")]
        for tile in range(size[0] * size[1]):
            row, column = self.place(size, tile)
            rows = slice(row * self.rows, (row + 1) * self.rows)
            columns = slice(column * self.columns, (column + 1) * self.columns)
            for which, elements in zip(operands, self.reach(self, size, tile), strict=True):
                a, b = (np.asarray(known[f"{name}{which}"]).astype(np.float32) for name in "ab")
                part = slice(elements.start, max(elements.start, elements.stop))
                d[rows, columns] += a[rows, part] @ b[columns, part].T
        return {"d": d}


def draw(chance: random.Random, kind: str | None = None, *, right: bool | None = None) -> Program:
    """Of a kind, and right or faulty, where that is given."""
    drawn = kind or chance.choice(KINDS)
    faulty = chance.random() < 0.25 if right is None else not right
    return _Writer(chance, drawn, faulty).program()


# ---------------------------------------------------------------------------------------------------------- what memory says of a tile


@dataclass(frozen=True)
class Told:
    """`low`, `high`: what a number in memory is bounded by; a `-` where it is not. `unit`: what it counts. `differs`: it is the
    difference of two, or lies between them."""

    low: bool
    high: bool
    unit: str  # "blocks" or "elements"
    offsets: bool = False


TOLD = (
    Told(low=False, high=False, unit="blocks"),
    Told(low=True, high=False, unit="blocks"),
    Told(low=False, high=True, unit="blocks"),
    Told(low=True, high=True, unit="blocks"),
    Told(low=False, high=False, unit="elements"),
    Told(low=False, high=True, unit="elements"),
    Told(low=True, high=True, unit="elements"),
    Told(low=False, high=False, unit="blocks", offsets=True),
    Told(low=True, high=True, unit="blocks", offsets=True),
)
#: Which number of memory is a tile's: the same number in several words, and what it is.
PLACES: dict[str, tuple[tuple[str, ...], Callable[[int, int, int, int], int]]] = {
    "tile": (("t",), lambda t, down, across, count: t),
    "remainder": (("t % {by}", "t - t // {by} * {by}"), lambda t, down, across, by: t % by),
    "quotient": (("t // {by}",), lambda t, down, across, by: t // by),
}


def _bounded(told: Told, number: str, most: str, chance: random.Random) -> str:
    if told.high:
        number = chance.choice((f"min({number}, {most})", f"min({most}, {number})"))
    if told.low:
        number = chance.choice((f"max({number}, 0)", f"max(0, {number})"))
    return number


# ------------------------------------------------------------------------------------------------------------------------------ text


class _Writer:
    def __init__(self, chance: random.Random, kind: str, faulty: bool) -> None:
        self.chance, self.kind = chance, kind
        self.hopper = chance.random() < 0.5
        self.bm, self.bn, self.bk = 64 if self.hopper else 128, chance.choice((32, 64)), chance.choice((16, 32, 64))
        self.stages = [chance.choice((2, 3, 4)) for _ in range(3)]
        self.apart = chance.random() < 0.4  # A and B have rings of their own
        self.two_loads = self.apart and chance.random() < 0.4  # and these are filled by two roles
        self.row_first = kind != "causal" and chance.random() < 0.5
        self.blocks = chance.choice(("2", "3", "4", "min({T}, 132)", "min({T}, 132)", "ceildiv({T}, 2)"))
        self.told = chance.choice(TOLD)
        self.place = chance.choice(tuple(PLACES))
        self.divisor = chance.choice(("down", "across", "C"))
        self.causal = chance.choice(("rows", "rows and more", "elements", "ratio"))
        self.fault = ""
        if faulty:
            self.fault = chance.choice(
                (
                    "more",
                    "tile",
                    "start",
                    *{"sum": ("twice",), "loaded": ("place",) * 2, "causal": ("column", "row")}.get(kind, ()),
                )
            )
        self.wrong = ""  # the role that does otherwise
        self.names = 0

    # -------------------------------------------------------------------------------------------------------------------------- numbers

    def faulty(self, fault: str, role: str) -> bool:
        return self.fault == fault and self.wrong == role

    def down(self) -> str:
        return self.chance.choice((f"ceildiv(M, {self.bm})", "down", "down"))

    def across(self) -> str:
        return self.chance.choice((f"ceildiv(N, {self.bn})", "across", "across"))

    def total(self, role: str) -> str:
        down, across = self.down(), self.across()
        said = self.chance.choice((f"{down} * {across}", f"{across} * {down}", "tiles", "tiles"))
        return f"({said} + 1)" if self.faulty("tile", role) else f"({said})" if "*" in said else said

    def row_column(self) -> tuple[str, str]:
        down, across = self.down(), self.across()
        return (f"t % {down}", f"t // {down}") if self.row_first else (f"t // {across}", f"t % {across}")

    def divide(self) -> str:
        return {"down": self.down, "across": self.across, "C": lambda: "C"}[self.divisor]()

    def where(self, role: str) -> str:
        place = self.chance.choice(PLACES[self.place][0]).format(by=self.divide())
        return f"{place} + 1" if self.faulty("place", role) else place

    def bounds(self, role: str, *, together: bool) -> list[Bound]:
        """What a role takes of a tile, one after the other; of two operands also the sum, if it need not tell them apart."""
        made = {"size": self.by_size, "sum": self.by_sum, "loaded": self.by_memory, "causal": self.by_tile}[self.kind](
            role, together
        )
        if not self.faulty("more", role):
            return made
        return [*made[:-1], replace(made[-1], count=f"({made[-1].count} + 1)", last="", end="")]

    def by_size(self, role: str, together: bool) -> list[Bound]:
        return [Bound(self.blocks_of("K"), end="K")]

    def blocks_of(self, size: str, *, narrow: bool = True) -> str:
        return self.chance.choice(rounded_up(size, self.bk, narrow=narrow))

    def by_sum(self, role: str, together: bool) -> list[Bound]:
        second = "K1" if self.faulty("twice", role) else "K2"
        if together and self.chance.random() < 0.6:
            return [Bound(f"({self.blocks_of('K1')} + {self.blocks_of(second)})")]
        return [Bound(self.blocks_of(one), end=one) for one in ("K1", second)]

    def by_memory(self, role: str, together: bool) -> list[Bound]:
        told, where = self.told, self.where(role)
        most = self.blocks_of("K") if told.unit == "blocks" else "K"
        if not told.offsets:
            number = _bounded(told, f"load(c[{where}])", most, self.chance)
            if told.unit == "blocks":
                return [self.said(Bound(number, positive=told.low, narrow=told.high))]
            count = self.blocks_of(number, narrow=told.high)
            return [self.said(Bound(count, end=number if told.high else "", positive=told.low))]
        first, last = (_bounded(told, f"load(c[{place}])", most, self.chance) for place in (where, f"{where} + 1"))
        if not told.low:
            return [self.said(Bound(f"({last} - {first})", positive=False, narrow=False))]
        x = self.name()
        before = (f"lo{x} = {first}", f"hi{x} = {last}")
        return [Bound(f"(hi{x} - lo{x})", f"lo{x}", f"hi{x}", before=before, positive=False)]

    def said(self, bound: Bound) -> Bound:
        """At times the number is given a name first."""
        if self.chance.random() < 0.5:
            return bound
        x = self.name()
        if not bound.end:
            return replace(bound, count=f"c{x}", before=(f"c{x} = {bound.count}",))
        return replace(bound, count=bound.count.replace(bound.end, f"c{x}"), end=f"c{x}", before=(f"c{x} = {bound.end}",))

    def by_tile(self, role: str, together: bool) -> list[Bound]:
        row = f"t // {self.across()}"
        if self.faulty("column", role):
            row = f"t % {self.across()}"
        if self.faulty("row", role):
            row = f"({row} + 1)"
        ratio = self.bm // self.bk
        if self.causal == "elements":
            reached = self.chance.choice((f"({row} + 1) * {self.bm}", f"{row} * {self.bm} + {self.bm}"))
            end = self.chance.choice((f"min(K, {reached})", f"min({reached}, K)"))
            return [self.said(Bound(self.blocks_of(end), end=end))]
        more = {
            "rows": (f"{row} + 1", f"1 + {row}"),
            "rows and more": (f"{row} + 3",),
            "ratio": (f"{row} * {ratio} + {ratio}", f"({row} + 1) * {ratio}"),
        }[self.causal]
        reached, most = self.chance.choice(more), self.blocks_of("K")
        return [self.said(Bound(self.chance.choice((f"min({most}, {reached})", f"min({reached}, {most})"))))]

    def reach(self) -> Reach:
        """What all roles count, in whole numbers."""
        kind, told, place, divisor, causal, depth = self.kind, self.told, self.place, self.divisor, self.causal, self.bk

        def up(elements: int) -> int:
            return -(-elements // depth)

        def tell(program: Program, size: Size, where: int) -> int:
            numbers = program.numbers(size)
            number = int(numbers[where]) if 0 <= where < len(numbers) else 0
            k = program.sizes(size)[2]
            number = min(number, up(k) if told.unit == "blocks" else k) if told.high else number
            return max(number, 0) if told.low else number

        def needed(program: Program, size: Size, tile: int) -> list[range]:
            down, across, _ = size
            k = program.sizes(size)[2]
            if kind == "size":
                return [range(k)]
            if kind == "sum":
                return [range(k), range(k + depth)]
            if kind == "causal":
                row = tile // across
                ratio = program.rows // depth
                if causal == "elements":
                    return [range(depth * up(min(k, (row + 1) * program.rows)))]
                most = {"rows": row + 1, "rows and more": row + 3, "ratio": (row + 1) * ratio}[causal]
                return [range(depth * min(up(k), most))]
            by = {"down": down, "across": across, "C": len(program.numbers(size))}[divisor]
            where = PLACES[place][1](tile, down, across, by)
            first = tell(program, size, where)
            if not told.offsets:
                return [range(depth * first if told.unit == "blocks" else depth * up(first))]
            last = tell(program, size, where + 1)
            return [range(depth * first, depth * last) if told.low else range(depth * (last - first))]

        return needed

    # ---------------------------------------------------------------------------------------------------------------------------- roles

    def name(self) -> str:
        self.names += 1
        return str(self.names)

    def walk(self, role: str, body: Lines) -> Lines:
        first, walk = "block.x + 1" if self.faulty("start", role) else "block.x", WALKS[self.chance.choice(tuple(WALKS))]
        said = {"T": self.total(role), "first": f"({first})" if "+" in first else first}
        before, inside, behind = ([line.format(**said) for line in lines] for lines in (walk.before, walk.inside, walk.behind))
        return [*before, walk.head.format(**said), *indented([*inside, *body, *behind])]

    def taken(self, role: str, body: Callable[[str, str], Lines], *, together: bool) -> Lines:
        """The blocks of K of a tile; `body` gets the operand's number and the element at which a block begins."""
        lines: Lines = []
        for number, bound in enumerate(self.bounds(role, together=together), 1):
            which = str(number) if self.kind == "sum" else ""
            # Blocks that two roles load must come in the same order.
            loop = self.chance.choice(loops(bound, forwards=self.two_loads))
            lines += [*bound.before, *loop(bound, self.bk, self.name(), _with(body, which))]
        return lines

    def load(self, role: str, operands: str) -> Lines:
        row, column = self.row_column()
        start = {"a": f"{row} * {self.bm}", "b": f"{column} * {self.bn}"}

        def body(which: str, place: str) -> Lines:
            def load(one: str) -> str:
                return f"tma.load(s.{one}, {one}{which}[{start[one]}, {place}])"

            if self.apart:
                return [line for one in operands for line in (f"with ring_{one}.produce() as s:", f"    {load(one)}")]
            return ["with ring.produce() as s:", *indented([load(one) for one in operands])]

        return self.walk(role, self.taken(role, body, together=False))

    def products(self, role: str) -> Lines:
        def body(which: str, place: str) -> Lines:
            if self.apart:
                return ["with ring_a.consume() as sa, ring_b.consume() as sb:", "    mma(acc, sa.a, sb.b)"]
            return ["with ring.consume() as s:", "    mma(acc, s.a, s.b)"]

        return self.taken(role, body, together=True)

    def stored(self) -> str:
        row, column = self.row_column()
        return f"store(d[{row} * {self.bm}, {column} * {self.bn}], acc)"

    def roles(self) -> Iterator[tuple[str, Lines]]:
        rings = ["ring_a", "ring_b"] if self.apart else ["ring"]
        consumed = ", ".join(rings)
        loads = {"load_a": "a", "load_b": "b"} if self.two_loads else {"load": "ab"}
        names = [*loads, *(("compute",) if self.hopper else ("multiply", "epilogue"))]
        if self.fault:
            self.wrong = self.chance.choice(names[:-1] if self.fault not in ("tile", "start") and not self.hopper else names)
        for name, operands in loads.items():
            filled = f"ring_{operands}" if self.two_loads else consumed
            yield f"{name}(warps=1) produces {filled}", self.load(name, operands)
        if self.hopper:
            head = f"acc = accumulator(f32, {self.bm}, {self.bn})"
            yield f"compute(warps=4) consumes {consumed}", self.walk("compute", [head, *self.products("compute"), self.stored()])
            return
        tile = ["with output.produce() as acc:", *indented(self.products("multiply"))]
        yield f"multiply(warps=1) consumes {consumed} produces output", self.walk("multiply", tile)
        yield (
            "epilogue(warps=4) consumes output",
            self.walk("epilogue", ["with output.consume() as acc:", f"    {self.stored()}"]),
        )

    def head(self) -> Lines:
        tiles = {"a": f"a=tile[bf16, {self.bm}, {self.bk}]", "b": f"b=tile[bf16, {self.bn}, {self.bk}]"}
        lines = [f"down = ceildiv(M, {self.bm})", f"across = ceildiv(N, {self.bn})", "tiles = down * across"]
        lines.append(f"grid({self.blocks.format(T='tiles')})")
        if self.apart:
            lines += [
                f"ring_{one} = InputTilePipeline(TilePayload({tiles[one]}), stages={stages})"
                for one, stages in zip("ab", self.stages, strict=False)
            ]
        else:
            lines.append(f"ring = InputTilePipeline(StandardTilePayload({tiles['a']}, {tiles['b']}), stages={self.stages[0]})")
        if not self.hopper:
            lines.append(f"output = OutputTilePipeline(tmem[f32, {self.bm}, {self.bn}], stages={self.stages[2]})")
        return lines

    def program(self) -> Program:
        depths = {"1": "K1", "2": "K2"} if self.kind == "sum" else {"": "K"}
        tensors = [
            f"{one}{which}: tensor[bf16, {'M' if one == 'a' else 'N'}, {k}]" for which, k in depths.items() for one in "ab"
        ]
        tensors += ["c: tensor[i32, C]"] if self.kind == "loaded" else []
        text = [f"kernel k({', '.join(tensors)}, d: tensor[f32, M, N]):", *indented(self.head())]
        for words, body in self.roles():
            text += [f"    role {words}:", *indented(indented(body))]
        arch, ragged = "sm_90a" if self.hopper else "sm_100a", self.chance.choice((0, 0, 8))
        sizes = self.bm, self.bn, self.bk
        return Program("\n".join(text) + "\n", arch, self.kind, self.fault, *sizes, self.row_first, ragged, self.reach())


def _with(body: Callable[[str, str], Lines], which: str) -> Body:
    return lambda place: body(which, place)
