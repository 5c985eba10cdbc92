"""One of several consumers gives a stage back without reading it: its barrier gets the same signals as for the stages that it reads."""

from pathlib import Path

import pytest

from pipec.commands.cli import main
from pipec.driver import Options, compile_source
from pipec.source import Source

# The second consumer reads the first two blocks of each row of tiles.
COPIES = '''
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N], z: tensor[f32, M, N]):
    """Two copies, the second one of two blocks.

    numpy: y = x
    numpy: z = where(arange(N) < 64, x, 5)
    given: z = 0 * x + 5
    shapes: M=64, N=288; M=64, N=64
    """
    grid(1)
    assume(N >= 64)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=3)
    role load(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[0, k * 32])
    role all(warps=2) consumes ring:
        for k in range(ceildiv(N, 32)):
            with ring.consume() as s:
                store(y[0, k * 32], s.x)
    role some(warps=WARPS) consumes ring:
        for k in range(2):
            with ring.consume() as s:
                USE
        for k in range(ceildiv(N, 32) - 2):
            UNREAD
'''
SCOPED = "with ring.consume() as s:\n                pass"
BY_HAND = "s = ring.acquire_consumer()\n            s.release()"
EXPLICIT = "with ring.consume_explicit() as s:\n                s.arrive()"
USES = {"threads": "store(z[0, k * 32], s.x)", "a copy": "tma.store(z[0, k * 32], s.x)"}

PRODUCTS = '''
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], c: tensor[f32, M, N], d: tensor[f32, M, N]):
    """Two products, the second one over two blocks of K.

    numpy: c = a @ b.T
    numpy: d = a[:, :128] @ b[:, :128].T
    shapes: M=128, N=64, K=640; M=128, N=64, K=128
    """
    grid(ceildiv(M, 128), ceildiv(N, 64))
    assume(K >= 128)
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    role load(warps=1) produces ring:
        for k in range(ceildiv(K, 64)):
            with ring.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
'''
HOPPER = (
    PRODUCTS
    + """
    role first(warps=4) consumes ring:
        acc = accumulator(f32, 128, 64)
        for k in range(ceildiv(K, 64)):
            with ring.consume() as s:
                mma(acc, s.a, s.b)
        store(c[block.x * 128, block.y * 64], acc)
    role second(warps=4) consumes ring:
        acc = accumulator(f32, 128, 64)
        for k in range(2):
            with ring.consume() as s:
                mma(acc, s.a, s.b)
        for k in range(ceildiv(K, 64) - 2):
            with ring.consume() as s:
                pass
        store(d[block.x * 128, block.y * 64], acc)
"""
)
BLACKWELL = (
    PRODUCTS.replace(
        "    role load",
        "    all = OutputTilePipeline(tmem[f32, 128, 64], stages=1)\n"
        "    some = OutputTilePipeline(tmem[f32, 128, 64], stages=1)\n"
        "    role load",
    )
    + """
    role first(warps=1) consumes ring produces all:
        with all.produce() as acc:
            for k in range(ceildiv(K, 64)):
                with ring.consume() as s:
                    mma(acc, s.a, s.b, accumulate=k > 0)
    role second(warps=1) consumes ring produces some:
        with some.produce() as acc:
            for k in range(2):
                with ring.consume() as s:
                    mma(acc, s.a, s.b, accumulate=k > 0)
        for k in range(ceildiv(K, 64) - 2):
            with ring.consume() as s:
                pass
    role one(warps=4) consumes all:
        with all.consume() as acc:
            store(c[block.x * 128, block.y * 64], acc)
    role two(warps=4) consumes some:
        with some.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""
)


def copies(use: str = USES["threads"], unread: str = SCOPED, warps: int = 2) -> str:
    return COPIES.replace("USE", use).replace("UNREAD", unread).replace("WARPS", str(warps))


RIGHT = {
    **{
        f"{of} by {warps}": (copies(use, SCOPED, warps), "sm_100a")
        for of, use in USES.items()
        for warps in (1, 4)
        if of != "a copy"
    },
    "a copy": (copies(USES["a copy"], SCOPED, 1), "sm_90a"),
    "by hand": (copies(unread=BY_HAND), "sm_90a"),
    "explicitly": (copies(unread=EXPLICIT), "sm_90a"),
    "wgmma": (HOPPER, "sm_90a"),
    "tcgen05": (BLACKWELL, "sm_100a"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_others_read_may_be_given_back_unread(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, arch = RIGHT[name]
    state = compile_source(Source("k.pipe", text), Options(arch))
    assert [one.title for one in state.diagnostics] == [] and state.protocol["k"].outcome == "proved"
    (tmp_path / "k.pipe").write_text(text, encoding="utf-8")
    assert main(["run", str(tmp_path / "k.pipe"), "--device", "sim", "--arch", arch]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count("agrees") == 4  # two outputs at two shapes


ALL = "        for k in range(ceildiv(N, 32)):\n            with ring.consume() as s:\n                store(y[0, k * 32], s.x)\n"
SOME = "        for k in range(2):\n            with ring.consume() as s:\n                store(z[0, k * 32], s.x)\n"
REST = f"        for k in range(ceildiv(N, 32) - 2):\n            {SCOPED}\n"
# Every second stage is for each of them.
ONE = (
    "        for k in range(ceildiv(N, 64)):\n            with ring.consume() as s:\n                store(y[0, k * 64], s.x)\n"
    "            ring.skip()\n"
)
OTHER = f"        for k in range(ceildiv(N, 64)):\n            ring.skip()\n            {SCOPED}\n"
WRONG = {
    "nobody reads them": (
        copies()
        .replace(ALL, ALL.replace("store(y[0, k * 32], s.x)", "pass"))
        .replace(SOME, SOME.replace("store(z[0, k * 32], s.x)", "pass")),
        "E0308",
    ),
    "there is one consumer": (copies().replace("    role all(warps=2) consumes ring:\n" + ALL, ""), "E0308"),
    "each takes others": (
        copies().replace(ALL, ONE).replace(SOME + REST, OTHER).replace("range(ceildiv(N, 32)):", "range(2 * ceildiv(N, 64)):"),
        "E0308",
    ),
    "by threads, but MMAs read the others": (BLACKWELL.replace(SCOPED, EXPLICIT), "E0507"),
    "one less": (copies().replace("ceildiv(N, 32) - 2", "ceildiv(N, 32) - 3"), "E0602"),
    "one more": (copies().replace("ceildiv(N, 32) - 2", "ceildiv(N, 32) - 1"), "E0601"),
    "never": (copies().replace(REST, ""), "E0602"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_lost_or_given_back_in_another_way_is_refused(name: str) -> None:
    text, code = WRONG[name]
    found = {one.code for one in compile_source(Source("k.pipe", text), Options("sm_100a")).diagnostics}
    assert found == {code}
