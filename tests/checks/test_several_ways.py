"""Stages that CTAs of a cluster share, filled or read in several ways: right ones are proved and compute what NumPy does."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from diagnose import Options, diagnose, outcomes
from lower.running import run

VECTOR = """
kernel k(x: tensor[f32, M, N], w: tensor[f32, N], y: tensor[f32, C, M, N]):
    grid(2 * ceildiv(M, 128))
    cluster(2)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32], w=tile[f32, 1, 32]), stages=2{shared})
    role load_in(warps=4) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                with elect():
                    tma.load(s.x, x[cluster.x * 128, k * 32]{multicast})
                {fill}
    role compute(warps=4{on}) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store.direct(y[cta.x, cluster.x * 128, k * 32], s.x * s.w)
"""
PRODUCT = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N], sums: tensor[f32, P, M, 1]):
    grid(2 * ceildiv(M, {rows}))
    cluster(2)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=2{shared})
    output = OutputTilePipeline(tmem[f32, 128, {columns}], stages=1{group})
    role load_in(warps=4) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                {fill_a}
                write(s.b, load(b[cta.x * 64, k * 64], 64, 64))
    role product(warps=4{on}) consumes input produces output:
        acc = output.acquire_mma_linear()
        total = registers(fill(0.0, f32, 128, 1))
        for k in range(ceildiv(K, 64)):
            s = input.acquire_consumer()
            with elect():
                mma(acc, s.a, s.b)
            total = total + row_sum(cast[f32](s.a{other}))
            s.release()
        acc.release()
        store.direct(sums[cta.x, {row}, 0], total)
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[{row}, {column}], acc)
"""
WRITE, COPY = "write(s.w, per_column(w[k * 32], 32))", "cp.async(s.w, w[k * 32])"
MULTICAST = {"shared": "", "multicast": ', multicast="x"', "on": ""}
PAIR = {"shared": ", cta_group=2", "multicast": "", "on": ""}
VECTORS = {
    "multicast and written": VECTOR.format(fill=WRITE, **MULTICAST),
    "multicast and copied": VECTOR.format(fill=COPY, **MULTICAST),
    "in a pair and written": VECTOR.format(fill=WRITE, **PAIR),
    "in a pair and copied": VECTOR.format(fill=COPY, **PAIR),
}
LOAD = "with elect():\n                    tma.load(s.a, a[{}, k * 64]{})"
OWN = {"rows": 128, "columns": 64, "group": "", "on": "", "row": "cluster.x * 128", "column": "cta.x * 64", "other": ""}
PRODUCTS = {
    "multicast": PRODUCT.format(shared="", fill_a=LOAD.format("cluster.x * 128", ', multicast="x"'), **OWN),
    "of a pair": PRODUCT.format(
        **OWN | {"rows": 256, "columns": 128, "group": ", cta_group=2", "on": ', on="leader"', "row": "block.x * 128", "column": "0"},
        shared=", cta_group=2",
        fill_a=LOAD.format("block.x * 128", ""),
    ),
    "of the cluster": PRODUCT.format(
        **OWN | {"other": ".of(1 - cta.x)"},
        shared=', scope="cluster"',
        fill_a="write(s.a, load(a[cluster.x * 128, k * 64], 128, 64))",
    ),
}  # fmt: skip


def computes(text: str, made: Callable[[], tuple[np.ndarray, ...]], wanted: Callable[..., bool]) -> None:
    assert outcomes("k.pipe", text, Options()) == ["proved"], diagnose("k.pipe", text)
    for timing in ("order", "late", "random"):
        arrays = made()
        run(text, "k", *arrays, timing=timing)
        assert wanted(*arrays), timing


@pytest.mark.parametrize("name", VECTORS)
def test_stages_are_filled_in_two_ways(name: str) -> None:
    def made() -> tuple[np.ndarray, ...]:
        draw = np.random.default_rng(1)
        x, w = draw.integers(-4, 4, (200, 160)), draw.integers(-4, 4, 160)
        return x.astype(np.float32), w.astype(np.float32), np.zeros((2, 200, 160), np.float32)

    computes(VECTORS[name], made, lambda x, w, y: np.array_equal(y, np.stack([x * w] * 2)))


@pytest.mark.parametrize("name", PRODUCTS)
def test_stages_are_read_in_two_ways(name: str) -> None:
    def made() -> tuple[np.ndarray, ...]:
        draw = np.random.default_rng(1)
        a, b = (draw.integers(-2, 3, (rows, 320)).astype(ml_dtypes.bfloat16) for rows in (200, 128))
        return a, b, np.zeros((200, 128), np.float32), np.zeros((2, 200, 1), np.float32)

    def wanted(a: np.ndarray, b: np.ndarray, d: np.ndarray, sums: np.ndarray) -> bool:
        expected = np.stack([a.astype(np.float32).sum(1)] * 2)[:, :, None]
        if "pair" in name:  # the leader has summed up its own rows
            expected[0, 128:], expected[1] = 0, 0
        return np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T) and np.array_equal(sums, expected)

    computes(PRODUCTS[name], made, wanted)


RELEASE = " " * 12 + "s.release()"
COMMIT = "            with elect():\n                mma.commit(s.mbar())"
WRONG = {
    "one tile twice": (VECTORS["multicast and written"].replace(WRITE, f"{WRITE}\n                {COPY}"), "E0505"),
    "copies for the leader": (VECTOR.format(fill=COPY, **PAIR | {"on": ', on="leader"'}), "E0455"),
    "a tile that other CTAs do not see": (
        PRODUCTS["of the cluster"].replace("write(s.a, load(a[cluster.x * 128, k * 64], 128, 64))", LOAD.format("0", "")), "E0458",
    ),
    "given back by the threads alone": (PRODUCTS["multicast"].replace(RELEASE, f"{' ' * 12}s.arrive()\n{RELEASE}"), "E0508"),
    "by the products alone": (PRODUCTS["multicast"].replace(RELEASE, f"{COMMIT}\n{RELEASE}"), "E0508"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_ones_are_refused(case: str) -> None:
    text, code = WRONG[case]
    assert code in [one.code for one in diagnose("k.pipe", text)]
