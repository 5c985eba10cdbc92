"""Random GEMMs whose tiles are dealt out: to blocks, clusters, pairs of CTAs and roles that take turns.

A turn of the loop over tiles has one to five shares. Operands are plain, have scale factors that the tensor cores apply, or scales that the
epilogue applies after each block of K; a residual comes in panels. Most kernels are meant to be right; some have a share too few, skip a
stage too many or forget to take turns, which the compiler has to refuse. Operands are small whole numbers and scales powers of two, so
that sums are exact.
"""

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from pipec.reference.packed_arrays import chunked, scaled

Size = tuple[int, int, int]
TURNS: tuple[Size, ...] = ((2, 3, 2), (1, 1, 0), (3, 1, 1))  # tiles along M and N, blocks of K
Lines = list[str]
_NUMPY = {"bf16": ml_dtypes.bfloat16, "e4m3": ml_dtypes.float8_e4m3fn}


@dataclass(frozen=True)
class Program:
    """`rows`, `columns`: of what a cluster multiplies at once. `ragged`: what is missing of the last tile."""

    source: str
    arch: str
    dtype: str
    scales: str
    rows: int
    columns: int
    depth: int
    ragged: int
    residual: bool

    def _sizes(self, size: Size) -> Size:
        m, n, k = size
        return m * self.rows - self.ragged, n * self.columns - self.ragged, k * self.depth

    def arguments(self, size: Size) -> dict[str, object]:
        m, n, k = self._sizes(size)
        chance = np.random.default_rng(size)
        made: dict[str, object] = {
            "a": chance.integers(-2, 3, (m, k)).astype(_NUMPY[self.dtype]),
            "b": chance.integers(-2, 3, (n, k)).astype(_NUMPY[self.dtype]),
            "d": np.full((m, n), -7, np.float32),
        }
        if self.residual:
            made["c"] = chance.integers(-9, 10, (m, n)).astype(np.float32)
        if self.scales == "tensor cores":
            for name, rows in (("sfa", m), ("sfb", n)):
                made[name] = chunked(chance.choice((0.5, 1.0, 2.0), (rows, k // 32)).astype(ml_dtypes.float8_e8m0fnu))
        elif self.scales == "epilogue":
            made["scales"] = chance.choice((0.5, 1.0, 2.0), (k // self.depth, (m + 3) // 4 * 4)).astype(np.float32)
        return made

    def expected(self, size: Size) -> dict[str, np.ndarray]:
        known = self.arguments(size)
        a, b = (np.asarray(known[name]).astype(np.float32) for name in "ab")
        m, n, _ = self._sizes(size)
        if self.scales == "tensor cores":
            a, b = (scaled(one, np.asarray(known[name]).astype(np.float32), 32) for one, name in ((a, "sfa"), (b, "sfb")))
        elif self.scales == "epilogue":
            a = a * np.repeat(np.asarray(known["scales"])[:, :m].T, self.depth, axis=1)
        d = (a @ b.T).astype(np.float32).reshape(m, n)
        return {"d": d + known["c"] if self.residual else d}


def draw(chance: random.Random) -> Program:
    return _Writer(chance).program()


class _Writer:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.hopper = chance.random() < 0.35
        self.scales = "" if self.hopper else chance.choice(("", "", "tensor cores", "epilogue"))
        self.pair = not self.hopper and self.scales != "epilogue" and chance.random() < 0.35
        self.cluster = chance.choice(((2, 1), (2, 1), (4, 1)) if self.pair else ((1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (4, 2)))
        if self.scales:
            self.cluster = (2, 1) if self.pair else (1, 1)
        self.dtype = "e4m3" if self.scales else "bf16"
        self.bm = 64 if self.hopper else 128
        self.bn = chance.choice((64, 128) if self.scales == "tensor cores" else (32, 64))
        self.bk = {"": chance.choice((16, 32)), "tensor cores": 128, "epilogue": 128}[self.scales]
        self.stages, self.outputs = chance.choice((1, 2, 3, 5)), chance.choice((1, 2, 2, 3))
        self.shares = chance.choice((1, 1, 2, 3, 4, 5))
        self.roles = chance.choice((1, 2, 2, 3)) if self.shares > 1 else 1  # which take the shares in turn
        if self.roles > self.shares or self.scales == "epilogue":
            self.roles = 1
        self.residual = self.roles == 1 and self.scales != "epilogue" and chance.random() < 0.3
        self.wrong = chance.choice(("",) * 8 + ("share", "skip", "turn", "guard"))
        self.turn = self.roles == 2 and self.wrong != "turn"
        self.shares += self.shares % 2 if self.turn else 0
        self.dealt = chance.choice(("grid.x", "constant"))
        self.blocks = chance.choice((1, 2, 3))  # clusters, at most

    # -------------------------------------------------------------------------------------------------------------- tiles

    def row(self, t: str) -> str:
        cx = self.cluster[0]
        return f"(({t}) % down * {cx} + cta.x) * {self.bm}" if cx > 1 else f"({t}) % down * {self.bm}"

    def column(self, t: str) -> str:
        cy = self.cluster[1]
        return f"(({t}) // down * {cy} + cta.y) * {self.bn}" if cy > 1 else f"({t}) // down * {self.bn}"

    def walk(self, role: int | None, take: list[Lines], skip: Lines) -> Lines:
        """The loop over tiles; `take` has one body for each share, and a role that takes turns skips the others."""
        body: Lines = []
        for share, lines in enumerate(take):
            mine = role is None or share % self.roles == role
            if self.wrong == "skip" and not mine and share == self.shares - 1:
                continue
            if mine and self.turn and role == 1:
                body += lines  # has conditions of its own
            else:
                body += self.guarded(share, lines if mine else skip, wrong=self.wrong == "guard" and role == 1)
        step = f"{self.shares} * {self.each()}"
        return [f"for t in range(cluster.x, down * across, {step}):", *_in(body or ["pass"])]

    def guarded(self, share: int, lines: Lines, *, wrong: bool = False) -> Lines:
        if not share or not lines:
            return lines
        return [f"if {self.at(share)} {'<=' if wrong else '<'} down * across:", *_in(lines)]

    def each(self) -> str:
        return "clusters.x" if self.dealt == "grid.x" else str(self.blocks)

    def taken(self, role: int | None, share: int, loop: Lines, tail: Lines) -> Lines:
        """The MMAs of a share, in the role's turn, and what follows them. A turn is passed on by who has no share, too."""
        if not self.turn:
            return [*loop, *tail]
        if role == 0:
            return ["with turn.produce():", *_in(loop), *tail]
        turn = ["with turn.consume():", *_in(self.guarded(share, loop))]
        return [*self.guarded(share - 1, turn), *self.guarded(share, tail)]

    def at(self, share: int) -> str:
        return f"t + {share} * {self.each()}" if share else "t"

    def steps(self) -> str:
        return f"for k in range(ceildiv(K, {self.bk})):"

    # -------------------------------------------------------------------------------------------------------------- roles

    def load(self) -> Lines:
        cx, cy = self.cluster
        a_cast = ', multicast="y"' if cy > 1 else ""
        b_cast = ', multicast="x"' if cx > (2 if self.pair else 1) else ""
        half = f" + cta.x % 2 * {self.bn // 2}" if self.pair else ""
        bodies = []
        for share in range(self.shares - (self.wrong == "share" and self.shares > 1)):
            m, n = self.row(self.at(share)), self.column(self.at(share))
            loads = [f"tma.load(s.a, a[{m}, k * {self.bk}]{a_cast})", f"tma.load(s.b, b[{n}{half}, k * {self.bk}]{b_cast})"]
            if self.scales == "tensor cores":
                loads += [
                    f"tma.load(s.sfa, sfa[({m}) // 128, k * {self.bk // 128}, 0])",
                    f"tma.load(s.sfb, sfb[({n}) // 128, k * {self.bk // 128}, 0])",
                ]
            elif self.scales == "epilogue":
                loads.append(f"tma.load(s.a_scales, scales[k, {m}])")
            bodies.append([self.steps(), "    with input.produce() as s:", *_in(_in(loads))])
        return self.walk(None, bodies, [])

    def products(self, acc: str, n: str) -> Lines:
        if self.scales == "tensor cores":
            return [f"mma({acc}, s.a, s.b, s.sfa, s.sfb, sfb_row=({n}) % 128)"]
        return [f"mma({acc}, s.a, s.b)"]

    def multiply(self, role: int | None) -> Lines:
        """A role of MMAs, where there is tensor memory."""
        output = f"output{role or 0}"
        bodies = []
        for share in range(self.shares):
            inner = self.products("acc", self.column(self.at(share)))
            explicit = self.scales != "epilogue" and self.chance.random() < 0.3
            consume = "input.consume_explicit()" if explicit else "input.consume()"
            if explicit:
                inner = [*inner, "mma.commit(s.mbar())"]
            if self.scales == "epilogue":
                bodies.append([self.steps(), f"    with each.produce() as acc, {consume} as s:", *_in(_in(inner))])
            else:
                loop = [
                    f"with {output}.produce() as acc:",
                    f"    {self.steps()}",
                    f"        with {consume} as s:",
                    *_in(_in(_in(inner))),
                ]
                bodies.append(self.taken(role, share, loop, []))
        head = ["each = output0.per_k()"] if self.scales == "epilogue" else []
        return [*head, *self.walk(role, bodies, [self.steps(), "    input.skip()"])]

    def stored(self, share: int, value: str) -> Lines:
        m, n = self.row(self.at(share)), self.column(self.at(share))
        if not self.residual:
            return [f"store(d[{m}, {n}], {value})"]
        panel = self.bn // 2
        value = f"columns({value}, j * {panel}, {panel}) + panels[stage.index()]"
        return ["for j in range(2):", "    with source.consume() as stage:", f"        store(d[{m}, {n} + j * {panel}], {value})"]

    def epilogue(self, role: int | None) -> Lines:
        output = f"output{role or 0}"
        bodies = []
        for share in range(self.shares):
            if self.scales == "epilogue":
                body = [
                    f"total = registers(fill(0.0, f32, {self.bm}, {self.bn}))",
                    self.steps(),
                    "    with output0.per_k_epilogue(input) as stage:",
                    "        total = total + stage.tmem() * stage.a_scales.T",
                    *self.stored(share, "total"),
                ]
            else:
                body = [f"with {output}.consume() as acc:", *_in(self.stored(share, "acc"))]
            # (What takes turns has its conditions where the turn is taken.)
            bodies.append(self.guarded(share, body) if self.turn and role == 1 else body)
        return self.walk(role, bodies, [])

    def compute(self, role: int | None) -> Lines:
        """A role that multiplies and stores, on Hopper."""
        bodies = []
        for share in range(self.shares):
            loop = [self.steps(), "    with input.consume() as s:", *_in(_in(self.products("acc", "")))]
            first = f"acc = accumulator(f32, {self.bm}, {self.bn})"
            bodies.append([first, *self.taken(role, share, loop, self.stored(share, "acc"))])
        return self.walk(role, bodies, [self.steps(), "    input.skip()"])

    # --------------------------------------------------------------------------------------------------------------- text

    def head(self) -> Lines:
        cx, cy = self.cluster
        group = ", cta_group=2" if self.pair else ""
        grid = f"min(down * across, {self.blocks}) * {cx}"
        lines = [f"cluster({cx}, {cy})"] if self.cluster != (1, 1) else []
        down, across = f"ceildiv(M, {self.bm * cx})", f"ceildiv(N, {self.bn * cy})"
        lines += [f"down = {down}", f"across = {across}", f"grid({grid}, {cy})"]
        if self.chance.random() < 0.5:
            lines.append("programmatic_launch()")
        b_rows = self.bn // 2 if self.pair else self.bn
        tiles = f"a=tile[{self.dtype}, {self.bm}, {self.bk}], b=tile[{self.dtype}, {b_rows}, {self.bk}]"
        payload = f"StandardTilePayload({tiles})"
        if self.scales == "tensor cores":
            payload = f"BlockScaledTilePayload({tiles}, sfa=tile[ue8m0, {self.bm}, {self.bk // 32}], sfb=tile[ue8m0, 128, {self.bk // 32}])"
        elif self.scales == "epilogue":
            payload = f"BlockwiseFP8TilePayload({tiles}, a_scales=tile[f32, 1, {self.bm}])"
        lines.append(f"input = InputTilePipeline({payload}, stages={self.stages}{group})")
        if not self.hopper:
            outputs = f"OutputTilePipeline(tmem[f32, {self.bm}, {self.bn}], stages={self.outputs}{group})"
            lines += [f"output{role} = {outputs}" for role in range(self.roles)]
        if self.turn:
            lines.append(f"turn = ProducerConsumerPipeline(stages=1{group})")
        if self.residual:
            count = self.chance.choice((1, 2, 3))
            lines.append(f"source = EpiLoadPipeline(stages={count})")
            lines.append(f"panels = SharedTiles(tile[f32, {self.bm}, {self.bn // 2}], count={count})")
        return lines

    def program(self) -> Program:
        tensors = [f"a: tensor[{self.dtype}, M, K]", f"b: tensor[{self.dtype}, N, K]", "d: tensor[f32, M, N]"]
        if self.residual:
            tensors.append("c: tensor[f32, M, N]")
        if self.scales == "tensor cores":
            tensors += ["sfa: tensor[ue8m0, MC, KC, 512]", "sfb: tensor[ue8m0, NC, KC, 512]"]
        elif self.scales == "epilogue":
            tensors.append("scales: tensor[f32, KB, MS]")
        text = [f"kernel k({', '.join(tensors)}):", *_in(self.head())]
        roles: list[tuple[str, Lines]] = [("load(warps=1) produces input", self.load())]
        if self.residual:
            roles.append(("fetch(warps=1) produces source", self.fetch()))
        source = ", source" if self.residual else ""
        for number in range(self.roles) if self.roles > 1 else (None,):
            roles += self.of_hopper(number, source) if self.hopper else self.of_blackwell(number, source)
        for role_text, body in roles:
            text += [f"    role {role_text}:", *_in(_in(body))]
        rows, columns = self.bm * self.cluster[0], self.bn * self.cluster[1]
        ragged = self.chance.choice((0, 0, 8, 24))
        source_text = "\n".join(text) + "\n"
        arch = "sm_90a" if self.hopper else "sm_100a"
        return Program(source_text, arch, self.dtype, self.scales, rows, columns, self.bk, ragged, self.residual)

    def of_hopper(self, role: int | None, source: str) -> list[tuple[str, Lines]]:
        consumes, produces = self.handed(role)
        return [
            (
                f"compute{role or 0}(warps=4) consumes input{source}{consumes}{f' produces {produces}' if produces else ''}",
                self.compute(role),
            )
        ]

    def handed(self, role: int | None) -> tuple[str, str]:
        """What stands behind `consumes` and `produces` of a role that takes turns."""
        return ((", turn", "") if role else ("", "turn")) if self.turn else ("", "")

    def of_blackwell(self, role: int | None, source: str) -> list[tuple[str, Lines]]:
        leader = ', on="leader"' if self.pair else ""
        more = ", input" if self.scales == "epilogue" else ""
        consumes, produces = self.handed(role)
        return [
            (f"epilogue{role or 0}(warps=4) consumes output{role or 0}{more}{source}", self.epilogue(role)),
            (
                f"multiply{role or 0}(warps=1{leader}) consumes input{consumes} produces output{role or 0}{produces and ', ' + produces}",
                self.multiply(role),
            ),
        ]

    def fetch(self) -> Lines:
        panel = self.bn // 2
        bodies = []
        for share in range(self.shares):
            m, n = self.row(self.at(share)), self.column(self.at(share))
            load = f"tma.load(panels[stage.index()], c[{m}, {n} + j * {panel}], stage.mbar())"
            bodies.append(["for j in range(2):", "    with source.produce() as stage:", f"        {load}"])
        return self.walk(None, bodies, [])


def _in(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]
