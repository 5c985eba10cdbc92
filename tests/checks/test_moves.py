"""Stages that are held into the next iteration under a name that takes them over: right ones are proved and compute what NumPy does."""

import ml_dtypes
import numpy as np
import pytest
from diagnose import Options as Chosen
from diagnose import diagnose

import pipec

BLACKWELL = """
{helper}
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    assume(K > 0)
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages={stages})
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
    role multiply(warps=1) consumes input produces output:
        with output.produce() as acc:
            pass
{body}
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""
HOPPER = """
{helper}
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    assume(K > 0)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages={stages})
    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])
    role multiply(warps=8) consumes input:
        acc = accumulator(f32, 128, 64)
        if True:
            pass
{body}
        store(d[block.x * 128, block.y * 64], acc)
"""
KERNELS = {"sm_100a": BLACKWELL, "sm_90a": HOPPER}
FIRST = ["held = input.acquire_consumer()"]
REST = "for k in range(ceildiv(K, 64) - 1):"
TAKE = "    following = input.acquire_consumer()"
USE = "mma(acc, held.a, held.b)"
MOVE = ["    held.release()", "    held = following"]
LAST = [USE, "held.release()"]
RIGHT = {
    "used late": [*FIRST, REST, TAKE, f"    {USE}", *MOVE, *LAST],
    "used at once": [*FIRST, USE, REST, TAKE, "    mma(acc, following.a, following.b)", *MOVE, "held.release()"],
    "given back first": [*FIRST, REST, f"    {USE}", "    held.release()", TAKE, "    held = following", *LAST],
    "where there is another": [
        *FIRST,
        "for k in range(ceildiv(K, 64)):",
        "    if k + 1 < ceildiv(K, 64):",
        f"    {TAKE}",
        f"        {USE}",
        *(f"    {line}" for line in MOVE),
        "    else:",
        f"        {USE}",
        "held.release()",
    ],
    "two in a row": [
        *FIRST,
        "for k in range((ceildiv(K, 64) - 1) // 2):",
        TAKE,
        "    another = input.acquire_consumer()",
        f"    {USE}",
        "    held.release()",
        "    mma(acc, following.a, following.b)",
        "    following.release()",
        "    held = another",
        "if ceildiv(K, 64) % 2 == 0:",
        "    last = input.acquire_consumer()",
        "    mma(acc, last.a, last.b)",
        "    last.release()",
        *LAST,
    ],
    "of tiles that are named in each iteration": [
        *FIRST, REST, TAKE, "    left = held.a", "    right = held.b", "    mma(acc, left, right)", *MOVE, *LAST
    ],
    "names that take turns": [
        *FIRST,
        "if ceildiv(K, 64) > 1:",
        TAKE,
        "    for k in range(ceildiv(K, 64) - 2):",
        f"        {USE}",
        *(f"    {line}" for line in MOVE),
        f"    {TAKE}",
        f"    {USE}",
        *MOVE,
        *LAST,
    ],
    "in a helper": ["work(acc)"],
}  # fmt: skip
# Signalled before the release, but for the last stage. (On Hopper no signal stands for the products' end.)
COMMITTED = [*FIRST, REST, TAKE, f"    {USE}", "    mma.commit(held.mbar())", *MOVE, *LAST]
HELPER = "\n".join(["fn work(acc):", *(f"    {line}" for line in RIGHT["used late"])])


def source(arch: str, body: list[str], stages: int = 4) -> str:
    text = "\n".join(" " * 12 + line for line in body)
    return KERNELS[arch].format(helper=HELPER if "work(acc)" in body else "", body=text, stages=stages)


@pytest.mark.parametrize("arch", KERNELS)
@pytest.mark.parametrize("words", RIGHT)
def test_right_ones_compute(words: str, arch: str) -> None:
    _computes(RIGHT[words], arch)


def test_signals_and_releases_may_take_turns() -> None:
    _computes(COMMITTED, "sm_100a")
    found = pipec.check(source("sm_90a", COMMITTED), arch="sm_90a")
    assert [one.code for one in found] == ["E0409", "E0903"]  # and not E0507


def _computes(body: list[str], arch: str) -> None:
    program = pipec.compile(source(arch, body), arch=arch)
    for depth in (64, 128, 200, 384):
        chance = np.random.default_rng(depth)
        a, b = (chance.integers(-2, 3, (rows, depth)).astype(ml_dtypes.bfloat16) for rows in (128, 64))
        d = np.zeros((128, 64), np.float32)
        program["k"](a, b, d)
        assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


WRONG = {
    "the other is given back": ([*FIRST, REST, TAKE, f"    {USE}", "    following.release()", "    held = following", *LAST], "E0304"),
    "a ring too short": ([*FIRST, REST, TAKE, f"    {USE}", *MOVE, *LAST], "E0307"),
    "one too few": ([*FIRST, "for k in range(ceildiv(K, 64)):", TAKE, f"    {USE}", *MOVE, *LAST], "E0601"),
    "one too many": ([*FIRST, "for k in range(ceildiv(K, 64) - 2):", TAKE, f"    {USE}", *MOVE, *LAST], "E0602"),
    "a tile of what was held": (
        [*FIRST, "sums = cast[f32](held.a)", REST, TAKE, f"    {USE}", "    store.direct(d[0, 0], row_sum(sums))", *MOVE, *LAST],
        "E0298",
    ),
    "a number of what was held": (
        [*FIRST, "slot = held.index()", REST, TAKE, "    mma(acc, input.payload.a[slot], held.b)", *MOVE, *LAST],
        "E0348",
    ),
    "a barrier of what was held": (
        [*FIRST, "bar = held.mbar()", REST, TAKE, f"    {USE}", "    mma.commit(bar)", *MOVE, *LAST],
        "E0348",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_ones_are_refused(case: str) -> None:
    body, code = WRONG[case]
    arch = "sm_90a" if code == "E0298" else "sm_100a"  # where threads may read what is multiplied
    text = f"# options: arch={arch}\n" + source(arch, body, stages=1 if code == "E0307" else 4)
    assert code in [one.code for one in diagnose("k.pipe", text, Chosen.of(text))]
