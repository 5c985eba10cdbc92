"""Several roles fill a stage together, each of them tiles of its own: it is full when all have, and each waits until it is free."""

from pathlib import Path

import pytest

from pipec.commands.cli import main
from pipec.driver import Options, compile_source
from pipec.source import Source

# One operand by TMA, and one that threads convert on the way.
CONVERTED = '''
kernel k(a: tensor[bf16, M, K], w: tensor[f32, N, K], c: tensor[f32, M, N], scale: f32):
    """A product with weights that are converted on the way.

    numpy: c = a @ w.T * scale
    given: w = round(w * 4)
    shapes: M=128, N=64, K=320, scale=2; M=100, N=64, K=64, scale=1
    """
    grid(ceildiv(M, 128), ceildiv(N, 64))CLUSTER
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=STAGES)
    MORE
    role load(warps=1) produces ring:
        for k in range(ceildiv(K, 64)):
            with ring.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
    role convert(warps=4) produces ring:
        for k in range(ceildiv(K, 64)):
            with ring.produce() as s:
                write(s.b, cast[bf16](load(w[block.y * 64, k * 64], 64, 64) * scale))
'''
HOPPER = """
    role multiply(warps=4) consumes ring:
        acc = accumulator(f32, 128, 64)
        for k in range(ceildiv(K, 64)):
            with ring.consume() as s:
                mma(acc, s.a, s.b)
        store(c[block.x * 128, block.y * 64], acc)
"""
OUT = "out = OutputTilePipeline(tmem[f32, 128, 64], stages=1)"
BLACKWELL = """
    role multiply(warps=1) consumes ring produces out:
        with out.produce() as acc:
            for k in range(ceildiv(K, 64)):
                with ring.consume() as s:
                    mma(acc, s.a, s.b, accumulate=k > 0)
    role epilogue(warps=4) consumes out:
        with out.consume() as acc:
            store(c[block.x * 128, block.y * 64], acc)
"""
# Three roles: by TMA, by cp.async (rows of a vector), by threads.
SUMS = '''
kernel k(x: tensor[f32, M, N], y: tensor[f32, N], z: tensor[f32, M, N], total: tensor[f32, M, N]):
    """Sums of three tensors.

    numpy: total = x + y + z
    shapes: M=64, N=288; M=64, N=32
    """
    grid(ceildiv(M, 64))
    ring = RING
    role first(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(AT.x, x[block.x * 64, k * 32])
    role second(warps=2) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                SECOND
    role third(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                write(AT.z, load(z[block.x * 64, k * 32], 64, 32))
    role add(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store(total[block.x * 64, k * 32], AT.x + AT.z + AT.y)
'''
TILES = "InputTilePipeline(TilePayload(x=tile[f32, 64, 32], y=tile[f32, 1, 32], z=tile[f32, 64, 32]), stages=2)"
BUFFERS = "ProducerConsumerPipeline(stages=2)" + "".join(
    f"\n    t{name} = SharedTiles(tile[f32, {rows}, 32], count=2)" for name, rows in (("x", 64), ("y", 1), ("z", 64))
)
BY_COPIES = "cp.async(AT.y, y[k * 32])"
BY_THREADS = "write(AT.y, fill(2.0, f32, 1, 32))"


def converted(then: str, more: str = "", stages: int = 3, cluster: str = "") -> str:
    return (CONVERTED + then).replace("MORE", more).replace("STAGES", str(stages)).replace("CLUSTER", cluster)


def sums(second: str = BY_COPIES, ring: str = TILES) -> str:
    text = SUMS.replace("SECOND", second).replace("RING", ring)
    if ring is TILES:
        return text.replace("AT.", "s.")
    return text.replace("AT.x", "tx[s.index()]").replace("AT.y", "ty[s.index()]").replace("AT.z", "tz[s.index()]")


RIGHT = {
    "wgmma": (converted(HOPPER), "sm_90a"),
    "one stage": (converted(HOPPER, stages=1), "sm_90a"),
    "tcgen05": (converted(BLACKWELL, OUT), "sm_100a"),
    "three": (sums(), "sm_90a"),
    "two by threads": (sums(BY_THREADS).replace("x + y + z", "x + 2 + z"), "sm_100a"),
    "buffers of the kernel": (sums(ring=BUFFERS), "sm_90a"),
    "multicast": (
        converted(BLACKWELL, OUT, cluster="\n    cluster(1, 2)")
        .replace("64])\n    role c", '64], multicast="y")\n    role c')
        .replace("N=64, K", "N=128, K"),
        "sm_100a",
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_each_fills_tiles_of_its_own(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, arch = RIGHT[name]
    state = compile_source(Source("k.pipe", text), Options(arch))
    assert [one.title for one in state.diagnostics] == [] and state.protocol["k"].outcome == "proved"
    (tmp_path / "k.pipe").write_text(text, encoding="utf-8")
    for timing in ("late", "random"):
        assert main(["run", str(tmp_path / "k.pipe"), "--device", "sim", "--arch", arch, "--timing", timing]) == 0, (
            capsys.readouterr().err
        )
        assert capsys.readouterr().out.count("agrees") == 2


FILL_A = "tma.load(s.a, a[block.x * 128, k * 64])"
FILL_B = "write(s.b, cast[bf16](load(w[block.y * 64, k * 64], 64, 64) * scale))"
IN_A_PAIR = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], c: tensor[f32, M, N]):
    cluster(2)
    grid(2 * ceildiv(M, 256), ceildiv(N, 128))
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3, cta_group=2)
    out = OutputTilePipeline(tmem[f32, 128, 128], stages=1, cta_group=2)
    role left(warps=1) produces ring:
        for k in range(ceildiv(K, 64)):
            with ring.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
    role right(warps=1) produces ring:
        for k in range(ceildiv(K, 64)):
            with ring.produce() as s:
                tma.load(s.b, b[block.y * 128 + cta.x * 64, k * 64])
    role multiply(warps=1, on="leader") consumes ring produces out:
        with out.produce() as acc:
            for k in range(ceildiv(K, 64)):
                with ring.consume() as s:
                    mma(acc, s.a, s.b, accumulate=k > 0)
    role epilogue(warps=4) consumes out:
        with out.consume() as acc:
            store(c[block.x * 128, block.y * 128], acc)
"""
TOKENS = """
kernel k(n: i32):
    grid(1)
    ring = ProducerConsumerPipeline(stages=2)
    role one(warps=1) produces ring:
        for i in range(n):
            ring.producer_signal_and_step()
    role other(warps=1) produces ring:
        for i in range(n):
            ring.producer_signal_and_step()
    role take(warps=1) consumes ring:
        for i in range(n):
            ring.consumer_signal_and_step()
"""
HERE = converted(HOPPER)
THERE = converted(BLACKWELL, OUT)
OTHER_ROWS = "with elect():\n                    tma.load(rows(s.a, 64, 64), a[block.x * 128 + 64, k * 64])"
MULTIPLY, EPILOGUE = BLACKWELL.strip("\n").split("\n    role epilogue")
WRONG = {
    "one tile by both": (
        HERE.replace(FILL_B, f"{FILL_B}\n                with elect():\n                    {FILL_A}"),
        {"E0405"},
    ),
    "rows of one tile": (
        HERE.replace(FILL_A, FILL_A.replace("s.a", "rows(s.a, 0, 64)")).replace(
            FILL_B, f"{FILL_B}\n                {OTHER_ROWS}"
        ),
        {"E0405"},
    ),
    "no tile by one": (HERE.replace(FILL_B, "pass"), {"E0308", "E0405", "E0501"}),
    "no tiles": (TOKENS, {"E0405"}),
    "in a pair": (IN_A_PAIR, {"E0405"}),
    "accumulators": (
        THERE.replace(MULTIPLY, MULTIPLY + "\n" + MULTIPLY.replace("role multiply", "role again")),
        {"E0405"},
    ),
    "a tile by nobody": (
        HERE.replace("Standard", "").replace("b=tile[bf16, 64, 64])", "b=tile[bf16, 64, 64], c=tile[f32, 1, 64])"),
        {"E0501"},
    ),
    "a tile on one path": (HERE.replace(FILL_B, f"if k > 0:\n                    {FILL_B}"), {"E0502"}),
    "a tile twice": (HERE.replace(FILL_A, f"{FILL_A}\n                {FILL_A}"), {"E0503"}),
    # The last full barrier is left with the signals of one of them. (It is not a wait that never ends.)
    "one stage more": (HERE.replace("ceildiv(K, 64)", "ceildiv(K, 64) + 1", 1), {"E0604"}),
    "one stage less": (HERE.replace("ceildiv(K, 64)", "ceildiv(K, 64) - 1", 1), {"E0601"}),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_filled_twice_or_not_at_all_is_refused(name: str) -> None:
    text, codes = WRONG[name]
    arch = "sm_90a" if "accumulator(" in text else "sm_100a"
    assert {one.code for one in compile_source(Source("k.pipe", text), Options(arch)).diagnostics} == codes


def test_the_counts_are_those_of_all_producers() -> None:
    """Bytes of two copies, each announced by its own role, and the arrivals of a third one's threads."""
    text = sums(BY_THREADS).replace("write(s.z, load(z[block.x * 64, k * 32], 64, 32))", "tma.load(s.z, z[block.x * 64, k * 32])")
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert state.plans is not None and state.protocol["k"].outcome == "proved"
    ((full, empty),) = [
        (state.plans[0].signals[one, "producer"], state.plans[0].signals[one, "consumer"])
        for one in state.plans[0].kernel.pipelines
    ]
    assert (full.count, full.transaction_bytes, empty.count) == (1 + 1 + 64, 2 * 64 * 32 * 4, 128)
