"""Random kernels in which a role writes the tile of one stage several times, with values that are spread over its threads in different
ways: from an accumulator, from a load, kept in registers, the same everywhere. What is written last is there at the end.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

COLUMNS, DEPTH = 64, 16
SIZES = (1, 0)  # of `n`: what stands in branches is written, or is not
# Of each target: the rows and warps that an accumulator can have, and where the tile is.
SHAPES = {
    "sm_90a": ((64, 4, "shared"), (128, 4, "shared"), (128, 8, "shared")),
    "sm_100a": (
        (64, 4, "shared"),
        (64, 8, "shared"),
        (128, 4, "shared"),
        (128, 8, "shared"),
        (128, 4, "tensor"),
        (128, 8, "tensor"),
    ),
}
VALUES = {
    "acc": lambda product, x: product,
    "acc * 2.0": lambda product, x: product * 2,
    "loaded": lambda product, x: x,
    "kept": lambda product, x: x + 1,
    "kept - row_max(kept)": lambda product, x: x - x.max(axis=1, keepdims=True),
    "fill(3.0, f32, {rows}, {columns})": lambda product, x: np.full_like(x, 3),
    "cast[f32](row_index({rows})) + fill(0.0, f32, {rows}, {columns})": lambda product, x: np.arange(len(x))[:, None] + 0 * x,
}


@dataclass(frozen=True)
class Rewritten:
    """`writes`: values, each with whether it is written in a branch only."""

    arch: str
    rows: int
    warps: int
    space: str
    writes: tuple[tuple[str, bool], ...]

    @property
    def source(self) -> str:
        shape = f"{self.rows}, {COLUMNS}"
        operands = f"a=tile[bf16, {self.rows}, {DEPTH}], b=tile[bf16, {COLUMNS}, {DEPTH}]"
        hopper = self.arch == "sm_90a"
        lines = [
            f"kernel k(a: tensor[bf16, {self.rows}, {DEPTH}], b: tensor[bf16, {COLUMNS}, {DEPTH}], x: tensor[f32, {shape}],",
            f"         d: tensor[f32, {shape}], n: i32):",
            "    grid(1)",
            f"    input = InputTilePipeline(StandardTilePayload({operands}), stages=1)",
            *([] if hopper else [f"    output = OutputTilePipeline(tmem[f32, {shape}], stages=1)"]),
            *self._out(),
            "    role copy(warps=1) produces input:",
            "        with input.produce() as s:",
            "            tma.load(s.a, a[0, 0])",
            "            tma.load(s.b, b[0, 0])",
        ]
        if not hopper:
            lines += ["    role multiply(warps=1) consumes input produces output:"]
            lines += ["        with output.produce() as acc, input.consume() as s:", "            mma(acc, s.a, s.b)"]
        lines += [f"    role work(warps={self.warps}) consumes {'input' if hopper else 'output'} produces out:"]
        if any("kept" in value for value, _ in self.writes):
            lines += [f"        kept = registers(load(x[0, 0], {shape}) + 1.0)"]
        if hopper:
            lines += [
                f"        acc = accumulator(f32, {shape})",
                "        with input.consume() as s:",
                "            mma(acc, s.a, s.b)",
            ]
            lines += self._writing(8)
        else:
            lines += ["        with output.consume() as acc:", *self._writing(12)]
        return "\n".join([*lines, *self._giving()]) + "\n"

    def _out(self) -> list[str]:
        shape = f"{self.rows}, {COLUMNS}"
        if self.space == "shared":
            return [f"    out = InputTilePipeline(TilePayload(t=tile[f32, {shape}]), stages=1)"]
        return ["    out = RolePipeline(stages=1)", f"    tiles = TensorTiles(tmem[f32, {shape}], count=1)"]

    def _writing(self, depth: int) -> list[str]:
        lines: list[str] = []
        shared = self.space == "shared"
        for value, in_branch in self.writes:
            text = value.format(rows=self.rows, columns=COLUMNS).replace("loaded", f"load(x[0, 0], {self.rows}, {COLUMNS})")
            write = f"write({'o.t' if shared else 'tiles[out.index()]'}, {text})"
            lines += ["if n > 0:", f"    {write}"] if in_branch else [write]
        lines = (
            ["with out.produce() as o:", *("    " + line for line in lines)]
            if shared
            else ["out.acquire()", *lines, "out.commit()"]
        )
        return [" " * depth + line for line in lines]

    def _giving(self) -> list[str]:
        if self.space == "shared":
            return [
                "    role give(warps=1) consumes out:",
                "        with out.consume() as o:",
                "            tma.store(d[0, 0], o.t)",
            ]
        give = ["out.wait()", "store.direct(d[0, 0], tiles[out.index()])", "out.release()"]
        return ["    role give(warps=4) consumes out:", *("        " + line for line in give)]

    def arguments(self, size: int) -> dict[str, object]:
        chance = np.random.default_rng(self.rows + size)
        a, b = (chance.integers(-3, 4, (rows, DEPTH)).astype(ml_dtypes.bfloat16) for rows in (self.rows, COLUMNS))
        x = chance.integers(-9, 10, (self.rows, COLUMNS)).astype(np.float32)
        return {"a": a, "b": b, "x": x, "d": np.full_like(x, 77), "n": size}

    def expected(self, size: int) -> Mapping[str, np.ndarray]:
        given = self.arguments(size)
        a, b, x = (np.asarray(given[name], np.float32) for name in "abx")
        value = next(value for value, in_branch in reversed(self.writes) if size or not in_branch)
        return {"d": np.asarray(VALUES[value](a @ b.T, x), np.float32)}


def draw(chance: random.Random) -> Rewritten:
    arch = chance.choice(sorted(SHAPES))
    rows, warps, space = chance.choice(SHAPES[arch])
    values = ["acc", *chance.choices(sorted(VALUES), k=chance.choice((1, 1, 2)))]  # the accumulator must be read
    chance.shuffle(values)
    writes = tuple((value, number > 0 and chance.random() < 0.3) for number, value in enumerate(values))
    return Rewritten(arch, rows, warps, space, writes)
