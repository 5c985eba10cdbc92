"""Roles that do the same to other tiles share their code; roles that differ in anything else do not."""

import re
from pathlib import Path

import numpy as np
import pytest
from running import run, values

import pipec
from pipec.driver import Options, compile_source
from pipec.kir.plan import derive
from pipec.kir.plan.types import Plan
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"

# Two halves of a tile go through a role each, in turns of two stages, and come back with a number that differs.
HALVES = """
fn work(input, output, made, first):
    total = registers(fill(0.0, f32, 64, 32))
    for k in range(steps):
        with input.consume() as s:
            total = total + s.x * cast[f32](first + k)
            if any(total > 1.0e30):
                total = registers(fill(0.0, f32, 64, 32))
        output.acquire()
        write(made[output.index()], total)
        output.commit()

kernel halves(x: tensor[f32, K, 128, 32], y: tensor[f32, K, 128, 32], steps: i32):
    grid(1)
    one    = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2)
    two    = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2)
    first  = RolePipeline(stages=2)
    second = RolePipeline(stages=2)
    a      = SharedTiles(tile[f32, 64, 32], count=2)
    b      = SharedTiles(tile[f32, 64, 32], count=2)

    role load(warps=1) produces one, two:
        for k in range(steps):
            with one.produce() as s:
                tma.load(s.x, x[k, 0, 0])
            with two.produce() as s:
                tma.load(s.x, x[k, 64, 0])

    role upper(warps=2) consumes one produces first:
        work(one, first, a, block.x * 3)

    role lower(warps=2) consumes two produces second:
        work(two, second, b, block.x * 3 + 7)

    role finish(warps=2) consumes first, second:
        for k in range(steps):
            first.wait()
            store.direct(y[k, 0, 0], a[first.index()])
            first.release()
            second.wait()
            store.direct(y[k, 64, 0], b[second.index()])
            second.release()
"""


def plan_of(source: str, **constants: object) -> Plan:
    state = compile_source(Source("twins.pipe", source), Options(constants=constants), until="plan")
    assert state.plans is not None, [one.title for one in state.diagnostics]
    return state.plans[0]


def sharing(source: str, **constants: object) -> dict[str, list[str]]:
    return {name: [twin.row.role.name for twin in twins] for name, twins in plan_of(source, **constants).twins.items()}


def expected(x: np.ndarray, first: int) -> np.ndarray:
    turns = first + np.arange(len(x), dtype=np.float32)
    return np.cumsum(x * turns[:, None, None], axis=0, dtype=np.float32)


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_each_works_on_its_own(steps: int, timing: str) -> None:
    assert sharing(HALVES) == {"upper": ["lower"]}
    x, y = values((5, 128, 32), "f32", 1), np.full((5, 128, 32), 9, np.float32)
    run(HALVES, "halves", x, y, steps, timing=timing)
    np.testing.assert_array_equal(y[:steps, :64], expected(x[:steps, :64], 0))
    np.testing.assert_array_equal(y[:steps, 64:], expected(x[:steps, 64:], 7))
    assert (y[steps:] == 9).all()


def test_the_code_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is: each role's waits, signals and stores to shared memory, of the barriers and tiles of the one that runs."""
    once = pipec.compile(HALVES).ptx
    monkeypatch.setattr(derive, "plan_twins", lambda plan: {})
    twice = pipec.compile(HALVES).ptx
    for instruction in ("bar.red", r"st\.shared\.v4", "mul.rn"):
        assert 2 * len(re.findall(instruction, once)) == len(re.findall(instruction, twice)) > 0, instruction


@pytest.mark.parametrize(
    ("what", "before", "after"),
    [
        ("a literal, by which code is chosen", "block.x * 3 + 7)", "7)"),
        ("warps", "role lower(warps=2)", "role lower(warps=4)"),
        ("registers", "role lower(warps=2)", "role lower(warps=2, registers=64)"),
        ("stages", "second = RolePipeline(stages=2)", "second = RolePipeline(stages=1)"),
        ("a number of the thread", "block.x * 3 + 7)", "block.x * 3 + role_warp())"),
    ],
)
def test_what_differs_is_written_twice(what: str, before: str, after: str) -> None:
    source = HALVES.replace(before, after)
    assert source != HALVES
    state = compile_source(Source("twins.pipe", source), Options(unchecked=True), until="plan")
    assert state.plans is not None, [one.title for one in state.diagnostics]
    assert state.plans[0].twins == {}, what


def test_other_lines_of_the_source_are_written_twice() -> None:
    """What is told of a wait names its line, which is that of the one role or that of the other."""
    body = re.search(r"fn work.*?\n\n", HALVES, re.DOTALL)
    assert body is not None
    source = HALVES.replace("kernel halves", body[0].replace("fn work", "fn again") + "kernel halves")
    assert sharing(source) == {"upper": ["lower"]}
    assert sharing(source.replace("work(two", "again(two")) == {}


def test_a_softmax_for_each_of_two_tiles() -> None:
    source = (EXAMPLES / "attention.pipe").read_text()
    for constants in ({}, {"CAUSAL": True}, {"D": 128, "RAGGED": True}):
        assert sharing(source, **constants) == {"softmax_one": ["softmax_two"]}
    # In a pair of CTAs each drains what the other CTA gives back, and the wait for that names the role's own last line.
    assert sharing(source, CTAS=2) == {}


@pytest.mark.parametrize("options", [Options(watchdog=1.0), Options(timestamps=True)])
def test_reports_distinguish_the_roles(options: Options) -> None:
    state = compile_source(Source("twins.pipe", HALVES), options)
    assert state.plans is not None and state.plans[0].twins == {} and state.ptx is not None
