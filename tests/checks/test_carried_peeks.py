"""Peeks whose results are carried over the edge of a loop: right ones are proved and compute what NumPy does, wrong ones are refused."""

import ml_dtypes
import numpy as np
import pytest
from diagnose import Options as Chosen
from diagnose import diagnose, diagnose_anew, outcomes
from lower.running import run

from pipec.checks.stages import carried_peeks

BLACKWELL = """
fn look():
    return input.try_acquire_consumer()
fn multiply(acc, ready):
    input.wait_producer_if_needed(ready)
    stage = input.consumer_stage()
    mma(acc, input.payload.a[stage], input.payload.b[stage])
    mma.commit(input.consumer_mbar(stage))
    input.consumer_step()
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1)
    role load(warps=1) produces input:
{load}
    role mult(warps=1) consumes input produces output:
        with output.produce() as acc:
            steps = ceildiv(K, 64)
{body}
    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""
HOPPER = """
fn look():
    return input.try_acquire_consumer()
fn multiply(acc, ready):
    s = input.consumer().acquire_if_needed(ready)
    mma(acc, s.a, s.b)
    s.release()
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 64, 64]), stages=3)
    role load(warps=1) produces input:
{load}
    role mult(warps=8) consumes input:
        acc = accumulator(f32, 128, 64)
        if True:
            steps = ceildiv(K, 64)
{body}
        store(d[block.x * 128, block.y * 64], acc)
"""
LOAD = [
    "for k in range(ceildiv(K, 64)):",
    "    with input.produce() as s:",
    "        tma.load(s.a, a[block.x * 128, k * 64])",
    "        tma.load(s.b, b[block.y * 64, k * 64])",
]
KERNELS = {"sm_100a": BLACKWELL, "sm_90a": HOPPER}
LOOK = "ready = input.try_acquire_consumer()"
LOOP = "for k in range(steps):"
USE = "    multiply(acc, ready)"
NONE = "ready = False"
IF_MORE = "    if k + 1 < steps:"
RIGHT = {
    "at the end of an iteration": [LOOK, LOOP, USE, f"    {LOOK}"],
    "where there is another": [LOOK, LOOP, USE, f"    {NONE}", IF_MORE, f"        {LOOK}"],
    "or not": [LOOK, LOOP, USE, IF_MORE, f"        {LOOK}", "    else:", f"        {NONE}"],
    "where there is one": [NONE, "if steps > 0:", f"    {LOOK}", LOOP, USE, f"    {NONE}", IF_MORE, f"        {LOOK}"],
    "not at the first": [NONE, LOOP, USE, f"    {LOOK}"],
    "last one apart": [
        "if steps > 0:", f"    {LOOK}", "    for k in range(steps - 1):", f"    {USE}", f"        {LOOK}", USE
    ],
    "before the step": [
        LOOK,
        LOOP,
        "    s = input.consumer().acquire_if_needed(ready)",
        f"    {LOOK}",
        "    mma(acc, s.a, s.b)",
        "    s.release()",
    ],
    "under another name first": [LOOK, LOOP, USE, "    following = input.try_acquire_consumer()", "    ready = following"],
    "while": [LOOK, "k = 0", "while k < steps:", USE, "    k += 1", f"    {LOOK}"],
    "of the view": [
        "view = input.consumer()",
        "ready = view.try_acquire()",
        LOOP,
        "    with view.acquire_if_needed(ready) as s:",
        "        mma(acc, s.a, s.b)",
        "    ready = view.try_acquire()",
    ],
    "of a helper": ["ready = look()", LOOP, USE, "    ready = look()"],
    "through two loops": [
        LOOK, "for i in range(ceildiv(steps, 2)):", "    for k in range(min(2, steps - 2 * i)):", f"    {USE}", f"        {LOOK}"
    ],
    "until it is ready": [
        LOOP, f"    {LOOK}", "    looks = 0", "    while looks < 3:", f"        {LOOK}", "        looks += 1", USE
    ],
}  # fmt: skip
# By a producer, which looks for free stages.
PRODUCER = {
    "at the end of an iteration": [
        "ready = input.try_acquire_producer()",
        "for k in range(ceildiv(K, 64)):",
        "    input.wait_consumer_if_needed(ready)",
        "    stage = input.producer_stage()",
        "    tma.load(input.payload.a[stage], a[block.x * 128, k * 64])",
        "    tma.load(input.payload.b[stage], b[block.y * 64, k * 64])",
        "    input.producer_step()",
        "    ready = input.try_acquire_producer()",
    ],
    "of the view": [
        "view = input.producer()",
        "ready = False",
        "for k in range(ceildiv(K, 64)):",
        "    with view.acquire_if_needed(ready) as s:",
        "        tma.load(s.a, a[block.x * 128, k * 64])",
        "        tma.load(s.b, b[block.y * 64, k * 64])",
        "    ready = False",
        "    if k + 1 < ceildiv(K, 64):",
        "        ready = view.try_acquire()",
    ],
}


def source(arch: str, body: list[str], load: list[str] = LOAD) -> str:
    return KERNELS[arch].format(body="\n".join(" " * 12 + line for line in body), load="\n".join(" " * 8 + line for line in load))


@pytest.mark.combinations(0.5)
@pytest.mark.parametrize("arch", KERNELS)
@pytest.mark.parametrize("words", RIGHT)
def test_right_ones_compute(words: str, arch: str) -> None:
    _computes(source(arch, RIGHT[words]), arch)


@pytest.mark.parametrize("arch", KERNELS)
@pytest.mark.parametrize("words", PRODUCER)
def test_so_do_those_of_producers(words: str, arch: str) -> None:
    _computes(source(arch, RIGHT["at the end of an iteration"], PRODUCER[words]), arch)


def _computes(text: str, arch: str) -> None:
    assert outcomes("k.pipe", text, Chosen(arch)) == ["proved"], diagnose("k.pipe", text, Chosen(arch))
    for timing, depth in (("order", 0), ("order", 64), ("late", 200), ("random", 320)):
        chance = np.random.default_rng(depth)
        a, b = (chance.integers(-2, 3, (rows, depth)).astype(ml_dtypes.bfloat16) for rows in (128, 64))
        d = np.full((128, 64), np.nan, np.float32)
        run(text, "k", a, b, d, timing=timing, arch=arch)
        assert np.array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)


WRONG = {
    "nobody looks again": ([LOOK, LOOP, USE], "E0342"),
    "kept where nobody looks": ([LOOK, LOOP, USE, IF_MORE, f"        {LOOK}"], "E0342"),
    "used twice": ([LOOK, "for k in range(steps // 2):", USE, USE, f"    {LOOK}"], "E0342"),
    "kept under another name": (
        [LOOK, "for k in range(steps // 2):", USE, "    other = input.try_acquire_consumer()", "    ready = other",
         "    multiply(acc, other)"],
        "E0345",
    ),
    "overtaken": (
        [LOOK, "for k in range(steps // 2):", USE, f"    {LOOK}", "    with input.consume() as s:", "        mma(acc, s.a, s.b)"],
        "E0345",
    ),
    "True where nobody looks": (["ready = True", LOOP, USE, f"    {LOOK}"], "E0349"),
    "a condition": (["ready = steps > 0", LOOP, USE], "E0349"),
    "more than the peek": (
        [NONE, LOOP, USE, "    following = input.try_acquire_consumer()", "    ready = following or k == 1"], "E0349"
    ),
    "never used": ([LOOK, LOOP, "    with input.consume() as s:", "        mma(acc, s.a, s.b)", f"    {LOOK}"], "E0341"),
    "of the other side": ([LOOK, LOOP, USE, "    ready = input.try_acquire_producer()"], "E0297"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_ones_are_refused(case: str) -> None:
    body, code = WRONG[case]
    assert code in [one.code for one in diagnose("k.pipe", source("sm_100a", body))]


@pytest.mark.parametrize("case", [case for case, (_, code) in WRONG.items() if code in ("E0342", "E0345", "E0349")])
def test_nor_are_they_proved(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker of proofs reads the same from the PTX: that the result of a peek is about the stage that the wait takes."""
    monkeypatch.setattr(carried_peeks, "check", lambda summary, sink: None)
    text = source("sm_100a", WRONG[case][0])
    found = diagnose_anew("k.pipe", text)
    assert {one.code for one in found} & {"E0342", "E0341", "E0604", "E0601"}, found
