"""Names outside of roles stand for expressions that each role evaluates for its block."""

import numpy as np
import pytest

import pipec

SOURCE = """
kernel scaled(x: tensor[f32, M, K], y: tensor[f32, M, K], alpha: f32):
    {outside}
    grid(ceildiv(M, 64), 2)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2)

    role load(warps=1) produces ring:
        {inside}
        for k in range(ceildiv(K, 64)):
            with ring.produce() as s:
                tma.load(s.x, x[m, k * 64 + n])

    role scale(warps=4) consumes ring:
        {inside}
        for k in range(ceildiv(K, 64)):
            with ring.consume() as s:
                store(y[m, k * 64 + n], s.x * (alpha * factor))
"""
NAMES = ("m = block.x * 64", "n = 32 if block.y > 0 else 0", "factor = abs(alpha) + 0.5")


@pytest.mark.parametrize("where", ["outside", "inside"])
def test_names_depend_on_the_block(where: str) -> None:
    lines = {"outside": "\n    ".join(NAMES), "inside": "\n        ".join(NAMES)}
    kernel = pipec.compile(SOURCE.format(**{"outside": "", "inside": ""} | {where: lines[where]}))["scaled"]
    x = np.random.default_rng(0).standard_normal((150, 136), np.float32)
    y = np.zeros_like(x)
    kernel(x, y, -1.25, device="sim")
    np.testing.assert_allclose(y, x.astype(np.float64) * (-1.25 * 1.75), rtol=1e-6)
