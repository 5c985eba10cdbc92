"""Tiles in registers on the simulator: who has which element, state over loops, branches and releases, several rows to a thread."""

import numpy as np
import pytest
from running import exact, run, values

pytestmark = pytest.mark.combinations(0.35)

ACCUMULATE = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[{out}, M, N], e: tensor[f32, M, 1]):
    grid(ceildiv(M, {rows}), 1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, {rows}, 32], b=tile[bf16, {columns}, 32]), stages=2)
    output = OutputTilePipeline(tmem[f32, {rows}, {columns}], stages=2)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 32)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * {rows}, k * 32])
                tma.load(s.b, b[0, k * 32])
    role mma(warps=1) consumes input produces output:
        for k in range(ceildiv(K, 32)):
            with output.produce() as acc, input.consume() as s:
                mma(acc, s.a, s.b)
    role epilogue(warps={warps}) consumes output:
        total = registers(fill(0.0, f32, {rows}, {columns}))
        largest = registers(fill(-1.0e30, f32, {rows}, 1))
        for k in range(ceildiv(K, 32)):
            stage = output.acquire_epilogue_linear()
            part = registers(stage.tmem())
            stage.release()
            largest = max(largest, row_max(part))
            total = total + part
        {store}(d[block.x * {rows}, 0], cast[{out}](total))
        store.direct(e[block.x * {rows}, 0], largest + row_sum(total))
"""


@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize(
    ("rows", "columns", "warps", "out"),
    [
        (128, 64, 4, "f32"),
        (128, 24, 4, "bf16"),
        (128, 64, 8, "bf16"),
        (64, 64, 4, "bf16"),
        (64, 24, 4, "f32"),
        (64, 8, 8, "bf16"),
        (64, 32, 8, "e4m3"),
    ],
)
def test_accumulators_over_a_loop(rows, columns, warps, out, store):
    source = ACCUMULATE.format(rows=rows, columns=columns, warps=warps, out=out, store=store)
    m, k = rows + 8, 72
    a, b = values((m, k), "bf16", 1), values((columns, k), "bf16", 2)
    d, e = values((m, columns), out), np.zeros((m, 1), np.float32)
    run(source, "k", a, b, d, e)
    parts = [exact(a)[:, i : i + 32] @ exact(b)[:, i : i + 32].T for i in range(0, k, 32)]
    expected = sum(parts)
    np.testing.assert_array_equal(exact(d), exact(expected.astype(d.dtype)))
    np.testing.assert_array_equal(e[:, 0], np.max(parts, axis=(0, 2)) + expected.sum(1))


STATE = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N], flag: i32):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, {rows}, 32]), stages=2)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps={warps}) consumes ring:
        s = ring.acquire_consumer()
        values = registers(s.x)
        s.release()
        {body}
        store(y[0, 0], values)
"""
BODIES = {
    "values += values": lambda x, flag: 2 * x,
    "before = values * 2.0\n        values = values + 1.0\n        values = values + before": lambda x, flag: 3 * x + 1,
    "copy = registers(values)\n        values = values * 0.0\n        values = values + copy": lambda x, flag: x,
    "values = values - row_max(values)": lambda x, flag: x - x.max(1, keepdims=True),
    "if flag > 0:\n            values = values + 1.0\n        else:\n            values = -values": lambda x, flag: (
        x + 1 if flag else -x
    ),
    "for i in range(flag + 2):\n            values = values * 2.0": lambda x, flag: x * 2 ** (flag + 2),
    "values = values + cast[f32](row_index(ROWS) * 100 + column_index(32))": lambda x, flag: (
        x + 100 * np.arange(len(x))[:, None] + np.arange(32)
    ),
    "half = registers(cast[bf16](values))\n        values = half + values": lambda x, flag: 2 * x,
}


@pytest.mark.parametrize(("rows", "warps"), [(128, 4), (64, 1), (64, 4), (16, 1), (96, 2)])
@pytest.mark.parametrize("body", BODIES)
def test_state(body, rows, warps):
    x = values((rows, 32), "f32", 3)
    for flag in (0, 1):
        y = np.zeros_like(x)
        run(STATE.format(rows=rows, warps=warps, body=body.replace("ROWS", str(rows))), "k", x, y, flag)
        np.testing.assert_array_equal(y, BODIES[body](exact(x), flag))


AFTERWARDS = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2)
    role load(warps=1) produces ring:
        for i in range(ceildiv(M, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[i * 32, 0])
    role add(warps=2) consumes ring:
        total = registers(fill(0.0, f32, 32, 64))
        for i in range(ceildiv(M, 32)):
            with ring.consume() as s:
                v = registers(s.x)
                row = i * 32
            total = total + v
            store.direct(y[row, 0], total)
"""


@pytest.mark.parametrize("rows", [32, 96, 200])
def test_tiles_outlast_the_stage_they_come_from(rows: int) -> None:
    """Taken into registers inside a `with`, and used while the stage is filled again."""
    x = values((rows, 64), "f32")
    y = np.zeros_like(x)
    run(AFTERWARDS, "k", x, y)
    blocks = [x[first : first + 32].astype(np.float64) for first in range(0, rows, 32)]
    total, expected = np.zeros((32, 64)), np.zeros((rows, 64))
    for number, block in enumerate(blocks):
        total[: len(block)] += block
        expected[number * 32 : number * 32 + len(block)] = total[: len(block)]
    np.testing.assert_array_equal(y, expected)
