"""Roles with the same loops, in which guards and bounds are made of the tile and of what memory holds for it: it matters that the roles are
in the same tile, not what is made of that."""

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.effort import steps_so_far
from pipec.source import Source
from pipec.verify.accept import accept

GUARDED = """
kernel k(x: tensor[f32, M, N], counts: tensor[i32, E], other: tensor[i32, E]):
    tiles = TileScheduler(ceildiv(M, 128), ceildiv(N, 128), E, blocks={blocks})
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        for tile in tiles:
            if {filled}:
                for part in range({parts}):
                    p.producer_signal_and_step()
    role mma(warps=1) consumes p:
        for tile in tiles:
            if {taken}:
                for part in range({parts}):
                    p.consumer_signal_and_step()
"""
OF_EXPERT, OF_COLUMN = "tile.x * 128 < load(counts[tile.z])", "tile.x * 128 < load(counts[tile.y])"
RIGHT = [
    ("3", OF_EXPERT, OF_EXPERT, "ceildiv(N, 64)"),
    ("3", OF_COLUMN, OF_COLUMN, "ceildiv(N, 64)"),
    ("3", OF_EXPERT, "load(counts[tile.z]) > 128 * tile.x", "ceildiv(M, 64)"),
    ("132", OF_EXPERT, OF_EXPERT, "4"),
    ("3", "load(counts[tile.z]) + tile.y < load(other[tile.z])", "load(counts[tile.z]) + tile.y < load(other[tile.z])", "2"),
    ("3", "tile.y < load(counts[tile.x])", "tile.y < load(counts[tile.x])", "load(other[tile.z])"),
]
WRONG = [
    ("3", OF_EXPERT, OF_COLUMN, "ceildiv(N, 64)"),
    ("3", OF_EXPERT, OF_EXPERT.replace("<", "<="), "ceildiv(N, 64)"),
    ("3", OF_EXPERT, OF_EXPERT.replace("counts", "other"), "ceildiv(N, 64)"),
    ("3", OF_EXPERT, OF_EXPERT.replace("tile.x * 128", "tile.x * 128 + 1"), "4"),
    ("3", OF_COLUMN, OF_COLUMN.replace("tile.x", "tile.z"), "ceildiv(N, 64)"),
    ("3", OF_EXPERT, f"{OF_EXPERT} and tile.y > 0", "1"),
]

# Rows sorted by expert: tiles of all experts are dealt out one after the other.
DEALT = """
kernel k(x: tensor[f32, M, N], begins: tensor[i32, E]):
    grid(7)
    cols = ceildiv(N, 128)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
        before = 0
        for g in range(M):
            rows = load(begins[g + 1]) - load(begins[g])
            for t in range({first}, ceildiv(rows, 64) * cols, grid.x):
                p.producer_signal_and_step()
            before += ceildiv(rows, 64) * cols
    role mma(warps=1) consumes p:
        before = 0
        for g in range(M):
            rows = load(begins[g + 1]) - load(begins[g])
            for t in range({begun}, ceildiv(rows, 64) * cols, grid.x):
                p.consumer_signal_and_step()
            before += {more}
"""
PLACE, MORE = "(block.x - before) % grid.x", "ceildiv(rows, 64) * cols"
RIGHT_SHARES = [(PLACE, PLACE, MORE), (PLACE, "(block.x - before) % 7", MORE)]
WRONG_SHARES = [
    (PLACE, "(block.x - before + 1) % grid.x", MORE),
    (PLACE, "(before - block.x) % grid.x", MORE),
    (PLACE, PLACE, "ceildiv(rows, 64)"),
    (PLACE, PLACE, f"{MORE} + 1"),
    (PLACE, "(block.x - before) % 6", MORE),
]
# Most of which is for a search that does not assume that what is added up in memory fits.
MOST = 3_000_000


def steps_of(text: str) -> tuple[bool, int]:
    """Whether it is proved, and the steps of the search."""
    begun = steps_so_far()
    state = compile_source(Source("k.pipe", text), Options("sm_100a"))
    if not state.failed:
        assert state.ptx is not None
        (proof,) = state.certificates.values()
        assert accept(state.ptx, proof).kernel == "k"
    return not state.failed, steps_so_far() - begun


@pytest.mark.parametrize(("blocks", "filled", "taken", "parts"), RIGHT)
def test_roles_in_the_same_tile_are_proved(blocks: str, filled: str, taken: str, parts: str) -> None:
    proved, steps = steps_of(GUARDED.format(blocks=blocks, filled=filled, taken=taken, parts=parts))
    assert proved and steps < MOST


@pytest.mark.parametrize(("blocks", "filled", "taken", "parts"), WRONG)
def test_roles_with_other_guards_are_not(blocks: str, filled: str, taken: str, parts: str) -> None:
    proved, _ = steps_of(GUARDED.format(blocks=blocks, filled=filled, taken=taken, parts=parts))
    assert not proved


@pytest.mark.parametrize(("first", "begun", "more"), RIGHT_SHARES)
def test_tiles_dealt_to_a_constant_number_of_blocks_are_proved(first: str, begun: str, more: str) -> None:
    proved, steps = steps_of(DEALT.format(first=first, begun=begun, more=more))
    assert proved and steps < MOST


@pytest.mark.parametrize(("first", "begun", "more"), WRONG_SHARES)
def test_tiles_dealt_in_another_way_are_not(first: str, begun: str, more: str) -> None:
    proved, _ = steps_of(DEALT.format(first=first, begun=begun, more=more))
    assert not proved
