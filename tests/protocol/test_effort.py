"""The budget of the search counts what takes time: a step is about as much work whatever the search is busy with."""

import sys
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
from effort import given_up_soon, reached

from pipec.driver import Options, compile_source
from pipec.protocol.effort import Effort, steps_so_far
from pipec.protocol.prove import Undecided, prove
from pipec.source import Source
from tests.protocol.right import KINDS, right

WRAPS = """kernel copy(x: tensor[f32, M, 32], y: tensor[f32, M, 32], lengths: tensor[i32, B]):
    grid(4)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2)

    role load(warps=1) produces ring:
        for b in range(block.x, B, 4):
            for i in range(ceildiv(load(lengths[b]), 64)):
                with ring.produce() as s:
                    tma.load(s.x, x[i * 64, 0])

    role work(warps=2) consumes ring:
        for b in range(block.x, B, 4):
            for i in range(0, load(lengths[b]), 64):
                with ring.consume() as s:
                    store(y[i, 0], s.x)
"""

_EACH = 3
_APART = 3  # from what is usual, up and down


def search(seed: int) -> None:
    try:
        prove(right(seed)[1], Effort(visits=150, runs=100))
    except Undecided:
        pass


@cache
def calls_per_step(kind: int) -> float:
    """Calls of functions, in Python and in C: what the interpreter does, and unlike its time the same in each run."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    seeds = [kind + number * len(KINDS) for number in range(_EACH)]
    before, profile = steps_so_far(), sys.getprofile()
    sys.setprofile(count)
    try:
        for seed in seeds:
            search(seed)
    finally:
        sys.setprofile(profile)
    return calls / (steps_so_far() - before)


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[kind.__name__ for kind in KINDS])
def test_a_step_is_as_much_work_in_all_families(kind: int) -> None:
    usual = sorted(map(calls_per_step, range(len(KINDS))))[len(KINDS) // 2]
    assert usual / _APART < calls_per_step(kind) < usual * _APART


def test_a_search_ends_where_its_steps_do() -> None:
    """Whatever it does, it does not go far beyond them."""
    for seed in range(len(KINDS)):
        before = steps_so_far()
        try:
            prove(right(seed)[1], Effort(combinations=3_000))
        except Undecided:
            assert steps_so_far() - before < 60_000


def test_what_no_schedule_changes_ends_the_search() -> None:
    """Until numbers in memory are taken to fit, the first two kinds of schedules lack the same bound in all readings. (All rounds of these
    readings took 660,000 steps.)"""
    before = steps_so_far()
    state = compile_source(Source("wraps.pipe", WRAPS), Options())
    assert not state.failed
    assert 0 < steps_so_far() - before < 250_000


@pytest.mark.parametrize(("steps", "outcome"), [(50_000, "proved"), (10, "open")])
def test_what_tests_give_up_soon_is_given_up(steps: int, outcome: str) -> None:
    """Whatever effort of its own the judge allows a search."""
    source = (Path(__file__).parents[2] / "examples" / "gemm.pipe").read_text(encoding="utf-8")
    with given_up_soon(steps):
        state = compile_source(Source("gemm.pipe", source), Options(allow_undecided=True))
    assert [found.outcome for found in state.protocol.values()] == [outcome]


def test_what_is_enough_is_not_exceeded() -> None:
    assert reached(2, iter([1, 0, None, "x"])) and not reached(2, iter([1, 0, None]))
    behind = iter([True, True, False])
    assert reached(2, behind) and list(behind) == [False]
