"""Convolutions as products of matrices: a role walks over the rows and columns of the filter and over its channels, another over all of
these in one loop, with MMAs that read a stage while the next one is waited for."""

import textwrap

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[bf16, H, W, C], w: tensor[bf16, R, S, N, C], y: tensor[bf16, H, W, N]):
    grid(ceildiv(W, 64), ceildiv(N, 64), H)
    ring = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 64], b=tile[bf16, 64, 64]), stages=4)
    role load(warps=1) produces ring:
{load}
    role compute(warps=4) consumes ring:
        acc = accumulator(f32, 64, 64)
{compute}
        store(y[block.z, block.x * 64, block.y * 64], cast[bf16](acc))
"""
STEPS = """
for r in range(R):
    for s in range(S):
        for c in range(0, C, 64):
            IT
""".strip()
BLOCKS = """
for r in range(R):
    for s in range(S):
        for i in range(ceildiv(C, 64)):
            c = i * 64
            IT
""".strip()
FILTER = "for f in range(R * S):\n    r = f // S\n    s = f % S\n    for c in range(0, C, 64):\n        IT"
FLAT = "for i in range(R * S * ceildiv(C, 64)):\n    IT"
IT = {
    "load": "with ring.produce() as st:\n"
    "    tma.load(st.a, x[block.z + r, block.x * 64 + s, c])\n"
    "    tma.load(st.b, w[r, s, block.y * 64, c])",
    "compute": "with ring.consume() as st:\n    mma(acc, st.a, st.b)",
}


def judged(load: str, compute: str) -> bool:
    texts = {}
    for role, walk in (("load", load), ("compute", compute)):
        depth = " " * (len(walk.split("\n")[-1]) - len("IT"))
        texts[role] = textwrap.indent(walk.replace("IT", IT[role].replace("\n", "\n" + depth)), " " * 8)
    return not compile_source(Source("k.pipe", KERNEL.format(**texts)), Options("sm_90a")).failed


@pytest.mark.parametrize("load", [STEPS, BLOCKS, FILTER])
def test_it_is_proved(load: str) -> None:
    assert judged(load, FLAT)


def test_with_the_loops_of_the_filter_in_one() -> None:
    assert judged(STEPS, "for f in range(R * S):\n    for c in range(ceildiv(C, 64)):\n        IT")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("R * S * ceildiv(C, 64)", "R * S * (C // 64)"),
        ("R * S * ceildiv(C, 64)", "R * R * ceildiv(C, 64)"),
        ("R * S * ceildiv(C, 64)", "(R + S) * ceildiv(C, 64)"),
        ("R * S * ceildiv(C, 64)", "R * S * ceildiv(C, 64) - 1"),
        ("R * S * ceildiv(C, 64)", "R * S * ceildiv(C, 32)"),
    ],
)
def test_its_neighbour_is_not(old: str, new: str) -> None:
    assert old in FLAT
    assert not judged(STEPS, FLAT.replace(old, new))
