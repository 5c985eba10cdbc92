"""One bound or condition, spelled in two ways that the machine computes apart: proved where they are the same, and only there."""

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source
from pipec.verify.conditions import met
from pipec.verify.data import formula_of

FRAME = """
kernel k(n: i32, m: i32, y: tensor[f32, M, N]):
ASSUMED    grid(GRID)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
PRODUCER
    role b(warps=1) consumes p:
CONSUMER
"""
LOOP = "for i in range(BOUND):\n    STAGE"
TURNS = "for i in range(n):\n    if CONDITION:\n        STAGE"
TILES = "for t in range(block.x, m, BOUND):\n    STAGE"


def compiled(producer: str, consumer: str, grid: str = "1", assumed: str = "") -> Compilation:
    text = FRAME.replace("GRID", grid).replace("ASSUMED", f"    assume({assumed})\n" if assumed else "")
    for side, body, stage in (
        ("PRODUCER", producer, "p.producer_signal_and_step()"),
        ("CONSUMER", consumer, "p.consumer_signal_and_step()"),
    ):
        text = text.replace(side, "\n".join(f"        {line}" for line in body.replace("STAGE", stage).split("\n")))
    return compile_source(Source("k.pipe", text), Options("sm_100a", allow_undecided=True))


def outcome(producer: str, consumer: str, grid: str = "1", assumed: str = "") -> str:
    return compiled(producer, consumer, grid, assumed).protocol["k"].outcome


BOUNDS = [
    ("(n + 4) // 5", "ceildiv(n, 5)"),
    ("-(-n // 4)", "ceildiv(n, 4)"),
    ("n // 3", "(n + 3) // 3 - 1"),
    ("n // 7 * 7 + n % 7", "n"),
    # Compilers make these of masks, bit fields and unsigned shifts.
    ("2 * n // 8", "n // 4"),
    ("(n + n) // 2", "n"),
    ("2 * ceildiv(n, 2) // 2", "(n + 1) // 2"),
    ("n // 2 + n % 2", "ceildiv(n, 2)"),
    ("ceildiv(n, 2) // 2", "(n + 1) // 4"),
    # The first product leaves the 32 bits at sizes that are launched.
    ("n * 100000 // 50000", "2 * n"),
]
CONDITIONS = [
    ("i % 3 == 1", "(i + 2) % 3 == 0"),
    ("i // 3 * 3 == i", "i % 3 < 1"),
    ("i == 1 or i == 3", "not (i != 1 and i != 3)"),  # one of them becomes a mask
    ("i == 4 or i == 5", "i // 2 == 2"),  # a distance without a sign
    ("i % 3 != 0", "i % 3 == 1 or i % 3 == 2"),
]


@pytest.mark.parametrize(("one", "other"), BOUNDS)
def test_bounds(one: str, other: str) -> None:
    assert outcome(LOOP.replace("BOUND", one), LOOP.replace("BOUND", other)) == "proved"
    assert outcome(LOOP.replace("BOUND", one), LOOP.replace("BOUND", f"({other}) + 1")) == "refuted"


def test_a_bound_under_a_condition() -> None:
    """Where n is known to be positive compilers divide it as an unsigned number."""
    under = "if n >= 2:\n    for i in range(BOUND):\n        STAGE"
    whole = under.replace("BOUND", "n // 2 + n % 2")
    assert outcome(whole, under.replace("BOUND", "ceildiv(n, 2)")) == "proved"
    assert outcome(whole, under.replace("BOUND", "n // 2")) != "proved"


def test_the_launch_keeps_a_sum_within_32_bits() -> None:
    """The sum is of 64 bits there; where it wraps the roles do not agree."""
    state = compiled(LOOP.replace("BOUND", "n * 100000 // 50000"), LOOP.replace("BOUND", "2 * n"))
    conditions = [formula_of(one) for one in state.plans[0].interface.conditions]
    assert [n for n in (0, 21474, 21475, 42950, 2**31 - 1) if all(met(one, {"n": n, "m": 0}) for one in conditions)] == [0, 21474]
    assert "n <= 21474" in state.protocol["k"].sentence


@pytest.mark.parametrize(("one", "other"), CONDITIONS)
def test_conditions(one: str, other: str) -> None:
    assert outcome(TURNS.replace("CONDITION", one), TURNS.replace("CONDITION", other)) == "proved"
    assert outcome(TURNS.replace("CONDITION", one), TURNS.replace("CONDITION", f"not ({other})")) == "refuted"


def test_places_in_the_grid() -> None:
    """What is known of the grid while compiling."""
    assert outcome(TILES.replace("BOUND", "grid.x"), TILES.replace("BOUND", "4"), "4") == "proved"
    assert outcome(TILES.replace("BOUND", "grid.x"), TILES.replace("BOUND", "3"), "4") == "refuted"
    nowhere = "if block.y + block.z + block.x == 0:\n    STAGE"
    assert outcome(nowhere, "STAGE") == "proved"
    assert outcome(nowhere, "STAGE", "2") == "refuted"


# A block's share of tiles: in strides of the grid, and counted; and conditions that hold in every block of the grid.
TILE = "for t in range(block.x, m, grid.x):\n    STAGE"
SHARES = [
    ("64", "ceildiv(m - block.x, grid.x)", "ceildiv(m - block.x, 65)"),
    ("7", "ceildiv(m - block.x, grid.x)", "ceildiv(m - block.x, grid.x) + block.x // 6"),
    ("132", "(m - block.x + grid.x - 1) // grid.x", "(m - block.x + grid.x) // grid.x"),
]
EVERYWHERE = [
    ("M", "block.x < M", "block.x + 1 < M"),
    ("N, M", "block.y < M", "block.x < M"),
    ("ceildiv(M, 128)", "block.x * 128 < M", "block.x * 128 + 1 < M"),
    ("2 * M", "block.x // 2 < M", "block.x < M"),
]


@pytest.mark.parametrize(("grid", "right", "wrong"), SHARES)
def test_shares_of_blocks(grid: str, right: str, wrong: str) -> None:
    """The launch is asked about the sizes, and not about where a block stands."""
    state = compiled(TILE, LOOP.replace("BOUND", right), grid)
    assert state.protocol["k"].outcome == "proved"
    assert "block" not in state.protocol["k"].sentence
    assert outcome(TILE, LOOP.replace("BOUND", wrong), grid) != "proved"


@pytest.mark.parametrize(("grid", "right", "wrong"), EVERYWHERE)
def test_conditions_that_hold_in_every_block(grid: str, right: str, wrong: str) -> None:
    body = f"if {right}:\n    {LOOP.replace('BOUND', 'n').replace(chr(10), chr(10) + '    ')}"
    assert outcome(body, LOOP.replace("BOUND", "n"), grid) == "proved"
    assert outcome(body.replace(right, wrong), LOOP.replace("BOUND", "n"), grid) == "refuted"
