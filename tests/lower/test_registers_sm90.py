"""Accumulators in registers: every way out of them, and when the MMAs in flight are waited for."""

import numpy as np
import pytest
from lower.register_kernels import BODIES, arguments, expected, source

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options


def run(text: str, given: dict[str, np.ndarray], timing: str = "late", **constants: object) -> None:
    kernel = pipec.compile(text, arch="sm_90a", constants=constants)["gemm"]
    kernel(**given, device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=3)))


@pytest.mark.parametrize("name", BODIES)
def test_ways_out_of_registers(name: str) -> None:
    given = arguments(name, 128, 64, 128)
    run(source(name), given)
    assert np.array_equal(given["d"], expected(name, given))


@pytest.mark.parametrize(("warps", "stages"), [(4, 1), (4, 2), (8, 1), (8, 2)])
def test_rows_and_stages(warps: int, stages: int) -> None:
    given = arguments("vectors", 100, 40, 200)
    run(source("vectors", warps, stages), given, timing="random")
    assert np.array_equal(given["d"], expected("vectors", given))


def test_no_k_block_gives_zero() -> None:
    given = arguments("vectors", 64, 64, 0)
    run(source("vectors"), given)
    assert np.array_equal(given["d"], expected("vectors", given))


def ptx(text: str) -> str:
    return pipec.compile(text, arch="sm_90a").ptx


def test_one_group_stays_in_flight_where_a_stage_more_is_there() -> None:
    assert "wgmma.wait_group.sync.aligned 1;" in ptx(source("store", stages=2))
    assert "wgmma.wait_group.sync.aligned 1;" not in ptx(source("store", stages=1))


def test_a_drain_inside_a_loop_is_not_made_to_wait_for_a_late_stage() -> None:
    text = source("store").replace("b[block.y * 64, k * 64])\n", "b[block.y * 64, k * 64])\n            input.drain_producer()\n")
    assert "drain_producer" in text
    assert "wgmma.wait_group.sync.aligned 1;" not in ptx(text)
    given = arguments("store", 128, 64, 192)
    run(text, given)
    assert np.array_equal(given["d"], expected("store", given))


TWO = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, D, N]):
    grid(1)
    left = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64]), stages=2)
    right = InputTilePipeline(TilePayload(b=tile[bf16, 64, 64]), stages=2)
    steps = ceildiv(K, 64)

    role load_left(warps=1) produces left:
        for k in range(steps):
            with left.produce() as s:
                tma.load(s.a, a[0, k * 64])

    role load_right(warps=1) produces right:
        for k in range(steps):
            with right.produce() as s:
                tma.load(s.b, b[0, k * 64])

    role compute(warps=4) consumes left, right:
        for half in range(2):
            acc = accumulator(f32, 64, 64)
            for k in range(half, steps, 2):
                with left.consume() as p, right.consume() as q:
                    mma(acc, p.a, q.b, accumulate=k > 1)
                    if k == half:
                        mma(acc, p.a, q.b)
            store(d[half * 64, 0], acc)
"""


def test_operands_from_two_pipelines_and_a_second_mma_into_the_same_accumulator() -> None:
    given = {name: value for name, value in arguments("store", 64, 64, 256).items() if name in ("a", "b")}
    given["d"] = np.zeros((128, 64), np.float32)
    run(TWO, given)
    a, b = (given[name].astype(np.float64).reshape(64, 4, 64) for name in ("a", "b"))
    products = [a[:, k] @ b[:, k].T for k in range(4)]
    expected_rows = [2 * products[0] + products[1], 2 * products[2] + products[3]]
    assert np.array_equal(given["d"], np.concatenate(expected_rows).astype(np.float32))


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("a_view", "b_view"), [(".T", ""), ("", ".T"), (".T", ".T")])
def test_operands_stored_with_k_outermost(a_view: str, b_view: str, warps: int) -> None:
    text = source("store", warps).replace("mma(acc, s.a, s.b)", f"mma(acc, s.a{a_view}, s.b{b_view})")
    given = arguments("store", 136, 72, 200)
    result = expected("store", given)
    for view, name, tile, turned, at, turned_at in (
        (a_view, "a", "tile[bf16, 128, 64]", "tile[bf16, 64, 128]", "a[block.x * 128, k * 64]", "a[k * 64, block.x * 128]"),
        (b_view, "b", "b=tile[bf16, 64, 64]", "b=tile[bf16, 64, 64]", "b[block.y * 64, k * 64]", "b[k * 64, block.y * 64]"),
    ):
        if view:
            size = "M" if name == "a" else "N"
            text = text.replace(tile, turned).replace(at, turned_at)
            text = text.replace(f"{name}: tensor[bf16, {size}, K]", f"{name}: tensor[bf16, K, {size}]")
            given[name] = np.ascontiguousarray(given[name].T)
    run(text, given)
    assert np.array_equal(given["d"], result)
