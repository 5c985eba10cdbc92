"""All roles have the same loops, and of the quotients and choices in their bounds it matters that they are equal: a last wave, split."""

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.effort import steps_so_far
from pipec.source import Source

ITEMS = "range(block.x, rest * split, 132)"
BLOCKS = "range(i // rest * steps // split, (i // rest + 1) * steps // split)"
TEXT = """
kernel last_wave(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(132)
    assume(K > 0)
    rows = ceildiv(M, 128)
    steps = ceildiv(K, 64)
    alone = rows * ceildiv(N, 128) // 132 * 132
    rest = rows * ceildiv(N, 128) - alone
    split = {split}
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 128, 64]), stages=4)

    role load(warps=1) produces input:
        for t in range(block.x, alone, 132):
            for k in range(steps):
                with input.produce() as s:
                    tma.load(s.a, a[t % rows * 128, k * 64])
                    tma.load(s.b, b[t // rows * 128, k * 64])
        for i in {loaded}:
            for k in {filled}:
                with input.produce() as s:
                    tma.load(s.a, a[(alone + i % rest) % rows * 128, k * 64])
                    tma.load(s.b, b[(alone + i % rest) // rows * 128, k * 64])

    role compute(warps=8) consumes input:
        for t in range(block.x, alone, 132):
            acc = accumulator(f32, 128, 128)
            for k in range(steps):
                with input.consume() as s:
                    mma(acc, s.a, s.b)
            store(d[t % rows * 128, t // rows * 128], acc, reduce="add")
        for i in {taken}:
            acc = accumulator(f32, 128, 128)
            for k in {used}:
                with input.consume() as s:
                    mma(acc, s.a, s.b)
            store(d[(alone + i % rest) % rows * 128, (alone + i % rest) // rows * 128], acc, reduce="add")
"""
SPLITS = {
    "as many as fill the GPU": "min(steps, max(1, 132 // max(1, rest)))",
    "one more where it pays": "1 if rest > 66 else 132 // max(1, rest)",
    "of the K blocks": "max(1, min(8, steps // 4))",
    "a number": "3",  # quotients by it are rounded down also where they may be negative
}
MOST = 700_000  # steps: without folded bounds it took more than all there are


def text(split: str = SPLITS["as many as fill the GPU"], **changes: str) -> str:
    return TEXT.format(split=split, **({"loaded": ITEMS, "taken": ITEMS, "filled": BLOCKS, "used": BLOCKS} | changes))


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_it_is_proved(split: str) -> None:
    before = steps_so_far()
    state = compile_source(Source("right.pipe", text(split)), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    assert steps_so_far() - before < MOST


WRONG = {
    "an item fewer": {"taken": "range(block.x, rest * split - 1, 132)"},
    "one part of each tile": {"taken": "range(block.x, rest, 132)"},
    "a K block more": {"used": "range(i // rest * steps // split, (i // rest + 1) * steps // split + 1)"},
    "parts rounded up": {"used": "range(i // rest * steps // split, ceildiv((i // rest + 1) * steps, split))"},
    "the part of another item": {"filled": "range(i % rest * steps // split, (i % rest + 1) * steps // split)"},
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    """Neither so nor by the search that comes next, with all steps that it may take."""
    state = compile_source(Source("wrong.pipe", text(**WRONG[name])), Options("sm_90a", allow_undecided=True))
    assert {outcome.outcome for outcome in state.protocol.values()} <= {"open", "refuted"}
