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


READ = """
kernel parts(x: tensor[f32, B, M, 32], lengths: tensor[i32, B], scales: tensor[f32, B], y: tensor[f32, B, M, 32]):
    grid(2, B)
    programmatic_launch()
    length = min(max(load(lengths[block.y]), 0), M)
    steps = ceildiv(length, 32)
    scale = load(scales[block.y]) * 0.5
    any_rows = length > 0
    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 32]), stages=2)

    role load(warps=1) produces ring:
        {wait}
        for i in range(block.x, steps, 2):
            with ring.produce() as s:
                tma.load(s.x, x[block.y, i * 32, 0])

    role scale_rows(warps=4) consumes ring:
        if any_rows:
            for i in range(block.x, steps, 2):
                with ring.consume() as s:
                    store(y[block.y, i * 32, 0], s.x * scale, rows=length - i * 32)
"""


@pytest.mark.parametrize("wait", ["pass", "griddepcontrol.wait()"])
def test_names_are_read_from_memory(wait: str) -> None:
    """Once in each role that uses them, behind its wait for preceding grids."""
    program = pipec.compile(READ.format(wait=wait))
    assert "no role waits for ever" in " ".join(program.report["parts"].proofs)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((4, 100, 32)).astype(np.float32)
    lengths, scales = np.array([0, 100, 7, 64], np.int32), np.array([1, 2, -4, 8], np.float32)
    y = np.zeros_like(x)
    program["parts"](x, lengths, scales, y, device="sim")
    seen = np.arange(100)[None, :, None] < lengths[:, None, None]
    assert np.array_equal(y, np.where(seen, x * (scales / 2)[:, None, None], 0))


def test_a_role_reads_a_name_before_it_stores_there() -> None:
    text = """
kernel bump(counts: tensor[i32, N], y: tensor[i32, N]):
    grid(N)
    before = load(counts[block.x])

    role bump(warps=1):
        store.direct(counts[block.x], before + 1)
        store.direct(y[block.x], before)
"""
    counts, y = np.array([5, 0, 7], np.int32), np.zeros(3, np.int32)
    pipec.compile(text)["bump"](counts, y, device="sim")
    assert counts.tolist() == [6, 1, 8] and y.tolist() == [5, 0, 7]
