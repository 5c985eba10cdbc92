"""Blocks that store the tiles of a balanced share each, from `block.x * tiles // grid.x` up to where the next block begins."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N], total: i32, parts: i32):
    grid({grid})
    rows = ceildiv(M, 64)
    columns = ceildiv(N, 32)
    tiles = rows * columns
    p = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2)
    role load(warps=1) produces p:
        for t in range({share}):
            with p.produce() as s:
                tma.load(s.x, x[{at}])
    role save(warps=1) consumes p:
        for t in range({share}):
            with p.consume() as s:
                tma.store(y[{at}], s.x)
"""
ROWS, TILES = "t * 64, 0", "t // columns * 64, t % columns * 32"


def kinds(share: str, at: str, grid: str = "gpu.multiprocessors") -> set[str]:
    """What is said of `y`: "checked", "assumed", or the code of a message."""
    state = compile_source(
        Source("k.pipe", KERNEL.format(share=share, at=at, grid=grid)), Options("sm_90a", allow_undecided=True)
    )
    if state.failed:
        return {one.code for one in state.diagnostics}
    found = state.findings["k"]
    lines = {"checked": found.checked, "assumed": found.assumed}
    return {kind for kind, told in lines.items() if any(one.startswith("y: ") for one in told)}


@pytest.mark.parametrize(
    ("share", "at"),
    [
        ("block.x * rows // grid.x, (block.x + 1) * rows // grid.x", ROWS),
        ("rows * block.x // grid.x, rows * (block.x + 1) // grid.x", ROWS),
        ("block.x * rows // grid.x, (block.x * rows + rows) // grid.x", ROWS),
        ("block.x * tiles // grid.x, (block.x + 1) * tiles // grid.x", TILES),
        ("block.x * total // grid.x, (block.x + 1) * total // grid.x", ROWS),  # none, where the total is negative
        ("(block.x * rows + 5) // grid.x, (block.x * rows + rows + 5) // grid.x", ROWS),
        ("min(block.x * 4, rows), min(block.x * 4 + 4, rows)", ROWS),
        ("block.x * rows // grid.x + 3, (block.x + 1) * rows // grid.x + 3", ROWS),
    ],
)
def test_no_two_blocks_store_the_same(share: str, at: str) -> None:
    assert kinds(share, at) == {"checked"}


@pytest.mark.parametrize(
    ("share", "at"),
    [
        ("block.x * rows // grid.x, (block.x + 2) * rows // grid.x", ROWS),
        ("block.x * rows // grid.x, (block.x + 1) * rows // grid.x + 1", ROWS),
        ("block.x * rows // grid.x, ceildiv((block.x + 1) * rows, grid.x)", ROWS),
        ("block.x * rows // grid.x, (block.x + 1) * rows // grid.x", "t // 2 * 64, 0"),
        ("block.x * rows // grid.x, (block.x + 1) * rows // grid.x", "t * 32, 0"),
        ("block.x * rows // grid.x, (block.x + 1) * tiles // grid.x", ROWS),
        ("block.x % 4 * rows // grid.x, (block.x % 4 + 1) * rows // grid.x", ROWS),
        ("block.x * rows // parts, (block.x + 1) * rows // parts", ROWS),  # of a negative number of parts, say
        ("(grid.x - block.x) * rows // grid.x, (grid.x - block.x - 1) * rows // grid.x + 1", ROWS),
    ],
)
def test_its_neighbour_is_not_said_to_be(share: str, at: str) -> None:
    assert "checked" not in kinds(share, at)


def test_shares_of_different_totals() -> None:
    text = KERNEL.format(share="block.x * rows // grid.x, (block.x + 1) * rows // grid.x", at=ROWS, grid="gpu.multiprocessors")
    more = text.replace(
        "                tma.store(y[t * 64, 0], s.x)",
        "                tma.store(y[t * 64, 0], s.x)\n"
        "        for t in range(block.x * columns // grid.x, (block.x + 1) * columns // grid.x):\n"
        "            store(y[t * 64, 0], fill(0.0, f32, 64, 32))",
    )
    state = compile_source(Source("k.pipe", more), Options("sm_90a"))
    assert state.failed or not any(one.startswith("y: ") for one in state.findings["k"].checked)
