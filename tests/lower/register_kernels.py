"""Kernels for sm_90a whose accumulators pass through every way out of registers; run in the simulator and, where there is one, on a GPU."""

import ml_dtypes
import numpy as np

from pipec.isa.dtypes import DTYPES

HEAD = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[OUT, M, N], bias: tensor[f32, N], scale: tensor[f32, M]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=STAGES)
    steps = ceildiv(K, 64)

    role load(warps=1) produces input:
        for k in range(steps):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])

    role compute(warps=WARPS) consumes input:
        acc = accumulator(f32, 128, 64)
        for k in range(steps):
            with input.consume() as s:
                mma(acc, s.a, s.b)
"""

# Name: element type of the output, what follows the loop, and the same in NumPy of (product, bias, scale).
BODIES = {
    "store": ("f32", "store(d[block.x * 128, block.y * 64], acc)", lambda p, c, r: p),
    "direct": ("f32", "store.direct(d[block.x * 128, block.y * 64], acc * 2.0)", lambda p, c, r: p * 2),
    "direct_bf16": ("bf16", "store.direct(d[block.x * 128, block.y * 64], cast[bf16](acc))", lambda p, c, r: p),
    "vectors": (
        "f32",
        "store(d[block.x * 128, block.y * 64], acc * per_row(scale[block.x * 128], 128) + per_column(bias[block.y * 64], 64))",
        lambda p, c, r: p * r + c,
    ),
    "reductions": (
        "f32",
        "store(d[block.x * 128, block.y * 64], acc + row_sum(acc) - row_max(acc))",
        lambda p, c, r: p + p.sum(1, keepdims=True) - p.max(1, keepdims=True),
    ),
    "kept": (
        "f32",
        """x = registers(acc * 0.5)
        most = registers(row_max(x))
        for i in range(2):
            x = x + most
        store(d[block.x * 128, block.y * 64], x)""",
        lambda p, c, r: p / 2 + p.max(1, keepdims=True),
    ),
    "positions": (
        "f32",
        "store(d[block.x * 128, block.y * 64], acc if row_index(128) >= column_index(64) else 0.0)",
        lambda p, c, r: np.where(np.arange(p.shape[0])[:, None] >= np.arange(p.shape[1])[None, :], p, 0),
    ),
}


def source(name: str, warps: int = 8, stages: int = 3) -> str:
    out, body, _ = BODIES[name]
    text = HEAD.replace("OUT", out).replace("STAGES", str(stages)).replace("WARPS", str(warps))
    return f"{text}        {body}\n"


def arguments(name: str, m: int, n: int, k: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Small integers, so that every sum is exact."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int) -> np.ndarray:
        return generator.integers(-3, 4, shape)

    d = np.zeros((m, n), np.float32 if BODIES[name][0] == "f32" else ml_dtypes.bfloat16)
    return {
        "a": draw(m, k).astype(ml_dtypes.bfloat16),
        "b": draw(n, k).astype(ml_dtypes.bfloat16),
        "d": d,
        "bias": draw(n).astype(np.float32),
        "scale": draw(m).astype(np.float32),
    }


def expected(name: str, given: dict[str, np.ndarray]) -> np.ndarray:
    product = given["a"].astype(np.float64) @ given["b"].astype(np.float64).T
    found = BODIES[name][2](product, given["bias"].astype(np.float64)[None, :], given["scale"].astype(np.float64)[:, None])
    return found.astype(np.float32).astype(given["d"].dtype)


# ---------------------------------------------------------------------------------------------- operand A in registers

OPERAND_HEAD = """
kernel gemm[AB: dtype = bf16, A: dtype = bf16, ACC: dtype = f32, BM: int = 128, BK: int = 64, WARPS: int = 8](
    a: tensor[AB, M, K], b: tensor[AB, N, K], d: tensor[OUT, M, N]):
    grid(ceildiv(M, BM), ceildiv(N, 64))
    left = InputTilePipeline(TilePayload(a=tile[AB, BM, BK]), stages=2)
    right = InputTilePipeline(TilePayload(b=tile[AB, 64, BK]), stages=2)
    steps = ceildiv(K, BK)

    role load(warps=1) produces left, right:
        for k in range(steps):
            with left.produce() as s:
                tma.load(s.a, a[block.x * BM, k * BK])
            with right.produce() as s:
                tma.load(s.b, b[block.y * 64, k * BK])

    role compute(warps=WARPS) consumes left, right:
        acc = accumulator(ACC, BM, 64)
"""

# Compile-time parameters that give each operand type its own way into the registers of A: cast from f32, two rows of blocks and one.
OPERAND_TYPES: tuple[dict[str, object], ...] = (
    {},
    {"WARPS": 4},
    {"AB": "f16", "A": "f16", "BK": 16},
    {"AB": "f16", "A": "f16", "ACC": "f16"},
    {"AB": "e4m3", "A": "e4m3", "BK": 128},
    {"AB": "e5m2", "A": "e4m3", "BK": 32, "WARPS": 4},
    {"AB": "tf32", "A": "f32", "BK": 32},
    {"AB": "tf32", "A": "f32", "BK": 8, "WARPS": 4},
    {"AB": "i8", "A": "i8", "ACC": "i32"},
    {"AB": "u8", "A": "u8", "ACC": "i32", "BK": 32, "BM": 256},
)

# Name: what follows the accumulator, and the same in NumPy of (A as blocks of K, B likewise): lists of float64 matrices.
OPERAND_BODIES = {
    # Computed for this MMA alone, from a stage that is given back before.
    "converted": (
        """for k in range(steps):
            p = left.acquire_consumer()
            x = registers(cast[f32](p.a))
            p.release()
            with right.consume() as s:
                mma(acc, cast[A](x + x), s.b)
        store.direct(d[block.x * BM, block.y * 64], cast[f32](acc))""",
        lambda a, b: sum(2 * p @ q.T for p, q in zip(a, b, strict=True)),
    ),
    # One tile from block to block, assigned while the last MMA is in flight.
    "carried": (
        """x = registers(cast[A](fill(0.0, f32, BM, BK)))
        for k in range(steps):
            with left.consume() as p:
                x = cast[A](cast[f32](p.a))
            s = right.acquire_consumer()
            mma(acc, x, s.b)
            s.release()
        store.direct(d[block.x * BM, block.y * 64], cast[f32](acc))""",
        lambda a, b: sum(p @ q.T for p, q in zip(a, b, strict=True)),
    ),
    # A tile that has other readers, multiplied twice.
    "read_again": (
        """total = registers(fill(0.0, f32, BM, 1))
        for k in range(steps):
            p = left.acquire_consumer()
            x = registers(cast[A](cast[f32](p.a)))
            p.release()
            with right.consume() as s:
                mma(acc, x, s.b)
                mma(acc, x, s.b)
            total = total + row_sum(cast[f32](x))
        store.direct(d[block.x * BM, block.y * 64], cast[f32](acc) + total)""",
        lambda a, b: sum(2 * p @ q.T + p.sum(1, keepdims=True) for p, q in zip(a, b, strict=True)),
    ),
    # Read by the threads and by the MMA from the same stage; the accumulator is scaled between the blocks.
    "scaled": (
        """for k in range(steps):
            with left.consume() as p, right.consume() as s:
                write(acc, -acc)
                mma(acc, cast[A](cast[f32](p.a) * 2.0), s.b)
        store.direct(d[block.x * BM, block.y * 64], cast[f32](acc))""",
        lambda a, b: sum(2 * p @ q.T * (-1) ** (len(a) - 1 - at) for at, (p, q) in enumerate(zip(a, b, strict=True))),
    ),
    # A product becomes the operand of the next, as in attention.
    "from_the_product": (
        """scores = accumulator(ACC, BM, 64)
        for k in range(steps):
            with left.consume() as p, right.consume() as s:
                mma(scores, p.a, s.b, accumulate=False)
                mma(acc, cast[A](min(max(scores, 0.0), 2.0)), s.b.T)
        store.direct(d[block.x * BM, block.y * 64], cast[f32](acc))""",
        lambda a, b: sum(np.clip(p @ q.T, 0, 2) @ q for p, q in zip(a, b, strict=True)),
    ),
}


def operand_runs() -> list[tuple[str, dict[str, object]]]:
    """One body with every type, the others with two (the one that turns `b` takes 16-bit types, and blocks as long as `b` is wide)."""
    some = OPERAND_TYPES[0], OPERAND_TYPES[4]
    types = {"converted": OPERAND_TYPES, "from_the_product": OPERAND_TYPES[:2]}
    return [(name, constants) for name in OPERAND_BODIES for constants in types.get(name, some)]


def operand_source(name: str) -> str:
    return OPERAND_HEAD.replace("OUT", "f32") + "        " + OPERAND_BODIES[name][0] + "\n"


def operand_arguments(constants: dict[str, object], m: int, n: int, blocks: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Integers that are exact in every type, as are the sums of their products."""
    dtype = DTYPES[str(constants.get("AB", "bf16"))]
    storage = np.dtype(getattr(ml_dtypes, str(dtype.numpy), dtype.numpy))
    generator, depth = np.random.default_rng(seed), blocks * int(str(constants.get("BK", 64)))
    low = 0 if dtype.family == "unsigned" else -2
    given = {name: generator.integers(low, 3, (size, depth)).astype(storage) for name, size in (("a", m), ("b", n))}
    return given | {"d": np.full((m, n), np.nan, np.float32)}


def operand_expected(name: str, constants: dict[str, object], given: dict[str, np.ndarray]) -> np.ndarray:
    depth = int(str(constants.get("BK", 64)))
    a, b = (np.split(given[side].astype(np.float64), given[side].shape[1] // depth, axis=1) for side in ("a", "b"))
    return OPERAND_BODIES[name][1](a, b).astype(np.float32)
