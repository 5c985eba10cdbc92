"""Random GEMMs whose elements share scale factors along K: NVFP4, MXFP4, and 8-bit floats with powers of two.

Tiles, stages, the loop over K and the order in which stages are given back vary. What a kernel computes is worked out here from the bytes
of its arrays, in float64: tables of what a byte stands for, and where the factor of a row and a block lies in its chunk. Elements and
factors are so few that every sum is exact in f32.
"""

import random
from dataclasses import dataclass

import ml_dtypes
import numpy as np

E2M1 = np.array([sign * one for sign in (1, -1) for one in (0, 0.5, 1, 1.5, 2, 3, 4, 6)])
_MOST = 160_000  # bytes of all stages
_MOST_COLUMNS = 384  # of accumulators of two roles, beside the factors
CHUNK, ROWS = 512, 128  # bytes of a chunk of factors; rows of it, with four blocks each


def _e4m3(byte: int) -> float:
    """Small numbers only."""
    exponent, fraction = byte >> 3 & 15, byte & 7
    return (1 - 2 * (byte >> 7)) * (2.0 ** (exponent - 7) * (1 + fraction / 8) if exponent else fraction * 2.0**-9)


def _e5m2(byte: int) -> float:
    exponent, fraction = byte >> 2 & 31, byte & 3
    return (1 - 2 * (byte >> 7)) * (2.0 ** (exponent - 15) * (1 + fraction / 4) if exponent else fraction * 2.0**-16)


# Bytes of elements and of factors. Of 8-bit elements: 0, 0.5, 1, 1.5, 2 and their negatives.
_E4M3 = (0, 0x30, 0x38, 0x3C, 0x40, 0xB0, 0xB8, 0xBC, 0xC0)
_E5M2 = (0, 0x38, 0x3C, 0x3E, 0x40, 0xB8, 0xBC, 0xBE, 0xC0)
_FACTORS = {"ue4m3": (0x30, 0x38, 0x3C, 0x40), "ue8m0": (126, 127, 128)}

_NUMPY = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "ue4m3": ml_dtypes.float8_e4m3fn,
    "ue8m0": ml_dtypes.float8_e8m0fnu,
}


@dataclass(frozen=True)
class Kind:
    """`block`: elements that share a factor. `bits`: of an element in memory."""

    a: str
    b: str
    factors: str
    block: int
    bits: int


KINDS = (
    Kind("e2m1", "e2m1", "ue4m3", 16, 4),
    Kind("e2m1", "e2m1", "ue8m0", 32, 4),
    *(Kind(a, b, "ue8m0", 32, 8) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
)


@dataclass(frozen=True)
class Program:
    source: str
    kind: Kind

    def sizes(self, chance: random.Random) -> tuple[int, int, int]:
        step = 128 // self.kind.bits  # a row of whole 16 bytes
        return chance.choice((8, 72, 128, 200)), chance.choice((8, 64, 136, 200)), step * chance.choice((0, 1, 2, 5, 9, 12, 19))

    def numpy(self, name: str) -> type:
        """The type of an array; packed elements are bytes."""
        dtype = {"a": self.kind.a, "b": self.kind.b}.get(name, self.kind.factors)
        return _NUMPY.get(dtype, np.uint8)

    def arguments(self, m: int, n: int, k: int) -> dict[str, np.ndarray]:
        """As bytes."""
        numbers, kind = np.random.default_rng(m + n + k), self.kind
        made: dict[str, np.ndarray] = {}
        for name, rows, dtype in (("a", m, kind.a), ("b", n, kind.b)):
            if kind.bits == 4:
                made[name] = numbers.integers(0, 256, (rows, k // 2)).astype(np.uint8)
            else:
                made[name] = numbers.choice(_E4M3 if dtype == "e4m3" else _E5M2, (rows, k)).astype(np.uint8)
            # Behind the last row and block as well: nothing of that may be seen.
            shape = -(-rows // ROWS), -(-k // (4 * kind.block)), CHUNK
            made[f"sf{name}"] = numbers.choice(_FACTORS[kind.factors], shape).astype(np.uint8)
        return made | {"d": np.full((m, n), -7, np.float32)}

    def expected(self, given: dict[str, np.ndarray], k: int) -> np.ndarray:
        a, b = (self._numbers(given[name], given[f"sf{name}"], k, dtype)
                for name, dtype in (("a", self.kind.a), ("b", self.kind.b)))  # fmt: skip
        return a @ b.T

    def _numbers(self, elements: np.ndarray, factors: np.ndarray, k: int, dtype: str) -> np.ndarray:
        rows = len(elements)
        if self.kind.bits == 4:
            found = np.empty((rows, k))
            found[:, 0::2], found[:, 1::2] = E2M1[elements & 15], E2M1[elements >> 4]
        else:
            found = np.vectorize(_e4m3 if dtype == "e4m3" else _e5m2, otypes=[np.float64])(elements) if k else np.empty((rows, 0))
        for row in range(rows):
            for block in range(-(-k // self.kind.block)):
                chunk = factors[row // ROWS, block // 4]
                byte = int(chunk[row % 32 * 16 + row % ROWS // 32 * 4 + block % 4])
                factor = _e4m3(byte) if self.kind.factors == "ue4m3" else 2.0 ** (byte - 127)
                found[row, block * self.kind.block : (block + 1) * self.kind.block] *= factor
        return found


def draw(chance: random.Random) -> Program:
    kind = chance.choice((*KINDS[:2] * 3, *KINDS[2:]))
    chunk = 4 * kind.block
    bn, bk = chance.choice((64, 128, 192, 256)), chunk * chance.choice((1, 1, 2) if kind.bits == 8 else (2, 2, 4))
    if kind.factors == "ue4m3" and chance.random() < 0.3:
        bk = chunk
    persistent = chance.random() < 0.5
    tile = "tile" if persistent else "block"
    pad = "    " if persistent else ""
    room = _MOST // ((ROWS + bn) * bk * kind.bits // 8 + (ROWS + -(-bn // ROWS) * ROWS) * bk // kind.block)
    stages, outputs = min(chance.choice((1, 2, 3)), room), chance.choice((1, 2)) if persistent and bn < 256 else 1
    row = f", sfb_row={tile}.y * BN % 128" if bn % 128 else chance.choice(("", f", sfb_row={tile}.y * BN % 128"))
    loads = [
        f"tma.load(s.a, a[{tile}.x * BM, k * BK])",
        f"tma.load(s.b, b[{tile}.y * BN, k * BK])",
        f"tma.load(s.sfa, sfa[{tile}.x, k * (BK // {chunk}), 0])",
        f"tma.load(s.sfb, sfb[{tile}.y * BN // 128, k * (BK // {chunk}), 0])",
    ]
    chance.shuffle(loads)
    product = f"mma(acc, s.a, s.b, s.sfa, s.sfb{row})"
    held = ["s = input.acquire_consumer()", product, "mma.commit(s.mbar())", "s.release()"]
    consumed = chance.choice((["with input.consume() as s:", "    " + product], held))
    count = chance.choice(("ceildiv(K, BK)", "ceildiv(K, BK)", "(K + BK - 1) // BK"))
    produced = ["with input.produce() as s:", *(f"    {one}" for one in loads)]
    again = ["for tile in tiles:"] if persistent else []

    def role(head: str, body: list[str]) -> list[str]:
        return [f"    role {head}:", *(f"        {one}" for one in again), *(f"        {pad}{one}" for one in body), ""]

    scheduler = chance.choice(('mode="static", blocks=2', 'mode="static"', 'mode="clc"'))
    # Another role multiplies the same stages, and the epilogue takes the mean of both.
    results = ["output", "beside"] if 2 * outputs * bn <= _MOST_COLUMNS and chance.random() < 0.3 else ["output"]
    held_by = ", ".join(f"{name}.consume() as of_{name}" for name in results)
    mean = f"({' + '.join(f'of_{name}' for name in results)}) * {1 / len(results)}"
    grid = "    grid(ceildiv(M, BM), ceildiv(N, BN))"
    if persistent:
        grid = f"    tiles = TileScheduler(ceildiv(M, BM), ceildiv(N, BN), {scheduler})"
    source = [
        f"kernel k[BM: int = 128, BN: int = {bn}, BK: int = {bk}](",
        f"    a: tensor[{kind.a}, M, K], b: tensor[{kind.b}, N, K],",
        f"    sfa: tensor[{kind.factors}, MC, KC, {CHUNK}], sfb: tensor[{kind.factors}, NC, KC, {CHUNK}], d: tensor[f32, M, N],",
        "):",
        grid,
        "    input = InputTilePipeline(BlockScaledTilePayload(",
        f"        a=tile[{kind.a}, BM, BK], b=tile[{kind.b}, BN, BK],",
        f"        sfa=tile[{kind.factors}, BM, BK // {kind.block}],",
        f"        sfb=tile[{kind.factors}, ceildiv(BN, 128) * 128, BK // {kind.block}],",
        f"    ), stages={stages})",
        *(f"    {name} = OutputTilePipeline(tmem[f32, BM, BN], stages={outputs})" for name in results),
        "",
        *role("load(warps=1) produces input", [f"for k in range({count}):", *(f"    {one}" for one in produced)]),
        *(line for name in results for line in role(
            f"for_{name}(warps=1) consumes input produces {name}",
            [f"with {name}.produce() as acc:", f"    for k in range({count}):", *(f"        {one}" for one in consumed)])),
        *role(f"epilogue(warps=4) consumes {', '.join(results)}",
              [f"with {held_by}:", f"    store(d[{tile}.x * BM, {tile}.y * BN], {mean})"]),
    ]  # fmt: skip
    return Program("\n".join(source), kind)
