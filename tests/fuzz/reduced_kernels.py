"""Random kernels in which a role reduces rows and columns of tiles of several types, in loops and branches.

The threads of a role exchange parts of what they reduce through shared memory, again and again. Whole numbers, bounded after each step,
so that sums are exact in every order.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

SIZES = (3, 2)  # turns of the loop
COLUMNS = 256
BOUND = 100
TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}
STEPS = {
    "row_max": lambda x: x.max(axis=1, keepdims=True),
    "row_min": lambda x: x.min(axis=1, keepdims=True),
    "row_sum": lambda x: x.sum(axis=1, keepdims=True),
    "column_max": lambda x: x.max(axis=0, keepdims=True),
    "column_sum": lambda x: x.sum(axis=0, keepdims=True),
}
WHERE = ("", "if i % 2 == 0:", "if any(t{n} > 50):")


@dataclass(frozen=True)
class Step:
    """A tile from which the reduction of a tile is taken, by its number, and under which condition."""

    tile: int
    function: str
    where: str


@dataclass(frozen=True)
class Reduced:
    """`types`: of the tiles, each with its rows."""

    warps: int
    types: tuple[tuple[str, int], ...]
    steps: tuple[Step, ...]

    @property
    def source(self) -> str:
        names = [(f"{side}{n}", dtype) for n, (dtype, _) in enumerate(self.types) for side in "xy"]
        tensors = ", ".join(f"{name}: tensor[{dtype}, R{name[1:]}, {COLUMNS}]" for name, dtype in names)
        lines = [f"kernel k({tensors}, n: i32):", "    grid(1)", f"    role work(warps={self.warps}):"]
        lines += [f"        t{n} = registers(load(x{n}[0, 0], {rows}, {COLUMNS}))" for n, (_, rows) in enumerate(self.types)]
        lines += ["        for i in range(n):"]
        for step in self.steps:
            n, dtype = step.tile, self.types[step.tile][0]
            zero, where = ("0.0" if dtype.startswith("f") else "0"), step.where.format(n=step.tile)
            where = where.replace("50", f"50{zero[1:]}")
            depth = " " * (16 if where else 12)
            lines += [" " * 12 + where] if where else []
            bound = f"{BOUND}{zero[1:]}"
            lines += [f"{depth}t{n} = max(min(t{n} - {step.function}(t{n}) + cast[{dtype}](i + 7), {bound}), -{bound})"]
        lines += [f"        store.direct(y{n}[0, 0], t{n})" for n in range(len(self.types))]
        return "\n".join(lines) + "\n"

    def arguments(self, size: int) -> dict[str, object]:
        chance = np.random.default_rng(size)
        given: dict[str, object] = {"n": size}
        for n, (dtype, rows) in enumerate(self.types):
            given[f"x{n}"] = chance.integers(-BOUND, BOUND, (rows, COLUMNS)).astype(TYPES[dtype])
            given[f"y{n}"] = np.zeros((rows, COLUMNS), TYPES[dtype])
        return given

    def expected(self, size: int) -> Mapping[str, np.ndarray]:
        given = self.arguments(size)
        tiles = [np.asarray(given[f"x{n}"]) for n in range(len(self.types))]
        for i in range(size):
            for step in self.steps:
                tile = tiles[step.tile]
                if "%" in step.where and i % 2 or "any" in step.where and not (tile > 50).any():
                    continue
                tiles[step.tile] = np.clip(tile - STEPS[step.function](tile) + (i + 7), -BOUND, BOUND).astype(tile.dtype)
        return {f"y{n}": tile for n, tile in enumerate(tiles)}


def draw(chance: random.Random) -> Reduced:
    warps = chance.choice((1, 2, 4, 8))
    types = tuple((chance.choice(sorted(TYPES)), chance.choice((1, 1, 2, 4))) for _ in range(chance.choice((1, 2, 2, 3))))
    steps = (
        Step(chance.randrange(len(types)), chance.choice(sorted(STEPS)), chance.choice(WHERE))
        for _ in range(chance.randint(2, 5))
    )
    return Reduced(warps, types, tuple(steps))
