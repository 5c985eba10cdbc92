"""Random roles on Hopper that multiply into accumulators in registers: stages are held across each other, or into the next turn under
another name, and given back at once, late or in another order, operands come from shared memory and from registers, accumulators are read,
cleared, overwritten and assigned in between.

Nothing in the text says where MMAs must have finished. Each line of the role has a line of Python beside it, which says what it computes.
Operands are small whole numbers, so that sums are exact.
"""

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

ROWS, DEPTH, MOST, TURNS, SEEN = 64, 16, 64.0, (3, 0, 1), 96
BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Program:
    source: str
    steps: str
    columns: int
    groups: int

    def arguments(self, turns: int) -> dict[str, object]:
        chance = np.random.default_rng(turns)
        rows = ROWS * self.groups
        made: dict[str, object] = {
            name: chance.integers(-2, 3, (16 * rows, DEPTH)).astype(BF16) for name in ("xp", "xq")
        } | {name: chance.integers(-2, 3, (16 * self.columns, DEPTH)).astype(BF16) for name in ("wp", "wq")}  # fmt: skip
        made["y"] = np.zeros((SEEN * rows, self.columns), np.float32)
        made["z"] = np.zeros((SEEN * rows, DEPTH), np.float32)
        return {**made, "n": turns}

    def expected(self, turns: int) -> tuple[np.ndarray, np.ndarray]:
        known = self.arguments(turns)
        known |= {"np": np, "bf": lambda tile: tile.astype(BF16).astype(np.float32), "MOST": np.float32(MOST)}
        known |= {name: known[name].astype(np.float32) for name in ("xp", "xq", "wp", "wq")}  # type: ignore[attr-defined]
        exec(self.steps, known)  # noqa: S102 - the steps are written here, too
        return known["y"], known["z"]  # type: ignore[return-value]


def draw(chance: random.Random) -> Program:
    return _Writer(chance).program()


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.groups, self.columns = chance.choice((1, 1, 2)), chance.choice((8, 16, 32))
        self.rows = ROWS * self.groups
        self.lines: list[str] = []
        self.steps: list[str] = ["at = {'p': 0, 'q': 0}"]
        self.rings = chance.choice((("p",), ("p",), ("p", "q")))
        self.accumulators = [f"acc{number}" for number in range(chance.randint(1, 3))]
        self.tiles: list[str] = []  # of bf16 values in registers, as operands
        self.stored, self.names, self.each = 0, 0, dict.fromkeys(self.rings, 0)
        self.read: set[str] = set()  # the stages of which both tiles are read, and the accumulators that something is added to
        self.pad = 0
        # The rings whose stages threads read as well: all of them, or the stages would be given back in two ways.
        self.looked_into = {ring for ring in self.rings if chance.random() < 0.5}
        self.looked: set[str] = set()

    def program(self) -> Program:
        for name in self.accumulators:
            self.line(f"{name} = accumulator(f32, {self.rows}, {self.columns})",
                      f"{name} = np.zeros(({self.rows}, {self.columns}), np.float32)")  # fmt: skip
        if self.chance.random() < 0.5:
            self.tiles.append("left")
            self.line(
                f"left = registers(fill(cast[bf16](1.0), bf16, {self.rows}, {DEPTH}))",
                f"left = np.ones(({self.rows}, {DEPTH}), np.float32)",
            )
        self.loop()
        for name in self.accumulators:
            self.store(name)
        return Program(self._source(), "\n".join(self.steps) + "\n", self.columns, self.groups)

    def line(self, text: str, step: str | None = None) -> None:
        self.lines.append("    " * self.pad + text)
        self.steps.append("    " * self.pad + (text if step is None else step))

    # ------------------------------------------------------------------------------------------------------------- stages

    def loop(self) -> None:
        self.carries = self.chance.random() < 0.4
        if self.carries:
            self.take_as("p_kept", "p")
        self.line("for i in range(n):")
        self.pad += 1
        self.line("pass")
        held = ["p_kept"] if self.carries else []
        for _ in range(self.chance.randint(3, 9)):
            kind = self.chance.random()
            if kind < 0.4 and len(held) < 3:
                held.append(self.take())
            elif kind < 0.55 and held:
                self.give(held.pop(self.chance.randrange(len(held))))
            else:
                self.statement(held)
        for accumulator in self.accumulators:
            if accumulator not in self.read:
                held = held or [self.take()]
                self.multiply(held, accumulator)
        moved = self.move(held) if self.carries else None
        while held:
            self.give(held.pop(self.chance.randrange(len(held))))
            if self.chance.random() < 0.3:
                self.statement(held)
        self.pad -= 1
        if moved:
            self.give("p_kept")

    def move(self, held: list[str]) -> str:
        """The kept stage is given back, and another one kept into the next turn."""
        if "p_kept" in held:
            held.remove("p_kept")
            self.give("p_kept")
        others = [stage for stage in held if stage[0] == "p"]
        following = self.chance.choice(others) if others else self.take("p")
        if following in held:
            held.remove(following)
        self.line(f"p_kept = {following}", f"p_kept_a, p_kept_b = {following}_a, {following}_b")
        if self.chance.random() < 0.5:
            self.statement([*held, "p_kept"])
        return following

    def take(self, ring: str = "") -> str:
        ring = ring or self.chance.choice(self.rings)
        name = f"{ring}{self.names}"
        self.names += 1
        self.each[ring] += 1
        self.take_as(name, ring)
        if self.chance.random() < 0.75:
            self.multiply([name])
        return name

    def take_as(self, name: str, ring: str) -> None:
        self.line(f"{name} = {ring}.acquire_consumer()",
                  f"k = at['{ring}'] % 16; at['{ring}'] += 1; {name}_a = x{ring}[k * {self.rows} : (k + 1) * {self.rows}]; "
                  f"{name}_b = w{ring}[k * {self.columns} : (k + 1) * {self.columns}]")  # fmt: skip

    def give(self, stage: str) -> None:
        if stage not in self.read:
            self.multiply([stage], plainly=True)
        if stage[0] in self.looked_into and stage not in self.looked:
            self.look(stage)
        self.line(f"{stage}.release()", "pass")

    # --------------------------------------------------------------------------------------------------------- statements

    def statement(self, held: list[str]) -> None:
        if self.chance.random() < 0.15:
            self.line(self.chance.choice(("if i % 2 == 0:", "if i > 0:", "if n > 2:")))
            self.pad += 1
            self._statement(held)
            self.pad -= 1
        else:
            self._statement(held)

    def _statement(self, held: list[str]) -> None:
        kind = self.chance.randrange(8)
        accumulator, other = self.chance.choice(self.accumulators), self.chance.choice(self.accumulators)
        match kind:
            case 0 | 1 | 2 if held:
                self.multiply(held)
            case 3:
                self.store(accumulator)
            case 4:
                scale = self.chance.choice(("0.5", "-1.0"))
                scaled = f"{other} * np.float32({scale}) + np.float32(1)"
                self.line(f"write({accumulator}, max(min({other} * {scale} + 1.0, {MOST}), -{MOST}))",
                          f"{accumulator} = np.maximum(np.minimum({scaled}, MOST), -MOST)")  # fmt: skip
            case 5 | 6 if held and self.looked_into:
                stages = [stage for stage in held if stage[0] in self.looked_into]
                if stages:
                    self.look(self.chance.choice(stages))
                else:
                    self.line("pass")
            case 7 if self.tiles:
                tile = self.chance.choice(self.tiles)
                self.line(f"{tile} = cast[bf16](min(cast[f32]({tile}) * 0.5 + 1.0, {MOST}))",
                          f"{tile} = bf(np.minimum({tile} * np.float32(0.5) + np.float32(1), MOST))")  # fmt: skip
            case _:
                self.line("pass")

    def look(self, stage: str) -> None:
        """The role's threads read the stage."""
        if self.pad == 1:
            self.looked.add(stage)
        if self.tiles and self.chance.random() < 0.6:
            tile = self.chance.choice(self.tiles)
            self.line(f"{tile} = {stage}.a", f"{tile} = {stage}_a")
            return
        self.stored += 1
        place = f"({self.stored} * 4 + i) * {self.rows}"
        self.line(f"store.direct(z[{place}, 0], cast[f32]({stage}.a))", f"z[{place} : {place} + {self.rows}] = {stage}_a")

    def multiply(self, held: list[str], accumulator: str = "", *, plainly: bool = False) -> None:
        accumulator = accumulator or self.chance.choice(self.accumulators)
        stage = self.chance.choice(held)
        left, by = f"{stage}.a", f"{stage}_a"
        if self.tiles and not plainly and self.chance.random() < 0.3:
            left = by = self.chance.choice(self.tiles)
        elif self.pad == 1:
            self.read.add(stage)
        self.read.add(accumulator)
        over = self.chance.random() < 0.2
        self.line(f"mma({accumulator}, {left}, {stage}.b{', accumulate=False' if over else ''})",
                  f"{accumulator} = {'' if over else accumulator + ' + '}{by} @ {stage}_b.T")  # fmt: skip

    def store(self, accumulator: str) -> None:
        self.stored += 1
        place = f"({self.stored} * 4 + {'i' if self.pad else '0'}) * {self.rows}"
        path = self.chance.choice(("store", "store.direct"))
        self.line(f"{path}(y[{place}, 0], {accumulator})", f"y[{place} : {place} + {self.rows}] = {accumulator}")

    # --------------------------------------------------------------------------------------------------------------- text

    def _source(self) -> str:
        first = {"p": int(self.carries)}  # filled in front of the loop
        used = [ring for ring in self.rings if self.each[ring] or first.get(ring)]
        tensors = [f"x{ring}: tensor[bf16, {16 * self.rows}, {DEPTH}]" for ring in "pq"]
        tensors += [f"w{ring}: tensor[bf16, {16 * self.columns}, {DEPTH}]" for ring in "pq"]
        tensors += [f"{name}: tensor[f32, {SEEN * self.rows}, {width}]" for name, width in (("y", self.columns), ("z", DEPTH))]
        lines = [f"kernel k({', '.join(tensors)}, n: i32):", "    grid(1)"]
        for ring in used:
            tiles = f"TilePayload(a=tile[bf16, {self.rows}, {DEPTH}], b=tile[bf16, {self.columns}, {DEPTH}])"
            lines.append(f"    {ring} = InputTilePipeline({tiles}, stages={self.chance.choice((2, 3, 3, 4, 5))})")
        for ring in used:
            lines.append(f"    role load_{ring}(warps=1) produces {ring}:")
            lines += [f"        {line}" for _ in range(first.get(ring, 0)) for line in self._filled(ring, "0")]
            lines += ["        for i in range(n):", "            pass"]
            for number in range(self.each[ring]):
                k = f"(i * {self.each[ring]} + {number + first.get(ring, 0)}) % 16"
                lines += [f"            {line}" for line in self._filled(ring, k)]
        consumes = f" consumes {', '.join(used)}" if used else ""
        lines.append(f"    role work(warps={4 * self.groups}){consumes}:")
        return "\n".join([*lines, *(f"        {line}" for line in self.lines)]) + "\n"

    def _filled(self, ring: str, k: str) -> list[str]:
        return [f"with {ring}.produce() as s:", f"    tma.load(s.a, x{ring}[{k} * {self.rows}, 0])",
                f"    tma.load(s.b, w{ring}[{k} * {self.columns}, 0])"]  # fmt: skip
