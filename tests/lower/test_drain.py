"""A drain waits for every stage that was filled and leaves the ring as it was, so that filling goes on."""

import ml_dtypes
import numpy as np
import pytest
from running import run, values

import pipec
from pipec.driver import Options as Target
from pipec.driver import compile_source
from pipec.runtime import LaunchOptions
from pipec.sim import Options
from pipec.source import Source

DRAINED = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=3)
    role load(warps=1) produces ring:
        ring.drain_producer()
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[0, k * 32])
            if k % 2 == 1:
                ring.drain_producer()
        ring.drain_producer()
        ring.drain_producer()
    role compute(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store(y[0, k * 32], s.x * 2.0)
"""

ONE_SIGNAL = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[0, k * 32])
    role compute(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
            s = ring.acquire_consumer()
            store(y[0, k * 32], s.x * 2.0)
            if lane_id() < 3:
                s.arrive()
            s.release()
"""


@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("source", [DRAINED, ONE_SIGNAL], ids=["drained", "signalled by some lanes, then released"])
def test_copies(source, timing):
    x, y = values((128, 160), "f32", 1), np.zeros((128, 160), np.float32)
    run(source, "k", x, y, timing=timing)
    np.testing.assert_array_equal(y, x * 2)


LAST_COMMIT_FREES = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=4)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    flag = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=1)

    role load(warps=1) produces input, flag:
        with flag.produce() as s:
            tma.load(s.a, a[block.x * 128, 0])
            tma.load(s.b, b[block.y * 64, 0])
        for k in range(1, ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])

    role mma(warps=1) consumes input, flag produces output:
        with flag.consume() as f:
            with output.produce() as acc:
                mma(acc, f.a, f.b)
                for k in range(1, ceildiv(K, 64)):
                    with input.consume() as s:
                        mma(acc, s.a, s.b)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_the_block_does_not_end_before_the_last_commit_arrives(timing: str) -> None:
    # The stage of `flag` is given back after the accumulator was handed on: nobody in the program waits for that commit.
    program = pipec.compile(LAST_COMMIT_FREES)
    generator = np.random.default_rng(2)
    a, b = (generator.integers(-3, 4, (rows, 128)).astype(ml_dtypes.bfloat16) for rows in (128, 64))
    d = np.zeros((128, 64), np.float32)
    program["k"](a, b, d, device="sim", options=LaunchOptions(Options(timing=timing, seed=5)))
    assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


PAIR = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    cluster({ctas})
    grid({ctas} * ceildiv(M, {ctas} * 128), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, {half}, 64]), stages=3, cta_group={ctas})
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=2, cta_group={ctas})

    role load(warps=1) produces input:
        {first}
        for k in range(ceildiv(K, 64)):
            {each}
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64 + cta.x * {half}, k * 64])
        {last}

    role multiply(warps=1, on="{where}") consumes input produces output:
        for k in range(ceildiv(K, 64)):
            s = input.acquire_consumer()
            acc = output.acquire_mma_linear()
            mma(acc, s.a, s.b)
            {order}

    role epilogue(warps=4) consumes output:
        for k in range(ceildiv(K, 64)):
            with output.consume() as acc:
                store.direct(d[block.x * 128, block.y * 64], acc, reduce="add")
"""
DRAIN = "input.drain_producer()"
PLACES = {"nowhere": "", "first": "first", "in each turn": "each", "in a branch": "last"}
ORDERS = {
    "stage last": "acc.release()\n            s.release()",
    "stage first": "s.release()\n            acc.release()",
    "now so, now so": (
        "if k % 2 == 0:\n                acc.release()\n                s.release()\n"
        "            else:\n                s.release()\n                acc.release()"
    ),
}


def given_back_by_commits(ctas: int, place: str, order: str) -> str:
    lines = dict.fromkeys(("first", "each", "last"), "pass")
    if PLACES[place]:
        lines[PLACES[place]] = DRAIN if place != "in a branch" else f"if K > 1000:\n            {DRAIN}"
    where = "leader" if ctas == 2 else "all"
    return PAIR.format(ctas=ctas, half=64 // ctas, where=where, order=ORDERS[order], **lines)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", PLACES)
def test_no_cta_of_a_pair_ends_before_commits_arrive(place: str, order: str) -> None:
    """The leader's commits release stages in both CTAs, also behind a drain that the author wrote."""
    program = pipec.compile(given_back_by_commits(2, place, order))
    a, b, d = values((256, 192), "bf16", 1), values((64, 192), "bf16", 2), np.zeros((256, 64), np.float32)
    for timing in ("late", "random"):
        d[...] = 0
        program["k"](a, b, d, device="sim", options=LaunchOptions(Options(timing=timing, seed=5)))
        assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize(("order", "last"), [("stage last", True), ("stage first", False), ("now so, now so", True)])
@pytest.mark.parametrize("place", PLACES)
def test_stages_that_the_last_commit_may_release_are_drained(place: str, order: str, last: bool) -> None:
    """On each path, and behind the last stages that are filled."""
    state = compile_source(Source("k.pipe", given_back_by_commits(1, place, order)), Target())
    assert not state.failed and state.plans is not None
    (row,) = (row for row in state.plans[0].roles if row.role.name == "load")
    assert [pipeline.name for pipeline in row.drains] == ["input"] * last
