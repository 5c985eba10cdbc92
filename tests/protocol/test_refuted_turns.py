"""Turns that need not come: launches whose blocks run one after the other."""

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source
from tests.protocol.test_refute import told

KERNEL = """
kernel k[S: int = 3](x: tensor[f32, 64, 64], y: tensor[f32, 64, 64], turns: tensor[i32, 8]):
    grid({grid})
    role compute(warps=4):
{body}
"""
TURN = 'with semaphore({counter}, {turn}, S):\n            store(y[0, 0], load(x[0, 0], 64, 64), reduce="add")'


def judged(grid: str, *turns: tuple[str, str], before: str = "") -> Compilation:
    body = before + "\n        ".join(["", *(TURN.format(counter=counter, turn=turn) for counter, turn in turns)])
    return compile_source(Source("turns.pipe", KERNEL.format(grid=grid, body=body)), Options(allow_undecided=True))


@pytest.mark.parametrize(
    ("grid", "turns"),
    [
        ("1, 1, S", [("turns[0]", "block.z")]),
        ("2, 1, S", [("turns[block.x]", "block.z")]),
        ("1, S, 2", [("turns[block.z]", "block.y")]),
        ("1, 1, S", [("turns[0]", "block.z"), ("turns[1]", "block.z")]),
    ],
)
def test_turns_that_come_are_not_refused(grid: str, turns: list[tuple[str, str]]) -> None:
    assert told(judged(grid, *turns)) == []


@pytest.mark.parametrize(
    ("grid", "turns", "block"),
    [
        ("1, 1, S", [("turns[0]", "block.z + 1")], "(0, 0, 0)"),
        ("1, 1, S", [("turns[0]", "S - 1 - block.z")], "(0, 0, 0)"),
        ("2, 1, S", [("turns[0]", "block.z")], "(1, 0, 0)"),  # two blocks for each turn
        ("1, 1, S", [("turns[block.z]", "block.z")], "(0, 0, 1)"),
        ("1, 1, S", [("turns[0]", "block.z"), ("turns[0]", "block.z")], "(0, 0, 0)"),
    ],
)
def test_turns_that_need_not_come_are_refused(grid: str, turns: list[tuple[str, str]], block: str) -> None:
    ((code, title),) = told(judged(grid, *turns))
    assert code == "E0617" and f"block {block} waits" in title


HALVES = """
kernel k[S: int = 4](x: tensor[f32, 64, 64], y: tensor[f32, 64, 64], turns: tensor[i32, 8]):
    grid(1, 1, S)
    role compute(warps=4):
        if block.z < S // 2:
            with semaphore(turns[0], block.z, S):
                store(y[0, 0], load(x[0, 0], 64, 64), reduce="add")
        else:
            with semaphore(turns[0], {turn}, S):
                store(y[0, 0], load(x[0, 0], 64, 64), reduce="add")
"""


@pytest.mark.parametrize(
    ("turn", "expected"),
    [("block.z", []), ("block.z + 1", ["(0, 0, 2)"]), ("block.z * 3 - 4", ["(0, 0, 3)"])],
)
def test_each_half_of_the_blocks_takes_its_branch(turn: str, expected: list[str]) -> None:
    state = compile_source(Source("turns.pipe", HALVES.format(turn=turn)), Options(allow_undecided=True))
    assert [title.split("block ")[1].split(" waits")[0] for _, title in told(state)] == expected
