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


LINES = """
kernel k[S: int = 3](x: tensor[f32, M, 64], y: tensor[f32, M, 64], turns: tensor[i32, T], n: i32):
    grid({grid})
    role compute(warps=4):
        with semaphore(turns[{counter}], {turn}, {taken}):
            store(y[0, 0], load(x[0, 0], 64, 64), reduce="add")
"""


@pytest.mark.parametrize(
    ("grid", "counter", "turn", "taken"),
    [
        ("n, S, 4", "block.x", "block.z * S + block.y", "S * 4"),
        ("ceildiv(M, 64), S, n", "block.x", "block.z * S + block.y", "grid.z * S"),
        ("S, 2, ceildiv(M, 64)", "block.z", "block.y * S + block.x", "2 * S"),
        ("S, 5, n", "block.y", "block.x + block.z * S", "n * S"),
        ("S, 5, n", "0", "block.x + block.y * S + block.z * 5 * S", "n * 5 * S"),
    ],
)
def test_turns_along_several_axes_are_proved(grid: str, counter: str, turn: str, taken: str) -> None:
    state = compile_source(Source("turns.pipe", LINES.format(grid=grid, counter=counter, turn=turn, taken=taken)), Options())
    assert told(state) == [] and state.protocol["k"].outcome == "proved"
    assert not any("zero again" in one for one in state.findings["k"].assumed)


@pytest.mark.parametrize(
    ("grid", "counter", "turn", "taken", "expected"),
    [
        ("n, S, 4", "block.x", "block.z + block.y * 4", "S * 4", "E0617"),  # the grid counts along y first
        ("n, S, 4", "block.x", "block.z * 2 + block.y", "S * 4", "E0617"),  # two blocks have one turn
        ("n, S, 4", "block.x", "block.z * 4 + block.y", "S * 4", "E0617"),  # and turns that no block has
        ("n, S, 4", "0", "block.z * S + block.y", "S * 4", "E0617"),  # blocks along x share the counter
        ("n, S, 4", "block.x", "block.z * S + block.y + 1", "S * 4", "E0617"),
        ("n, S, 4", "block.y", "block.z * S + block.y", "S * 4", "E0617"),
        ("n, S, 4", "block.x", "block.z * S + block.y", "S * 4 - 1", "E0613"),
        ("n, S, 4", "block.x", "block.z * S + block.y", "S * 4 + 1", "E0613"),
        ("n, 4, S", "block.x", "block.z * 4 + block.y", "grid.z", "E0613"),
        ("4, 1, n", "block.x", "block.z", "n + 1", "E0613"),
        ("4, 1, n", "block.x", "block.z", "S", "E0617"),  # a launch may have more blocks than turns
        ("4, n, S", "block.x", "block.z * n + block.y", "S * n", "E0604"),  # a line of any number of blocks
    ],
)
def test_turns_along_several_axes_that_are_no_count_are_refused(
    grid: str, counter: str, turn: str, taken: str, expected: str
) -> None:
    text = LINES.format(grid=grid, counter=counter, turn=turn, taken=taken)
    assert [code for code, _ in told(compile_source(Source("turns.pipe", text), Options()))] == [expected]


@pytest.mark.parametrize(("until", "expected"), [("block.z", ["E0617"]), ("load(found[block.z])", ["E0604"])])
def test_a_counter_that_a_loop_finds_for_each_block_is_refused(until: str, expected: list[str]) -> None:
    before = f"i = 0\n        while i < {until}:\n            i += 1\n        with semaphore"
    text = LINES.format(grid="1, 1, n", counter="i", turn="block.z", taken="n").replace("with semaphore", before)
    state = compile_source(Source("turns.pipe", text.replace("n: i32", "found: tensor[i32, F], n: i32")), Options())
    assert [code for code, _ in told(state)] == expected


def test_conditions_of_the_launch_hold_where_a_turn_does_not_come() -> None:
    text = LINES.format(grid="1, 1, n", counter="0", turn="block.z if n == 4 else block.z + 1", taken="n")
    for condition, expected in (("n > 0", ["E0617"]), ("n == 4", ["E0604"])):
        asked = text.replace("    grid", f"    assume({condition})\n    grid")
        assert [code for code, _ in told(compile_source(Source("turns.pipe", asked), Options()))] == expected


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
