"""Two roles that store tiles of one tensor in loops, whose bounds and places are made of sizes and parameters; and what each stores,
counted row by row."""

import random
from dataclasses import dataclass
from itertools import product
from typing import Any

BOUNDS = (
    "0", "0", "n", "m", "2 * n", "n + m", "min(n, m)", "max(n, m)", "ceildiv(R, 64)", "ceildiv(C, 64)", "ceildiv(R, 64) - n", "n // 2",
    "1", "4", "n - 1",
)  # fmt: skip
PLACES = ("t", "t", "t", "2 * t", "2 * t + 1", "t + n", "t + m", "ceildiv(R, 64) - 1 - t", "t % n", "t // 2", "t * n + m")
SIZES = [
    {"n": n, "m": m, "R": rows, "C": columns}
    for n, m in product((1, 2, 3, 5, 9), (1, 2, 4, 7))
    for rows, columns in ((640, 640), (1280, 256), (200, 900))
]
_FUNCTIONS: dict[str, Any] = {"range": range, "min": min, "max": max, "ceildiv": lambda a, b: -(-a // b)}


@dataclass(frozen=True)
class Stores:
    """Of one role: a tile of so many rows in each turn."""

    first: str
    last: str
    step: int
    place: str
    rows: int

    def rows_at(self, sizes: dict[str, int]) -> set[int]:
        turns = eval(f"range({self.first}, {self.last}, {self.step})", _FUNCTIONS, dict(sizes))
        starts = (eval(self.place, _FUNCTIONS, {**sizes, "t": turn}) * self.rows for turn in turns)
        return {row for start in starts for row in range(max(0, start), min(start + self.rows, sizes["R"]))}


@dataclass(frozen=True)
class Roles:
    both: tuple[Stores, Stores]

    @property
    def text(self) -> str:
        body = "".join(
            f"    role r{number}(warps=4):\n        for t in range({one.first}, {one.last}, {one.step}):\n"
            f"            store(y[({one.place}) * {one.rows}, 0], load(x[0, 0], {one.rows}, 64))\n"
            for number, one in enumerate(self.both)
        )
        tensors = "x: tensor[f32, 64, 64], w: tensor[f32, C, 64], y: tensor[f32, R, 64]"
        return f"kernel k({tensors}, n: i32, m: i32):\n    assume(n > 0 and m > 0)\n    grid(1)\n{body}"

    def meet(self, sizes: dict[str, int]) -> bool:
        one, other = self.both
        return not one.rows_at(sizes).isdisjoint(other.rows_at(sizes))


def drawn(draw: random.Random) -> Roles:
    one, other = (
        Stores(draw.choice(BOUNDS), draw.choice(BOUNDS), draw.choice((1, 1, 2)), draw.choice(PLACES), draw.choice((64, 64, 32)))
        for _ in range(2)
    )
    return Roles((one, other))
