"""Kernels for sm_90a whose accumulators pass through every way out of registers; run in the simulator and, where there is one, on a GPU."""

import ml_dtypes
import numpy as np

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
