"""Random kernels of which the host has much to compute: a grid and conditions of sizes and numbers, and what it passes on.

An expression is a text that Python reads as pipec does; here it is evaluated in whole numbers without an end. No comparison holds with a
product of two numbers given at launch that leaves its type.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NAMES = ("M", "N", "s")  # two sizes and a number
LARGEST = 2**31 - 1
SIZES = (0, 1, 2, 7, 8, 63, 64, 65, 1000, 65_535, 65_536, 2**20, 2**30, LARGEST - 8, LARGEST)
NUMBERS = (-(2**31), -65_536, -7, -1, 0, 1, 3, 64, 46_341, 2**30, LARGEST)
MULTIPROCESSORS = 148


@dataclass(frozen=True)
class Kernel:
    name: str
    grid: tuple[str, ...]
    conditions: tuple[str, ...]
    by_tma: bool
    early: bool
    warps: int

    def source(self) -> str:
        lines = [f"kernel {self.name}(x: tensor[bf16, M, N], s: i32, y: tensor[f32, 8, 64], scale: f32):"]
        lines += [f"    grid({', '.join(self.grid)})", *(f"    assume({condition})" for condition in self.conditions)]
        lines += ["    programmatic_launch(x)"] if self.early else []
        value = "fill(cast[f32](s) * scale, f32, 8, 64)"
        if not self.by_tma:
            read, sides = "load(x[0, 0], 8, 64)", ""
            body = [f'store.direct(y[0, 0], {value} + {read}, reduce="add")']
        else:
            lines += [
                "    p = InputTilePipeline(TilePayload(t=tile[bf16, 8, 64]), stages=1)",
                "    role load(warps=1) produces p:",
            ]
            lines += ["        with p.produce() as t:", "            tma.load(t.t, x[0, 0])"]
            sides, body = " consumes p", ["with p.consume() as t:", f'    store.direct(y[0, 0], {value} + t.t, reduce="add")']
        return "\n".join([*lines, f"    role all(warps={self.warps}){sides}:", *(f"        {line}" for line in body)]) + "\n"

    def expected(self, values: Mapping[str, int]) -> tuple[int, ...] | None:
        """The blocks of a launch with these; None if it is refused."""
        if not all(_evaluated(condition, values) for condition in self.conditions):
            return None
        extents = [_evaluated(extent, values) for extent in self.grid]
        extents += [Number(1)] * (3 - len(extents))
        limits = (LARGEST, 65_535, 65_535)
        fits = all(not one.wide and 1 <= one.value <= limit for one, limit in zip(extents, limits, strict=True))
        return tuple(one.value for one in extents) if fits else None


def draw(chance: random.Random, name: str) -> Kernel:
    grid = tuple(_extent(chance) for _ in range(chance.choice((1, 1, 2, 3))))
    conditions = tuple(_condition(chance, 0) for _ in range(chance.choice((0, 0, 1, 1, 2))))
    return Kernel(name, grid, conditions, chance.random() < 0.5, chance.random() < 0.3, chance.choice((1, 2, 4)))


def values(chance: random.Random) -> dict[str, int]:
    return {"M": chance.choice(SIZES), "N": chance.choice(SIZES), "s": chance.choice(NUMBERS)}


def _extent(chance: random.Random) -> str:
    return chance.choice(
        (
            str(chance.choice((1, 2, 7))),
            f"max({_sum(chance, 0)}, 1)",
            f"ceildiv({chance.choice('MN')}, {chance.choice((8, 64, 100))})",
            f"min(ceildiv({chance.choice('MN')}, 64), gpu.multiprocessors)",
            _sum(chance, 0),
        )
    )


def _sum(chance: random.Random, depth: int) -> str:
    if depth > 2 or chance.random() < 0.4:
        return chance.choice((*NAMES, *NAMES, str(chance.choice((0, 1, 3, 64, 2**30)))))
    left, right = _sum(chance, depth + 1), _sum(chance, depth + 1)
    divisor = chance.choice((2, 7, 64))
    less = "+" if any(name in left and name in right for name in NAMES) else "-"  # nothing that is left out again
    return chance.choice(
        (
            f"({left} + {right})", f"({left} {less} {right})", f"{left} * {right}", f"{left} // {divisor}", f"{left} % {divisor}",
            f"ceildiv({left}, {divisor})", f"min({left}, {right})", f"max({left}, {right})",
        )
    )  # fmt: skip


def _condition(chance: random.Random, depth: int) -> str:
    if depth < 2 and chance.random() < 0.35:
        return f"({_condition(chance, depth + 1)} {chance.choice(('and', 'or'))} {_condition(chance, depth + 1)})"
    return f"{_sum(chance, 1)} {chance.choice(('<', '<=', '>', '>=', '==', '!='))} {_sum(chance, 1)}"


class Number:
    """`gone`: a product of two such numbers in it left its type; `wide`: it, or a part of it, is beyond the 64 bits of the host."""

    def __init__(self, value: int, gone: bool = False, wide: bool = False) -> None:
        self.value, self.gone, self.wide = value, gone, wide or not -(2**63) <= value < 2**63

    def _with(self, other: Any, value: int, *, product: bool = False) -> "Number":
        leaves, part = product and isinstance(other, Number) and not -(2**31) <= value <= LARGEST, _number(other)
        return Number(value, self.gone or part.gone or leaves, self.wide or part.wide)

    def __add__(self, other: Any) -> "Number":
        return self._with(other, self.value + _number(other).value)

    def __sub__(self, other: Any) -> "Number":
        return self._with(other, self.value - _number(other).value)

    def __mul__(self, other: Any) -> "Number":
        return self._with(other, self.value * _number(other).value, product=True)

    def __radd__(self, other: Any) -> "Number":
        return self + other

    def __rsub__(self, other: Any) -> "Number":
        return Number(other) - self

    def __rmul__(self, other: Any) -> "Number":
        return self * other

    def __floordiv__(self, divisor: int) -> "Number":
        return Number(self.value // divisor, self.gone, self.wide)

    def __mod__(self, divisor: int) -> "Number":
        return Number(self.value % divisor, self.gone, self.wide)

    def _holds(self, other: Any, holds: bool) -> bool:
        return holds and not self.gone and not _number(other).gone

    def __lt__(self, other: Any) -> bool:
        return self._holds(other, self.value < _number(other).value)

    def __le__(self, other: Any) -> bool:
        return self._holds(other, self.value <= _number(other).value)

    def __gt__(self, other: Any) -> bool:
        return self._holds(other, self.value > _number(other).value)

    def __ge__(self, other: Any) -> bool:
        return self._holds(other, self.value >= _number(other).value)

    def __eq__(self, other: object) -> bool:
        return self._holds(other, self.value == _number(other).value)

    def __ne__(self, other: object) -> bool:
        return self._holds(other, self.value != _number(other).value)

    __hash__ = None  # type: ignore[assignment]


def _number(one: Any) -> Number:
    return one if isinstance(one, Number) else Number(one)


def _either(choose: Any, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return choose(left, right)
    one, other = _number(left), _number(right)
    return Number(choose(one.value, other.value), one.gone or other.gone, one.wide or other.wide)


def _ceildiv(one: Any, divisor: int) -> Any:
    return -(-one // divisor) if isinstance(one, int) else Number(-(-one.value // divisor), one.gone, one.wide)


class _Gpu:
    multiprocessors = Number(MULTIPROCESSORS)


def _evaluated(text: str, given: Mapping[str, int]) -> Any:
    known = {
        "min": lambda a, b: _either(min, a, b),
        "max": lambda a, b: _either(max, a, b),
        "ceildiv": _ceildiv,
        "gpu": _Gpu,
    }
    found = eval(text, {"__builtins__": {}}, known | {name: Number(value) for name, value in given.items()})
    return _number(found) if isinstance(found, int) and not isinstance(found, bool) else found
