"""One bound or condition, spelled in two ways that the machine computes apart: proved where they are the same, and only there."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

FRAME = """
kernel k(n: i32, m: i32):
    grid(GRID)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
PRODUCER
    role b(warps=1) consumes p:
CONSUMER
"""
LOOP = "for i in range(BOUND):\n    STAGE"
TURNS = "for i in range(n):\n    if CONDITION:\n        STAGE"
TILES = "for t in range(block.x, m, BOUND):\n    STAGE"


def outcome(producer: str, consumer: str, grid: str = "1") -> str:
    text = FRAME.replace("GRID", grid)
    for side, body, stage in (
        ("PRODUCER", producer, "p.producer_signal_and_step()"),
        ("CONSUMER", consumer, "p.consumer_signal_and_step()"),
    ):
        text = text.replace(side, "\n".join(f"        {line}" for line in body.replace("STAGE", stage).split("\n")))
    return compile_source(Source("k.pipe", text), Options("sm_100a", allow_undecided=True)).protocol["k"].outcome


BOUNDS = [
    ("(n + 4) // 5", "ceildiv(n, 5)"),
    ("-(-n // 4)", "ceildiv(n, 4)"),
    ("n // 3", "(n + 3) // 3 - 1"),
    ("n // 7 * 7 + n % 7", "n"),
]
CONDITIONS = [("i % 3 == 1", "(i + 2) % 3 == 0"), ("i // 3 * 3 == i", "i % 3 < 1")]


@pytest.mark.parametrize(("one", "other"), BOUNDS)
def test_bounds(one: str, other: str) -> None:
    assert outcome(LOOP.replace("BOUND", one), LOOP.replace("BOUND", other)) == "proved"
    assert outcome(LOOP.replace("BOUND", one), LOOP.replace("BOUND", f"({other}) + 1")) == "refuted"


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
