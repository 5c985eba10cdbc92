"""Random kernels of accumulators in tensor memory that several roles read, whole or some of their columns, or that one role changes in
place between two products; with so few blocks of K that nothing may be multiplied, and roles whose warps share rows."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

ROWS, COLUMNS, DEPTH = 128, 64, 16
SIZES = (0, 2, 1)  # blocks of K
# What a role may make of an accumulator in place, and of what it was.
_CHANGES = {
    "write({acc}, kept * 2.0)": lambda was: was * 2,
    "write({acc}, {acc} * 2.0)": lambda was: was * 2,
    "write({acc}, {acc} + row_sum({acc}))": lambda was: was + was.sum(axis=1, keepdims=True),
    "write({acc}, row_max({acc}) - {acc})": lambda was: was.max(axis=1, keepdims=True) - was,
    "write({acc}, {acc} - kept)": lambda was: 0 * was,
}


@dataclass(frozen=True)
class Reader:
    """Of the columns from `first` on; `kept`: in registers, before it stores them."""

    warps: int
    first: int
    count: int
    kept: bool


@dataclass(frozen=True)
class Accumulators:
    ctas: int
    tiles: int
    stages: int
    bound: str  # of the loop over K
    readers: tuple[Reader, ...]
    changes: tuple[str, ...]  # in place, by one role in place of readers
    drains: str = ""  # where the role that loads waits for its stages; behind its last ones it must, whatever it did before
    late: bool = False  # the stages are given back behind the products

    @property
    def source(self) -> str:
        half, leader = COLUMNS // self.ctas, ', on="leader"' if self.ctas == 2 else ""
        payload = f"StandardTilePayload(a=tile[bf16, {ROWS}, {DEPTH}], b=tile[bf16, {half}, {DEPTH}])"
        names = [f"d{number}" for number in range(max(1, len(self.readers)))]
        lines = [
            f"kernel k(a: tensor[bf16, {self.ctas * ROWS}, K], b: tensor[bf16, {COLUMNS}, K], n: tensor[i32, 1],",
            f"         {', '.join(f'{name}: tensor[f32, M, {COLUMNS}]' for name in names)}):",
            f"    cluster({self.ctas})",
            f"    grid({self.ctas})",
            f"    input = InputTilePipeline({payload}, stages=2, cta_group={self.ctas})",
            *self._declared(),
            "    role load(warps=1) produces input:",
            *(["        input.drain_producer()"] if self.drains == "first" else []),
            f"        for t in range({self.tiles}):",
            *(["            input.drain_producer()"] if self.drains == "each tile" else []),
            f"            for k in range({self.bound}):",
            "                with input.produce() as s:",
            f"                    tma.load(s.a, a[block.x * {ROWS}, k * {DEPTH}])",
            f"                    tma.load(s.b, b[cta.x * {half}, k * {DEPTH}])",
            *(["        if K > 1000:", "            input.drain_producer()"] if self.drains == "branch" else []),
            f"    role multiply(warps=1{leader}) consumes input produces done:",
            f"        for t in range({self.tiles}):",
            *(f"            {line}" for line in self._multiplies()),
        ]
        for number, reader in enumerate(self.readers):
            lines += [
                f"    role r{number}(warps={reader.warps}) consumes done:",
                f"        for t in range({self.tiles}):",
                "            with done.consume() as acc:",
                *(f"                {line}" for line in _reads(number, reader, self.ctas)),
            ]
        return "\n".join([*lines, *self._changed()]) + "\n"

    def _declared(self) -> list[str]:
        if self.readers:
            return [f"    done = OutputTilePipeline(tmem[f32, {ROWS}, {COLUMNS}], stages={self.stages}, cta_group={self.ctas})"]
        tiles = f"    sums = TensorTiles(tmem[f32, {ROWS}, {COLUMNS}], count=1)"
        return [f"    done = RolePipeline(stages=1, cta_group={self.ctas})", tiles]

    def _multiplies(self) -> list[str]:
        if self.readers:
            return [
                "with done.produce() as acc:",
                f"    for k in range({self.bound}):",
                "        with input.consume() as s:",
                "            mma(acc, s.a, s.b)",
            ]
        return [
            f"for k in range({self.bound}):",
            "    done.acquire()",
            "    s = input.acquire_consumer()",
            "    mma(sums[done.index()], s.a, s.b, accumulate=k > 0)",
            *([] if self.late else ["    s.release()"]),
            "    done.commit_mma()",
            "    done.step()",
            *(["    s.release()"] if self.late else []),
        ]

    def _changed(self) -> list[str]:
        if self.readers:
            return []
        acc = "sums[done.index()]"
        lines = [
            f"    role change(warps={4 * (1 + len(self.changes))}) consumes done:",
            f"        for t in range({self.tiles}):",
            f"            for k in range({self.bound}):",
            "                done.wait()",
            f"                kept = registers({acc})",
            *(f"                {one.format(acc=acc)}" for one in self.changes),
            f"                store.direct(d0[(t * {self.ctas} + block.x) * {ROWS}, 0], {acc})",
            "                done.release()",
        ]
        return lines

    def arguments(self, size: int) -> dict[str, object]:
        chance = np.random.default_rng(1)
        depth = max(1, size) * DEPTH
        a, b = (chance.integers(-1, 2, (rows, depth)).astype(ml_dtypes.bfloat16) for rows in (self.ctas * ROWS, COLUMNS))
        zeros = np.zeros((self.tiles * self.ctas * ROWS, COLUMNS), np.float32)
        given: dict[str, object] = {"a": a[:, : size * DEPTH], "b": b[:, : size * DEPTH], "n": np.array([size], np.int32)}
        return given | {f"d{number}": zeros.copy() for number in range(max(1, len(self.readers)))}

    def expected(self, size: int) -> Mapping[str, np.ndarray]:
        given = {name: value for name, value in self.arguments(size).items() if isinstance(value, np.ndarray)}
        a, b = (given[name].astype(np.float32) for name in "ab")
        for number, reader in enumerate(self.readers):
            columns = slice(reader.first, reader.first + reader.count)
            given[f"d{number}"][:, columns] = np.tile((a @ b.T)[:, columns], (self.tiles, 1))
        if not self.readers:
            sums = np.zeros((self.ctas * ROWS, COLUMNS), np.float32)
            for k in range(size):
                part = slice(k * DEPTH, (k + 1) * DEPTH)
                sums = sums * (k > 0) + a[:, part] @ b[:, part].T
                kept = sums
                for one in self.changes:
                    sums = sums - kept if one.endswith("- kept)") else kept * 2 if "kept" in one else _CHANGES[one](sums)
            given["d0"][...] = np.tile(sums, (self.tiles, 1))
        return given


def _reads(number: int, reader: Reader, ctas: int) -> list[str]:
    read = f"columns(acc, {reader.first}, {reader.count})"
    target = f"d{number}[(t * {ctas} + block.x) * {ROWS}, {reader.first}]"
    return [f"kept = registers({read})", f"store({target}, kept)"] if reader.kept else [f"store({target}, {read})"]


def draw(chance: random.Random) -> Accumulators:
    readers, changes = (), ()
    if chance.random() < 0.6:
        windows = ((0, COLUMNS), (0, 32), (32, 32))
        readers = tuple(
            Reader(chance.choice((4, 4, 8, 12)), *chance.choice(windows), chance.random() < 0.3)
            for _ in range(chance.choice((1, 2, 2, 3)))
        )
    else:
        changes = tuple(chance.choice(list(_CHANGES)) for _ in range(chance.choice((1, 1, 2))))
    bound = chance.choice((f"ceildiv(K, {DEPTH})", "load(n[0])"))
    drains, late = chance.choice(("", "", "", "first", "each tile", "branch")), chance.random() < 0.5
    return Accumulators(
        chance.choice((1, 1, 2)), chance.choice((1, 2)), chance.choice((1, 2)), bound, readers, changes, drains, late
    )
