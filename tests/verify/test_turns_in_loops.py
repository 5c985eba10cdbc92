"""Turns in loops, under conditions and in several roles: blocks that share counters come to the same ones, each once."""

import numpy as np
import pytest

import pipec
from pipec.driver import Options as Compiled
from pipec.driver import compile_source
from pipec.kir.global_memory.counters import counters_in_range
from pipec.runtime import LaunchOptions
from pipec.sim import Options, SimulationError
from pipec.source import Source
from pipec.verify.condition_text import condition_words
from pipec.verify.reader.read import read

KERNEL = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64], turns: tensor[i32, T], others: tensor[i32, T], more: tensor[i32, T, R],
         ns: tensor[i32, 4], n: i32):
    assume(T * 64 >= M)
    assume(M <= 1000000)
    grid({grid})
    role c(warps=4):
{body}
"""
ROWS = "for t in range(ceildiv(M, 64)):"


def turn(counter: str, row: str = "t", number: str = "block.z") -> str:
    return f'with semaphore({counter}, {number}, 4): store(y[({row}) * 64, 0], load(x[({row}) * 64, 0], 64, 64), reduce="add")'


def source(grid: str, *lines: str) -> str:
    """Lines with `with` on one line are spread over two."""
    spread = []
    for line in lines:
        indent = line[: len(line) - len(line.lstrip())]
        head, colon, store = line.partition(": store(")
        spread += [f"{head}:", f"{indent}    store({store}"] if colon else [line]
    return KERNEL.format(grid=grid, body="\n".join(f"        {line}" for line in spread))


ALIKE = {
    "up": source("1, 1, 4", ROWS, f"    {turn('turns[t]')}"),
    "in steps": source("1, 1, 4", "for t in range(0, ceildiv(M, 64), 2):", f"    {turn('turns[t]')}"),
    "down": source("1, 1, 4", ROWS, f"    {turn('turns[ceildiv(M, 64) - 1 - t]')}"),
    "while": source("1, 1, 4", "t = 0", "while t * 64 < M:", f"    {turn('turns[t]', '0')}", "    t = t + 1"),
    "from a parameter": source("1, 1, 4", "for t in range(n, ceildiv(M, 64)):", f"    {turn('turns[t]')}"),
    "as often as memory says": source("1, 1, 4", "for t in range(load(ns[0])):", f"    {turn('turns[t]')}"),
    "dealt out": source("2, 1, 4", "for t in range(block.x, ceildiv(M, 64), grid.x):", f"    {turn('turns[t]')}"),
    "dealt out to any number": source("n, 1, 4", "for t in range(block.x, ceildiv(M, 64), grid.x):", f"    {turn('turns[t]')}"),
    "an index for the row": source("1, 2, 4", "for t in range(ceildiv(M, 128)):", f"    {turn('more[t, block.y]', '2 * t + block.y')}"),
    "an index for the block": source("2, 1, 4", "for t in range(ceildiv(M, 128)):", f"    {turn('more[block.x, t]', '2 * t + block.x')}"),
    "two in a turn": source(
        "1, 1, 4", "for t in range(ceildiv(M, 128)):",
        f"    {turn('turns[2 * t]', '2 * t')}", f"    {turn('turns[2 * t + 1]', '2 * t + 1')}"
    ),
    "two loops": source("1, 1, 4", ROWS, f"    {turn('turns[t]')}", ROWS, f"    {turn('others[t]')}"),
    "two turns": source("1, 1, 4", turn("turns[0]", "0"), turn("turns[1]", "1")),
    "under a condition": source("1, 1, 4", "if n > 3:", f"    {turn('turns[0]', '0')}"),
    "under a condition in a loop": source("1, 1, 4", ROWS, "    if t % 3 != n:", f"        {turn('turns[t]')}"),
}  # fmt: skip
DIFFERENT = {
    "one counter": source("1, 1, 4", ROWS, f"    {turn('turns[0]')}"),
    "a counter for two": source("1, 1, 4", ROWS, f"    {turn('turns[t // 2]')}"),
    "round": source("1, 1, 4", ROWS, f"    {turn('turns[t % 4]')}"),
    "again": source("1, 1, 4", "for s in range(2):", f"    {ROWS}", f"        {turn('turns[t]')}"),
    "another loop": source("1, 1, 4", ROWS, f"    {turn('turns[t]')}", ROWS, f"    {turn('turns[t]')}"),
    "the next one, too": source("1, 1, 4", ROWS, f"    {turn('turns[t]')}", f"    {turn('turns[t + 1]')}"),
    "as often as the block says": source("1, 1, 4", "for t in range(block.z + 1):", f"    {turn('turns[t]')}"),
    "less often": source("1, 1, 4", "for t in range(min(block.z + 60, ceildiv(M, 64))):", f"    {turn('turns[t]')}"),
    "begun by the block": source("1, 1, 4", "for t in range(3 - block.z, ceildiv(M, 64)):", f"    {turn('turns[t]')}"),
    "moved by the block": source("1, 1, 4", ROWS, f"    {turn('turns[t + block.z]')}"),
    "left to the block": source("1, 1, 4", "if block.z != n:", f"    {turn('turns[0]', '0')}"),
    "every other block": source("1, 1, 4", ROWS, "    if (t + block.z) % 2 == 0:", f"        {turn('turns[t]')}"),
    "steps of the block": source(
        "1, 1, 4", "left = n",
        "while left > 64:", f"    {turn('turns[left // 64]', '0')}", "    left = left - block.z - 64"
    ),
    "shared with others": source("2, 1, 4", ROWS, f"    {turn('turns[t + block.x]', '2 * t + block.x')}"),
    "shared downwards": source("2, 1, 4", ROWS, f"    {turn('turns[ceildiv(M, 64) - t + block.x]', '2 * t + block.x')}"),
    "shared by all": source("2, 1, 4", ROWS, f"    {turn('turns[t]', '2 * t + block.x')}"),
    "dealt out to fewer": source("3, 1, 4", "for t in range(block.x, ceildiv(M, 64), 2):", f"    {turn('turns[t]')}"),
    "dealt out from elsewhere": source("2, 1, 4", "for t in range(block.x * 2, ceildiv(M, 64), grid.x):", f"    {turn('turns[t]')}"),
    "the turn of the loop": source("1, 1, 4", ROWS, f"    {turn('turns[t]', number='t')}"),
    "backwards": source("1, 1, 4", ROWS, f"    {turn('turns[t]', number='3 - block.z')}"),
    "two that may be one": source("1, 1, 4", turn("turns[0]", "0"), turn("turns[n]", "1")),
}  # fmt: skip
ROLES = """
kernel k(y: tensor[f32, 64, 64], z: tensor[f32, 64, 64], turns: tensor[i32, 2], n: i32):
    grid(1, 1, 4)
    role c(warps=4):
        with semaphore(turns[0], block.z, 4):
            store(y[0, 0], fill(1.0, f32, 64, 64) * cast[f32](block.z))
    role d(warps=4):
        with semaphore(turns[{other}], block.z, 4):
            store(z[0, 0], fill(1.0, f32, 64, 64) * cast[f32](block.z))
"""


def assumed(text: str) -> set[str]:
    """What a proof would take for granted of waiting for memory."""
    compiled = compile_source(Source("turns.pipe", text), until="emit")
    assert compiled.ptx is not None, compiled.sink
    return {one.kind for one in read(compiled.ptx, "k").assumptions} & {"turns", "polling"}


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
def test_turns_of_blocks_that_go_the_same_ways_come(text: str) -> None:
    assert assumed(text) == {"turns"}
    assert compile_source(Source("turns.pipe", text)).protocol["k"].outcome == "proved"


@pytest.mark.parametrize("text", DIFFERENT.values(), ids=DIFFERENT)
def test_turns_that_may_not_come_are_not_taken_for_such(text: str) -> None:
    assert assumed(text) == {"polling"}


def test_roles_take_turns_at_counters_of_their_own() -> None:
    assert assumed(ROLES.format(other="1")) == {"turns"}
    assert assumed(ROLES.format(other="0")) == assumed(ROLES.format(other="n")) == {"polling"}


# y is doubled before each addition: only one order gives this.
IN_ORDER = """
kernel k(x: tensor[f32, 4, M, 64], y: tensor[f32, M, 64], turns: tensor[i32, T]):
    assume(T * 64 >= M)
    grid(2, 1, 4)
    role c(warps=4):
        for t in range(block.x, ceildiv(M, 64), grid.x):
            with semaphore(turns[t], block.z, 4):
                store(y[t * 64, 0], load(y[t * 64, 0], 64, 64) * 2.0 + load(x[block.z, t * 64, 0], 64, 64))
"""


@pytest.mark.parametrize(("timing", "seed"), [("order", 1), ("late", 1), ("random", 1), ("random", 2)])
def test_blocks_add_to_each_tile_in_order(timing: str, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-4, 5, (4, 300, 64)).astype(np.float32)
    y, turns = np.zeros((300, 64), np.float32), np.zeros(5, np.int32)
    pipec.compile(IN_ORDER)["k"](x, y, turns, device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=seed)))
    assert not turns.any()
    np.testing.assert_array_equal(y, ((x[0] * 2 + x[1]) * 2 + x[2]) * 2 + x[3])


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((ROWS, f"    {turn('turns[t]')}"), "T >= ceildiv(M, 64)"),
        (("for t in range(0, ceildiv(M, 64), 2):", f"    {turn('turns[t + 3]')}"), "T >= "),
        (("for t in range(n, ceildiv(M, 64)):", f"    {turn('turns[t]')}"), "n >= 0"),
        (("for t in range(9, 6, -1):", f"    {turn('turns[9 - t]', '0')}"), "T >= 3"),
        (("for s in range(n):", f"    {turn('turns[s]', 's')}"), "T >= n"),
    ],
)
def test_launches_are_asked_for_counters_of_all_turns(lines: tuple[str, ...], told: str) -> None:
    text = source("1, 1, 4", *lines).replace("    assume(T * 64 >= M)\n", "")
    compiled = compile_source(Source("turns.pipe", text), Compiled(allow_undecided=True))
    assert not [one for one in compiled.findings["k"].assumed if "counters" in one] and told in compiled.protocol["k"].sentence


def test_counters_of_a_condition_are_not_asked_for() -> None:
    text = source("1, 1, 4", ROWS, "    if t < n:", f"        {turn('turns[t]')}").replace("    assume(T * 64 >= M)\n", "")
    compiled = compile_source(Source("turns.pipe", text))
    assert compiled.findings["k"].assumed and "T >= " not in compiled.protocol["k"].sentence
    bounded = compile_source(Source("turns.pipe", text.replace("t < n", "t < T")))
    assert not bounded.findings["k"].assumed and "T >= " not in bounded.protocol["k"].sentence


def test_a_constant_counter_outside_is_refused_wherever_it_is() -> None:
    text = ROLES.replace("turns[0], block.z, 4):", "turns[2], block.z, 4):", 1).format(other="1")
    under = text.replace("        with semaphore(turns[2]", "        if n > 3:\n          with semaphore(turns[2]")
    for one in (text, under.replace("            store(y", "                store(y")):
        assert {message.code for message in compile_source(Source("turns.pipe", one)).diagnostics} == {"E0619"}


PLACED = """
kernel k(y: tensor[f32, 64, 64], turns: tensor[i32, {rows}, T], n: i32):
    grid(1, {blocks}, 4)
    role c(warps=4):
        {loops}
            with semaphore(turns[block.y, {index}], block.z, 4):
                store(y[0, 0], fill(1.0, f32, 64, 64), reduce="add")
"""
LOOPS = "for s in range(4):\n          for t in range(block.y * 8 + s, block.y * 8 + s + 2):"


@pytest.mark.parametrize(
    ("rows", "blocks", "loops", "index", "asked"),
    [
        ("R", "2", "for t in range(4 * block.y, 4 * block.y + 4):", "t - 4 * block.y", ("R >= 2", "T >= 4")),
        ("R", "n", "for t in range(4 * block.y, 4 * block.y + 4):", "t - 4 * block.y", ("R >= grid.y", "T >= 4")),
        ("R", "n", "for t in range(4 * block.y, 4 * block.y + 4):", "t + 4 * block.y", ("R >= grid.y", "T + 4 >= 8 * grid.y")),
        ("R", "n", "for t in range(4 * block.y + 3, 4 * block.y, -1):", "4 * block.y + 3 - t", ("R >= grid.y", "T >= 3")),
        ("R", "n", LOOPS, "t - 8 * block.y - s", ("R >= grid.y", "T >= 2")),
        ("R", "n", LOOPS, "t - 8 * block.y", ("R >= grid.y", "T >= 5")),
        ("2", "2", "for t in range(4):", "t", ("T >= 4",)),
    ],
)
def test_what_launches_are_asked_follows_where_loops_begin(
    rows: str, blocks: str, loops: str, index: str, asked: tuple[str, ...]
) -> None:
    """A loop that begins at the block's place comes to as many counters in each block; and grids that are stated are numbers."""
    text = PLACED.format(rows=rows, blocks=blocks, loops=loops, index=index)
    compiled = compile_source(Source("turns.pipe", text), Compiled(allow_undecided=True))
    assert compiled.plans is not None, compiled.sink
    assert sorted(map(condition_words, counters_in_range(compiled.plans[0].kernel))) == sorted(asked)


def test_a_counter_outside_for_blocks_of_a_stated_grid_is_refused() -> None:
    text = PLACED.format(rows="1", blocks="2", loops="for t in range(4):", index="t")
    assert "E0619" in {message.code for message in compile_source(Source("turns.pipe", text), until="limits").diagnostics}


DEALT = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64], turns: tensor[i32, T]):
    assume(T * 64 >= M)
    grid(4)
    role c(warps=4):
        for t in range(block.x, ceildiv(M, 64) * 4, grid.x):
            m = t // 4
            with semaphore(turns[m], t % 4, {turns}):
                store(y[m * 64, 0], load(x[m * 64, 0], 64, 64), reduce="add")
"""


@pytest.mark.parametrize(
    ("turns", "code"), [("4", None), ("2 + m * 0 + 2", None), ("5", "E0624"), ("max(4, 7 - m)", "E0624"), ("3 + m % 2", "E0617")]
)
def test_turns_left_over_are_found_where_they_are_not_followed(turns: str, code: str | None) -> None:
    """Of each tile, four blocks take a turn: with another number the simulator ends with a counter that is not 0, or never."""
    text = DEALT.format(turns=turns)
    state = compile_source(Source("turns.pipe", text), Compiled(allow_undecided=True))
    assert [one.code for one in state.diagnostics] == [code] * (code is not None)
    x, y, counters = np.ones((300, 64), np.float32), np.zeros((300, 64), np.float32), np.zeros(5, np.int32)
    kernel = pipec.compile(text, unchecked=True, allow_undecided=True)["k"]
    if code == "E0617":
        with pytest.raises(SimulationError, match="deadlock"):
            kernel(x, y, counters, device="sim")
        return
    kernel(x, y, counters, device="sim")
    assert counters.any() == (code is not None) and (y == 4).all()
