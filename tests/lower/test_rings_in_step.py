"""Rings that a role walks in step have one stage number and one phase."""

import re
from pathlib import Path

import pytest

import pipec
from pipec.driver import compile_source
from pipec.kir.plan.types import RolePlan
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"

# Two rings, one acquired by every second turn only, or twice in each.
UNEVEN = """
kernel uneven(a: tensor[bf16, M, 64], b: tensor[bf16, M, 64], d: tensor[f32, M, 64]):
    grid(1)
    one = InputTilePipeline(TilePayload(t=tile[bf16, 64, 64]), stages=2)
    two = InputTilePipeline(TilePayload(t=tile[bf16, 64, 64]), stages=2)

    role load(warps=1) produces one, two:
        for i in range(ceildiv(M, 64)):
            with one.produce() as s:
                tma.load(s.t, a[i * 64, 0])
            if {condition}:
                with two.produce() as s:
                    tma.load(s.t, b[i * 64, 0])

    role copy(warps=4) consumes one, two:
        for i in range(ceildiv(M, 64)):
            with one.consume() as s:
                store(d[i * 64, 0], cast[f32](s.t))
            if {condition}:
                with two.consume() as s:
                    store(d[i * 64, 0], cast[f32](s.t))
"""

# Both rings are acquired once in each turn, and of the first one more stage is skipped.
IN_TURN = """
kernel turns(a: tensor[bf16, M, 64], b: tensor[bf16, M, 64], d: tensor[f32, M, 64]):
    grid(1)
    one = InputTilePipeline(TilePayload(t=tile[bf16, 64, 64]), stages=2)
    two = InputTilePipeline(TilePayload(t=tile[bf16, 64, 64]), stages=2)
    turn = ProducerConsumerPipeline(stages=1)

    role load(warps=1) produces one, two:
        for i in range(ceildiv(M, 128)):
            with one.produce() as s:
                tma.load(s.t, a[i * 128, 0])
            with one.produce() as s:
                tma.load(s.t, a[i * 128 + 64, 0])
            with two.produce() as s:
                tma.load(s.t, b[i * 64, 0])

    role even(warps=4) consumes one, two produces turn:
        for i in range(ceildiv(M, 128)):
            with turn.produce():
                with one.consume() as s, two.consume() as t:
                    store(d[i * 128, 0], cast[f32](s.t) + cast[f32](t.t))
                one.skip()

    role odd(warps=4) consumes one, two, turn:
        for i in range(ceildiv(M, 128)):
            with turn.consume():
                one.skip()
                with one.consume() as s, two.consume() as t:
                    store(d[i * 128 + 64, 0], cast[f32](s.t) + cast[f32](t.t))
"""


def groups(text: str, kernel: str, role: str) -> set[frozenset[tuple[str, str]]]:
    plans = compile_source(Source("kernel.pipe", text), until="plan").plans
    assert plans is not None
    rows: list[RolePlan] = [row for plan in plans if plan.kernel.name == kernel for row in plan.roles if row.role.name == role]
    return {frozenset((pipeline.name, side) for pipeline, side in group) for group in rows[0].in_step}


def test_rings_that_every_block_acquires_equally_often() -> None:
    programmatic = (EXAMPLES / "programmatic_launch.pipe").read_text()
    assert groups(programmatic, "project", "mma") == {frozenset({("weights", "consumer"), ("inputs", "consumer")})}
    attention = (EXAMPLES / "attention.pipe").read_text()
    assert groups(attention, "attention", "load") == {frozenset({("keys", "producer"), ("values", "producer")})}
    # The first keys are acquired in front of the loop, and the last values without any.
    assert not any(("values", "consumer") in group for group in groups(attention, "attention", "multiply"))


def test_a_ring_of_which_stages_are_skipped_is_not_in_step() -> None:
    assert groups(IN_TURN, "turns", "even") == groups(IN_TURN, "turns", "odd") == set()


@pytest.mark.parametrize("condition", ["i % 2 == 0", "i > 0"])
def test_a_ring_that_is_skipped_is_not_in_step(condition: str) -> None:
    text = UNEVEN.format(condition=condition)
    assert groups(text, "uneven", "load") == groups(text, "uneven", "copy") == set()


def test_the_loop_counts_one_ring() -> None:
    """Three numbers change from turn to turn: the stage, the phase and k. LLVM found the phases to be one by itself, but not the stages."""
    ptx = pipec.compile(EXAMPLES / "programmatic_launch.pipe", constants={"STAGES": 4}).ptx
    role = ptx.partition(".visible .entry project")[2].partition("// mma(warps=1)")[2].partition("tcgen05.mma")[0]
    # By one turn, and for four stages by a quarter of the word that holds the stage and an eighth of that with the phase.
    steps = re.findall(rf"add\.s32 \t%r\d+, %r\d+, (1|{1 << 30}|{1 << 29});", role)
    assert sorted(map(int, steps)) == [1, 1 << 29, 1 << 30], steps
