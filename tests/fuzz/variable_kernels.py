"""Random roles whose variables of several types go through branches, loops and `while`, beside the same steps in Python.

Every statement is written twice: for pipec, and for Python, where `i32_`, `u8_` and so on reduce a number to a type. A ring is consumed in
the middle, so that waits stand between the variables' values. At the end the role stores what each of its variables holds.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

TYPES = {"i32": (32, True), "u32": (32, False), "i64": (64, True), "u8": (8, False), "i16": (16, True)}
ROWS, COLUMNS, MOST = 8, 32, 1000.0  # of a tile, and the largest element of one
SIZES = ({"n": 3, "m": 2, "big": 2**31 - 1}, {"n": 0, "m": 1, "big": 3 - 2**31}, {"n": 4, "m": 0, "big": -7})
_HEAD = """kernel k(x: tensor[f32, 64, 32], t: tensor[i32, 16], y: tensor[i32, 64, 8], z: tensor[f32, 512, 32], n: i32, m: i32, big: i32):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages={stages})
    role fill(warps=1) produces ring:
        for i in range(n):
            with ring.produce() as s:
                tma.load(s.x, x[i * 8, 0])
    role compute(warps={warps}) consumes ring:
"""

Twice = tuple[str, str]  # for pipec, for Python


def reduced(value: int, dtype: str) -> int:
    bits, signed = TYPES[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


REDUCING: Mapping[str, Callable[[int], int]] = {
    f"{dtype}_": lambda value, dtype=dtype: reduced(int(value), dtype)  # type: ignore[misc]
    for dtype in TYPES
}


@dataclass(frozen=True)
class Program:
    source: str
    steps: str

    def expected(self, arguments: Mapping[str, object]) -> dict[str, np.ndarray]:
        """What the role stores, by tensor."""
        stores = {"y": np.zeros((64, 8), np.int64), "z": np.zeros((512, COLUMNS))}
        exec(self.steps, {"np": np, **REDUCING, **arguments, **stores})  # noqa: S102 - the text is our own
        return stores


def arguments(seed: int, sizes: Mapping[str, int]) -> dict[str, object]:
    chance = np.random.default_rng(seed)
    table = chance.integers(-(2**31), 2**31, 16).astype(np.int32)
    table[:6] %= 9
    x = chance.integers(-8, 8, (64, COLUMNS)).astype(np.float32)
    return {"x": x, "t": table, "y": np.zeros((64, 8), np.int32), "z": np.zeros((512, COLUMNS), np.float32), **sizes}


def draw(chance: random.Random) -> Program:
    writer = _Writer(chance)
    for _ in range(chance.randint(1, 3)):
        writer.declare(chance.choice(("i32", "i32", "u32", "i64")), 1)
    for start in range(chance.randint(1, 3)):
        name = writer.name("tile", "r")
        writer.line(f"{name} = registers(fill({start}.0, f32, 8, 32))", f"{name} = np.full((8, 32), {start}.0)")
    writer.statements(chance.randint(1, 4), 2)
    writer.consume()
    writer.statements(chance.randint(1, 4), 2)
    writer.stores()
    head = _HEAD.format(stages=chance.choice((1, 2, 3)), warps=chance.choice((1, 1, 2, 4)))
    return Program(head + "\n".join(writer.lines) + "\n", "\n".join(writer.steps) + "\n")


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.steps: list[str] = []
        self._scopes: list[dict[str, str]] = [{}]  # by name the type; of a tile "tile"
        self._kept: set[str] = set()  # which only their loop changes
        self._names = 0

    def line(self, text: str, step: str | None = None) -> None:
        depth = len(self._scopes) - 1
        self.lines.append("    " * (depth + 2) + text)
        self.steps.append("    " * depth + (text if step is None else step))

    def name(self, dtype: str, letter: str) -> str:
        self._names += 1
        self._scopes[-1][f"{letter}{self._names}"] = dtype
        return f"{letter}{self._names}"

    def _of(self, dtype: str) -> list[str]:
        return [name for scope in self._scopes for name, one in scope.items() if one == dtype]

    def _free(self, dtype: str) -> list[str]:
        return [name for name in self._of(dtype) if name not in self._kept]

    # ---------------------------------------------------------------------------------------------------- expressions

    def _number(self, dtype: str) -> str:
        bits, signed = TYPES[dtype]
        largest = (1 << (bits - signed)) - 1
        power = 1 << self.chance.randrange(bits - 1)
        return str(self.chance.choice((self.chance.randint(0, 9), self.chance.randint(0, largest), largest, largest - 1, power)))

    def _leaf(self, dtype: str) -> Twice:
        own = self._of(dtype)
        if own and self.chance.random() < 0.75:
            name = self.chance.choice(own)
            return name, name
        if dtype == "i32" and self.chance.random() < 0.5:
            name = self.chance.choice(("n", "m", "big"))
            return name, name
        name = self.chance.choice([name for one in TYPES if one != dtype for name in self._of(one)] or ["n"])
        return f"cast[{dtype}]({name})", f"{dtype}_({name})"

    def expression(self, dtype: str, depth: int) -> Twice:
        if depth == 0 or self.chance.random() < 0.15:
            return self._leaf(dtype)
        left, step = self.expression(dtype, depth - 1)
        right, other = self.expression(dtype, depth - 1)
        bits, signed = TYPES[dtype]
        match self.chance.randrange(10):
            case 0 | 1 | 2:
                sign = self.chance.choice("+-*&|^")
                if self.chance.random() < 0.4:
                    right = other = self._number(dtype)
                return f"({left} {sign} {right})", f"{dtype}_({step} {sign} {other})"
            case 3:
                sign, by = (
                    self.chance.choice(("//", "%")),
                    self.chance.choice((1, 2, 3, 7, 8, 100, *((-3, -4) if signed else ()))),
                )
                return f"({left} {sign} ({by}))", f"{dtype}_({step} {sign} ({by}))"
            case 4:
                sign = self.chance.choice(("//", "%"))
                return f"({left} {sign} (({right} & 7) + 1))", f"{dtype}_({step} {sign} (({other} & 7) + 1))"
            case 5:
                sign, by = self.chance.choice(("<<", ">>")), self.chance.randrange(1, min(8, bits))
                return f"({left} {sign} {by})", f"{dtype}_({step} {sign} {by})"
            case 6:
                condition, held = self.condition(depth - 1)
                return f"({left} if {condition} else {right})", f"({step} if {held} else {other})"
            case 7:
                which = self.chance.choice(("min", "max"))
                return f"{which}({left}, {right})", f"{which}({step}, {other})"
            case 8 if dtype == "i32":
                return f"load(t[{left} & 15])", f"int(t[{step} & 15])"
            case _:
                source = self.chance.choice([one for one in TYPES if one != dtype])
                value, step = self.expression(source, depth - 1)
                return f"cast[{dtype}]({value})", f"{dtype}_({step})"

    def condition(self, depth: int) -> Twice:
        kind = self.chance.random() if depth > 0 else 1.0
        if kind < 0.3:
            (one, first), (other, second) = self.condition(depth - 1), self.condition(depth - 1)
            word = self.chance.choice(("and", "or"))
            return f"({one} {word} {other})", f"({first} {word} {second})"
        if kind < 0.45:
            one, first = self.condition(depth - 1)
            return f"(not {one})", f"(not {first})"
        flags = self._of("bool")
        if flags and kind < 0.6:
            name = self.chance.choice(flags)
            return name, name
        dtype = self.chance.choice([*TYPES])
        left, step = self.expression(dtype, max(depth - 1, 0))
        right = self._number(dtype)
        sign = self.chance.choice(("<", "<=", ">", ">=", "==", "!="))
        return f"({left} {sign} {right})", f"({step} {sign} {right})"

    # ----------------------------------------------------------------------------------------------------- statements

    def declare(self, dtype: str, depth: int) -> None:
        value, step = self.condition(depth) if dtype == "bool" else self.expression(dtype, depth)
        name = self.name(dtype, "v")
        self.line(f"{name} = {value}", f"{name} = {step}")

    def statements(self, count: int, depth: int) -> None:
        for _ in range(count):
            self._statement(depth)

    def _statement(self, depth: int) -> None:
        kind = self.chance.randrange(16)
        if kind < 4:
            self.declare(self.chance.choice(("i32", "i32", *TYPES, "bool")), self.chance.randint(1, 3))
        elif kind < 8:
            self._assign(self.chance.choice(("i32", *TYPES)))
        elif kind < 9:
            self._change_tile()
        elif kind < 10:
            self._swap()
        elif depth and kind < 13:
            self._branch(depth)
        elif depth and kind < 15:
            self._loop(depth)
        elif depth:
            self._while(depth)

    def _assign(self, dtype: str) -> None:
        names = self._free(dtype)
        if not names:
            return
        name, (value, step) = self.chance.choice(names), self.expression(dtype, self.chance.randint(1, 3))
        if self.chance.random() < 0.3:
            self.line(f"{name} += {value}", f"{name} = {dtype}_({name} + {step})")
        else:
            self.line(f"{name} = {value}", f"{name} = {step}")

    def _change_tile(self) -> None:
        tiles = self._of("tile")
        name, other = self.chance.choice(tiles), self.chance.choice(tiles)
        value, step = self.expression("i32", 1)
        if self.chance.random() < 0.5:
            self.line(f"{name} = min({name} * 2.0 - cast[f32]({value} & 15), {MOST})",
                      f"{name} = np.minimum({name} * 2.0 - float({step} & 15), {MOST})")  # fmt: skip
            self.line(f"{name} = max({name}, -{MOST})", f"{name} = np.maximum({name}, -{MOST})")
        else:
            self.line(f"{name} = min({name}, {other} + 3.0)", f"{name} = np.minimum({name}, {other} + 3.0)")

    def _swap(self) -> None:
        names = self._free("i32")
        if len(names) > 1:
            one, other = self.chance.sample(names, 2)
            kept = self.name("i32", "v")
            for text in (f"{kept} = {one}", f"{one} = {other}", f"{other} = {kept}"):
                self.line(text)

    def _inside(self, count: int, depth: int, counter: str | None = None) -> None:
        self._scopes.append({counter: "i32"} if counter else {})
        self.line("pass")
        self.statements(count, depth - 1)
        self._scopes.pop()

    def _branch(self, depth: int) -> None:
        words = ("if", *(("elif",) if self.chance.random() < 0.3 else ()))
        for word in words:
            condition, step = self.condition(2)
            self.line(f"{word} {condition}:", f"{word} {step}:")
            self._inside(self.chance.randint(1, 3), depth)
        if self.chance.random() < 0.5:
            self.line("else:")
            self._inside(self.chance.randint(1, 3), depth)

    def _counter(self) -> str:
        self._names += 1
        self._kept.add(f"j{self._names}")
        return f"j{self._names}"

    def _loop(self, depth: int) -> None:
        counter, step = self._counter(), self.chance.choice((1, 1, 1, 2, 3, -1))
        start = self.chance.choice(("0", "1", "n - 2"))
        stop = self.chance.choice(("3", "n", "m", "(n + m)") if step > 0 else ("-3", "-m", "0"))
        self.line(f"for {counter} in range({start}, {stop}, {step}):")
        self._inside(self.chance.randint(1, 4), depth, counter)

    def _while(self, depth: int) -> None:
        counter = self.name("i32", "j")
        self._kept.add(counter)
        self.line(f"{counter} = {self.chance.choice((0, 1))}")
        bound = self.chance.choice(("3", "n", "m + 1"))
        condition, step = self.condition(1) if self.chance.random() < 0.5 else ("True", "True")
        self.line(f"while {counter} < {bound} and {condition}:", f"while {counter} < {bound} and {step}:")
        self._scopes.append({})
        self.line(f"{counter} += 1")
        self._scopes.pop()
        self._inside(self.chance.randint(1, 3), depth)

    def consume(self) -> None:
        """A stage of the ring in each turn of a loop, between other statements."""
        self.line("for i0 in range(n):")
        self._kept.add("i0")
        self._scopes.append({"i0": "i32"})
        self.statements(self.chance.randint(0, 3), 1)
        self.line("with ring.consume() as s:", "if True:")
        self._scopes.append({})
        name = self.chance.choice(self._of("tile"))
        self.line(f"{name} = min({name} + s.x, {MOST})", f"{name} = np.minimum({name} + x[i0 * 8 : i0 * 8 + 8], {MOST})")
        self.statements(self.chance.randint(1, 3), 1)
        self._scopes.pop()
        self.statements(self.chance.randint(0, 3), 1)
        self._scopes.pop()

    def stores(self) -> None:
        for row, (name, dtype) in enumerate(self._scopes[0].items()):
            match dtype:
                case "tile":
                    self.line(f"store(z[{row * ROWS}, 0], {name})", f"z[{row * ROWS} : {(row + 1) * ROWS}] = {name}")
                case "bool":
                    self.line(f"store.direct(y[{row}, 0], fill(1 if {name} else 0, i32, 1, 8))", f"y[{row}] = int({name})")
                case _:
                    self.line(f"store.direct(y[{row}, 0], fill(cast[i32]({name}), i32, 1, 8))", f"y[{row}] = i32_({name})")
