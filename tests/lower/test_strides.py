"""Loops over blocks of so many elements count elements: as many turns as in Python, with the same coordinates, up to the largest sizes."""

import re

import ml_dtypes
import numpy as np
import pytest
from running import compiled, run

LARGEST = 2**31 - 1

COUNTED = """
kernel k(found: tensor[i32, 32, 3], extent: i32):
    grid(1)
    role work(warps=1):
        turns = 0
        last = -1
        first = 0
        for k in range(ceildiv({extent}, {block})):
            turns = turns + 1
            last = {read}
            if k == 0:
                first = first + 1
        store.direct(found[0, 0], fill(turns, i32, 32, 1))
        store.direct(found[0, 1], fill(last, i32, 32, 1))
        store.direct(found[0, 2], fill(first, i32, 32, 1))
"""


def steps_by(elements: int, source: str) -> bool:
    ptx = compiled(source).ptx
    steps = re.findall(rf"add\.s32 \t(%r\d+), %r\d+, {elements};", ptx)
    return any(f"setp.lt.u32 \t%p{number}, {step}, " in ptx for step in steps for number in range(40))


@pytest.mark.parametrize(("read", "times"), [("k * 64", 64), ("k * 192", 192), ("k", 1), ("k * 96", 96)])
@pytest.mark.parametrize("extent", [-(2**31), -1, 0, 1, 63, 64, 65, 128, 200])
def test_as_many_turns_as_in_python(extent: int, read: str, times: int) -> None:
    source = COUNTED.format(extent="max(extent, 0)", block=64, read=read)
    assert steps_by(64, source) == (times % 64 == 0)
    found = np.full((32, 3), 9, np.int32)
    run(source, "k", found, extent)
    turns = len(range(0, extent, 64))
    assert found[0].tolist() == [turns, (turns - 1) * times if turns else -1, min(turns, 1)]


@pytest.mark.parametrize("extent", [LARGEST - (1 << 28), LARGEST - 1, LARGEST])
def test_the_last_step_may_leave_an_i32(extent: int) -> None:
    source = COUNTED.format(extent="max(extent, 0)", block=1 << 28, read=f"k * {1 << 28}")
    assert steps_by(1 << 28, source)
    found = np.full((32, 3), 9, np.int32)
    run(source, "k", found, extent)
    walked = range(0, extent, 1 << 28)
    assert found[0].tolist() == [len(walked), walked[-1], 1]


@pytest.mark.parametrize("extent", [-5, 0, 100])
def test_what_may_be_negative_is_counted_in_blocks(extent: int) -> None:
    source = COUNTED.format(extent="extent", block=64, read="k * 64")
    assert not steps_by(64, source)
    found = np.full((32, 3), 9, np.int32)
    run(source, "k", found, extent)
    turns = len(range(0, extent, 64))
    assert found[0].tolist() == [turns, (turns - 1) * 64 if turns else -1, min(turns, 1)]


GEMM = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=2)
    sums = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role load(warps=1) produces ring:
        for k in range({of_loads}):
            with ring.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
    role multiply(warps=1) consumes ring produces sums:
        with sums.produce() as acc:
            for k in range({of_products}):
                with ring.consume() as s:
                    mma(acc, s.a, s.b{how})
    role keep(warps=4) consumes sums:
        with sums.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""
BLOCKS = "ceildiv(K, 64)"


@pytest.mark.parametrize("how", ["", ", accumulate=k > 0", ", accumulate=k != 0"])
@pytest.mark.parametrize("size", [0, 64, 72, 200])
def test_sums_begin_with_the_first_turn(how: str, size: int) -> None:
    source = GEMM.format(of_loads=BLOCKS, of_products=BLOCKS, how=how)
    generator = np.random.default_rng(1)
    a, b = (generator.integers(-3, 4, (128, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    d = np.full((128, 128), 7, np.float32)
    assert steps_by(64, source)
    run(source, "k", a, b, d)
    assert (d == a.astype(np.float32) @ b.astype(np.float32).T).all()


@pytest.mark.parametrize(
    ("of_loads", "of_products", "proved"),
    [
        (BLOCKS, BLOCKS, True),
        (BLOCKS, "(K + 63) // 64", True),
        (BLOCKS, "ceildiv(K, 32)", False),
        (BLOCKS, "ceildiv(K, 64) + 1", False),
        ("ceildiv(K, 128)", BLOCKS, False),
    ],
)
def test_other_numbers_of_blocks_are_refused(of_loads: str, of_products: str, proved: bool) -> None:
    from pipec.driver import Options, compile_source
    from pipec.source import Source

    state = compile_source(Source("k.pipe", GEMM.format(of_loads=of_loads, of_products=of_products, how="")), Options())
    assert (state.diagnostics == []) == proved
