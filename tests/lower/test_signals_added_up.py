"""Stages that are filled, or read, in several ways at once: the barrier counts the signals of all of them."""

import ml_dtypes
import numpy as np
import pytest

import pipec
from pipec.driver import Options as Target
from pipec.driver import compile_source
from pipec.protocol.judge import judge
from pipec.runtime.launcher import LaunchOptions
from pipec.sim import Options
from pipec.source import Source

TIMINGS = ("order", "late", "random")
BF16 = ml_dtypes.bfloat16


def run(source: str, kernel: str, *arguments: object, timing: str, arch: str = "sm_90a") -> None:
    """Of a kernel that is proved."""
    options = LaunchOptions(simulation=Options(timing=timing, seed=7))
    pipec.compile(source, arch=arch)[kernel](*arguments, device="sim", options=options)


BESIDE = """
kernel beside(x: tensor[f32, M, N], bias: tensor[f32, N], y: tensor[f32, M, N], z: tensor[f32, M, N]):
    grid(ceildiv(M, 64))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32], b=tile[f32, 1, 32], c=tile[f32, 1, 32]), stages=2)

    role fill(warps={warps}) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                {elect}
                    tma.load(s.x, x[block.x * 64, k * 32])
                write(s.b, per_column(bias[k * 32], 32) * 2.0)
                {third}

    role take(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                with elect():
                    tma.store(y[block.x * 64, k * 32], s.x)
                store.direct(z[block.x * 64, k * 32], s.x + s.b + s.c)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("third", ["cp.async(s.c, bias[k * 32])", "write(s.c, per_column(bias[k * 32], 32))"])
def test_tiles_of_one_stage_are_loaded_copied_and_written(third: str, warps: int, timing: str) -> None:
    elect = "if True:" if warps == 1 else "with elect():"
    generator = np.random.default_rng(1)
    x, bias = (generator.integers(1, 9, shape).astype(np.float32) for shape in ((128, 160), 160))
    y, z = np.zeros_like(x), np.zeros_like(x)
    run(BESIDE.format(warps=warps, elect=elect, third=third), "beside", x, bias, y, z, timing=timing)
    assert np.array_equal(y, x) and np.array_equal(z, x + 3 * bias)


TAIL = """
kernel tail(x: tensor[f32, M, N], y: tensor[f32, M, C], whole: i32):
    grid(ceildiv(M, 64))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages={stages})

    role fill(warps={warps}) produces ring:
        for k in range(ceildiv(C, 32)):
            if k < whole:
                with ring.produce() as s:
                    {elect}
                        tma.load(s.x, x[block.x * 64, k * 32])
            else:
                with ring.produce() as s:
                    write(s.x, fill(7.0, f32, 64, 32))

    role take(warps=4) consumes ring:
        for k in range(ceildiv(C, 32)):
            if k % 2 == 0:
                with ring.consume() as s:
                    store.direct(y[block.x * 64, k * 32], s.x)
            else:
                with ring.consume() as s:
                    with elect():
                        tma.store(y[block.x * 64, k * 32], s.x)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize(("warps", "stages"), [(1, 1), (1, 3), (4, 2)])
def test_some_stages_are_loaded_and_others_written(warps: int, stages: int, timing: str) -> None:
    """Also read in one way here, in another there: each stage has all signals that its barrier counts."""
    elect = "if True:" if warps == 1 else "with elect():"
    x = np.random.default_rng(2).integers(1, 7, (128, 96)).astype(np.float32)
    y = np.zeros((128, 224), np.float32)
    run(TAIL.format(warps=warps, stages=stages, elect=elect), "tail", x, y, 3, timing=timing)
    assert np.array_equal(y[:, :96], x) and (y[:, 96:] == 7).all()


PRODUCT = """
kernel product(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N], copy: tensor[bf16, M, K], sums: tensor[f32, M, S]):
    grid(ceildiv(M, 128))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 128, 64]), stages=3)

    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[0, k * 64])
"""
# The MMAs of tcgen05 release by a commit, those of wgmma by an arrival of each warp.
BLACKWELL = """
    output = OutputTilePipeline(tmem[f32, 128, 128], stages=1)

    role compute(warps=4) consumes input produces output:
        total = registers(fill(0.0, f32, 128, 1))
        with output.produce() as acc:
            for k in range(ceildiv(K, 64)):
                with input.consume() as s:
                    with elect():
                        mma(acc, s.a, s.b)
                        tma.store(copy[block.x * 128, k * 64], s.a)
                    total = total + row_sum(cast[f32](s.a))
        store.direct(sums[block.x * 128, 0], total)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, 0], acc)
"""
HOPPER = """
    role compute(warps=8) consumes input:
        total = registers(fill(0.0, f32, 128, 1))
        acc = accumulator(f32, 128, 128)
        for k in range(ceildiv(K, 64)):
            with input.consume() as s:
                mma(acc, s.a, s.b)
                with elect():
                    tma.store(copy[block.x * 128, k * 64], s.a)
                total = total + row_sum(cast[f32](s.a))
        store(d[block.x * 128, 0], acc)
        store.direct(sums[block.x * 128, 0], total)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("depth", [64, 320])
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_a_stage_is_multiplied_copied_and_read(arch: str, depth: int, timing: str) -> None:
    generator = np.random.default_rng(3)
    a, b = (generator.integers(-3, 4, (rows, depth)).astype(BF16) for rows in (256, 128))
    d, copy, sums = np.zeros((256, 128), np.float32), np.zeros_like(a), np.zeros((256, 1), np.float32)
    run(PRODUCT + (HOPPER if arch == "sm_90a" else BLACKWELL), "product", a, b, d, copy, sums, timing=timing, arch=arch)
    left, right = a.astype(np.float32), b.astype(np.float32)
    assert np.array_equal(d, left @ right.T) and np.array_equal(copy, a) and np.array_equal(sums[:, 0], left.sum(axis=1))


def test_the_thread_that_commits_has_met_the_others() -> None:
    """A thread commits the accumulator on behalf of all, which have waited for a stage of the other pipeline since they met."""
    text = compile_source(Source("k.pipe", PRODUCT + BLACKWELL), Target("sm_100a")).ptx
    assert text is not None
    assert judge(text, "product", (), lambda _: True).certificate is not None
    apart = text.replace("\tbar.sync \t1, 128;\n", "", 1)
    assert apart != text and judge(apart, "product", (), lambda _: True).certificate is None
