"""Random chains of MMAs on Blackwell, as in attention: a product in tensor memory, from which threads compute the operand of a second one.

Operands lie in tensor memory, in columns of their own or in those of the first product; the second product is handed over after each
block, or corrected in place and kept. Each side of each pipeline is spelt in a way of its own, and statements may stand in an order that
the compiler has to refuse. Each line beside has the same meaning in Python, whatever that order is. Operands are small whole numbers,
so that sums are exact.
"""

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

ROWS, DEPTH, MOST, BLOCKS, TURNS = 128, 16, 8.0, 8, (3, 0, 1)
BF16 = ml_dtypes.bfloat16
Lines = list[str]


@dataclass(frozen=True)
class Program:
    """`half`: the product so far is halved before the next one is added, and, `before`, before it is stored. `kept`: there is one product,
    to which all blocks add."""

    source: str
    columns: int
    width: int
    kept: bool
    half: bool
    before: bool

    def arguments(self, turns: int) -> dict[str, object]:
        chance = np.random.default_rng(turns)
        made: dict[str, object] = {
            "a": chance.integers(-2, 3, (ROWS, DEPTH)).astype(BF16),
            "b": chance.integers(-2, 3, (BLOCKS * self.columns, DEPTH)).astype(BF16),
            "v": chance.integers(-2, 3, (BLOCKS * self.columns, self.width)).astype(BF16),
            "y": np.zeros((BLOCKS * ROWS, self.width), np.float32),
        }
        return {**made, "n": turns}

    def expected(self, turns: int) -> dict[str, np.ndarray]:
        known = self.arguments(turns)
        a, b, v, y = (np.asarray(known[name]).astype(np.float32) for name in "abvy")
        total = np.zeros((ROWS, self.width), np.float32)
        for j in range(turns):
            block = slice(j * self.columns, (j + 1) * self.columns)
            operand = np.clip(a @ b[block].T * np.float32(0.5) + np.float32(1), -MOST, MOST)
            before = total * np.float32(0.5 if self.half and j else 1) if self.kept else 0
            total = before + operand @ v[block]
            y[j * ROWS : (j + 1) * ROWS] = total * np.float32(0.5 if self.before else 1)
        return {"y": y}


def draw(chance: random.Random) -> Program:
    return _Writer(chance).program()


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.columns, self.width = chance.choice((32, 64)), chance.choice((16, 32))
        self.stages = {name: chance.choice((1, 1, 2, 3)) for name in ("keys", "values", "scores", "halves", "output")}
        self.alias = chance.random() < 0.6
        self.kept = chance.random() < 0.5
        self.half = self.kept and chance.random() < 0.6
        self.before = self.half and chance.random() < 0.3
        self.parts = chance.choice((1, 1, 2))  # sub-stages of the operand
        if self.alias and chance.random() < 0.9:
            self.stages["halves"] = self.stages["scores"] = 1
        if self.kept:
            self.stages["output"] = 1
        self.counts = {name: self.stages[name] for name in ("scores", "halves", "output")}
        self.spelt = {
            (name, side): chance.choice(
                ("role",) if name == "halves" and self.parts == 2 else ("role", "with", "linear", "explicit")
            )
            for name in ("scores", "halves", "output")
            for side in ("produces", "consumes")
        }
        # What is kept from block to block, or changed by its consumer, is in a RolePipeline.
        self.spelt["output", "produces"] = "role" if self.kept else self.spelt["output", "produces"]
        for name in ("scores", "halves", "output"):  # both sides of a RolePipeline are without handles
            if "role" in (self.spelt[name, "produces"], self.spelt[name, "consumes"]):
                self.spelt[name, "produces"] = self.spelt[name, "consumes"] = "role"

    # ------------------------------------------------------------------------------------------------------------- stages

    def producing(self, name: str, body: Lines, *, mma: bool) -> Lines:
        """A stage around a body, in which `?` is its number."""
        match self.spelt[name, "produces"]:
            case "role":
                end = [f"{name}.commit_mma()", f"{name}.step()"] if mma else [f"{name}.commit()"]
                return [f"{name}.acquire()", *_at(body, f"{name}.index()"), *end]
            case "with" | "explicit":
                return [f"with {name}.produce() as one:", *_in(_at(body, "one.index()"))]
            case _:
                return [f"one = {name}.acquire_producer()", *_at(body, "one.index()"), "one.release()"]

    def consuming(self, name: str, body: Lines, *, mma: bool) -> Lines:
        match self.spelt[name, "consumes"]:
            case "role":
                return [f"{name}.wait()", *_at(body, f"{name}.index()"), f"{name}.release()"]
            case "with":
                return [f"with {name}.consume() as other:", *_in(_at(body, "other.index()"))]
            case "explicit":
                signal = "mma.commit(other.mbar())" if mma else "other.arrive()"
                return [f"with {name}.consume_explicit() as other:", *_in([*_at(body, "other.index()"), signal])]
            case _:
                return [f"other = {name}.acquire_consumer()", *_at(body, "other.index()"), "other.release()"]

    # -------------------------------------------------------------------------------------------------------------- roles

    def scores(self) -> Lines:
        return ["with keys.consume() as k:", *_in(self.producing("scores", ["mma(s[?], q.a, k.b)"], mma=True))]

    def product(self) -> Lines:
        more = ", accumulate=j > 0" if self.kept else ""
        if self.parts == 2:
            half = self.columns // 2
            inner = [
                "halves.wait[0]()",
                f"mma(o[?], left[halves.index[0]()], x.v0.T{more})",
                "halves.wait[1]()",
                "mma(o[?], right[halves.index[1]()], x.v1.T, accumulate=True)",
                "halves.release()",
            ]
            assert half % 16 == 0
            body = self.producing("output", inner, mma=True)
        elif self.chance.random() < 0.5:
            inner = self.consuming("halves", [f"mma(o[!], p[?], x.v0.T{more})"], mma=True)
            body = self.producing("output", [line.replace("!", "?") for line in inner], mma=True)
        else:
            inner = self.producing("output", [f"mma(o[?], p[!], x.v0.T{more})"], mma=True)
            body = self.consuming("halves", [line.replace("!", "?") for line in inner], mma=True)
        return ["with values.consume() as x:", *_in(body)]

    def multiply(self) -> Lines:
        first, second = self.scores(), self.product()
        order = self.chance.choice(("in turn", "behind") if self.alias else ("in turn", "ahead", "ahead", "behind"))
        if order == "in turn":
            loop = ["for j in range(n):", *_in([*first, *second])]
        elif order == "ahead":  # the next scores are multiplied first
            loop = ["if n > 0:", *_in(first), "for j in range(n):", *_in(["if j + 1 < n:", *_in(first), *second])]
        else:
            later = ["if j + 1 < n:", *_in(first)]
            loop = ["if n > 0:", *_in(first), "for j in range(n):", *_in([*second, *later])]
        return ["with queries.consume() as q:", *_in(loop)]

    def soften(self) -> Lines:
        value = f"max(min({{}} * 0.5 + 1.0, {MOST}), -{MOST})"
        early = self.chance.random() < (0.1 if self.alias else 0.4)
        read = f"s[{'scores.index()' if self.spelt['scores', 'consumes'] == 'role' else 'other.index()'}]"
        if self.parts == 2:
            half = self.columns // 2
            writes = [
                "halves.acquire()",
                f"write(left[halves.index[0]()], cast[bf16](columns(x, 0, {half})))",
                "halves.producer_mbar[0]().arrive()",
                f"write(right[halves.index[1]()], cast[bf16](columns(x, {half}, {half})))",
                "halves.producer_mbar[1]().arrive()",
                "halves.step()",
            ]
        else:
            writes = self.producing("halves", ["write(p[?], cast[bf16](x))"], mma=False)
        kept = "registers({})" if early or self.alias or self.parts == 2 or self.chance.random() < 0.6 else "{}"
        taken = [f"x = {kept.format(value.format(read))}"]
        if early:  # the scores are given back before the operand is written
            body = [*self.consuming("scores", taken, mma=False), *writes]
        else:
            body = self.consuming("scores", [*taken, *writes], mma=False)
        return ["for j in range(n):", *_in(body)]

    def finish(self) -> Lines:
        body = [f"{self.chance.choice(('store', 'store.direct'))}(y[j * {ROWS}, 0], o[?])"]
        if self.half:
            body.append("write(o[?], o[?] * 0.5)")
            if self.before:
                body.reverse()
        return ["for j in range(n):", *_in(self.consuming("output", body, mma=False))]

    # --------------------------------------------------------------------------------------------------------------- text

    def pipeline(self, name: str) -> str:
        if self.spelt[name, "produces"] == "role":
            parts = ", producer_sub_stages=2" if name == "halves" and self.parts == 2 else ""
            return f"{name} = RolePipeline(stages={self.stages[name]}{parts})"
        return f"{name} = ProducerConsumerPipeline(stages={self.stages[name]})"

    def operand(self, name: str, columns: int, first: int) -> str:
        place = f", alias=s{f', column={first}' if first else ''}" if self.alias else ""
        return f"{name} = TensorTiles(tmem[bf16, {ROWS}, {columns}], count={self.counts['halves']}{place})"

    def program(self) -> Program:
        half = self.columns // self.parts
        tiles = ", ".join(f"v{one}=tile[bf16, {half}, {self.width}]" for one in range(self.parts))
        shift = self.chance.choice((0, 0, 0, 0, 0, 0, 0, 8, self.columns // 4))
        operands = (
            [self.operand("p", self.columns, shift)]
            if self.parts == 1
            else [
                self.operand("left", half, 0),
                self.operand("right", half, self.columns // 4 + self.chance.choice((0, 0, 0, 0, 0, 0, 0, -8))),
            ]
        )
        head = [
            "grid(1)",
            f"queries = InputTilePipeline(TilePayload(a=tile[bf16, {ROWS}, {DEPTH}]), stages=1)",
            f"keys = InputTilePipeline(TilePayload(b=tile[bf16, {self.columns}, {DEPTH}]), stages={self.stages['keys']})",
            f"values = InputTilePipeline(TilePayload({tiles}), stages={self.stages['values']})",
            *(self.pipeline(name) for name in ("scores", "halves", "output")),
            f"s = TensorTiles(tmem[f32, {ROWS}, {self.columns}], count={self.counts['scores']})",
            *operands,
            f"o = TensorTiles(tmem[f32, {ROWS}, {self.width}], count={self.counts['output']})",
        ]
        loads = [f"tma.load(x.v{one}, v[j * {self.columns} + {one * half}, 0])" for one in range(self.parts)]
        load = [
            "with queries.produce() as q:",
            "    tma.load(q.a, a[0, 0])",
            "for j in range(n):",
            *_in(["with keys.produce() as k:", f"    tma.load(k.b, b[j * {self.columns}, 0])"]),
            *_in(["with values.produce() as x:", *_in(loads)]),
        ]
        roles = [
            ("load(warps=1) produces queries, keys, values", load),
            ("multiply(warps=1) consumes queries, keys, values, halves produces scores, output", self.multiply()),
            ("soften(warps=4) consumes scores produces halves", self.soften()),
            ("finish(warps=4) consumes output", self.finish()),
        ]
        tensors = (
            f"a: tensor[bf16, {ROWS}, {DEPTH}], b: tensor[bf16, {BLOCKS * self.columns}, {DEPTH}], "
            f"v: tensor[bf16, {BLOCKS * self.columns}, {self.width}], y: tensor[f32, {BLOCKS * ROWS}, {self.width}], n: i32"
        )
        text = [f"kernel k({tensors}):", *_in(head)]
        for role, body in roles:
            text += [f"    role {role}:", *_in(_in(body))]
        return Program("\n".join(text) + "\n", self.columns, self.width, self.kept, self.half, self.before)


def _in(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


def _at(lines: Lines, index: str) -> Lines:
    return [line.replace("?", index) for line in lines]
