"""Tiles that one role stores to global memory and another loads, in each turn of a loop over the tiles of a block: two layers in one
kernel. What is accepted does not race in the simulator, at any pace of its roles."""

import numpy as np
import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.source import Source

TILES = "for t in range(block.x, ceildiv(M, 8), grid.x):"
TEXT = """
kernel k(x: tensor[f32, M, N], h: tensor[f32, M, N], y: tensor[f32, M, N], n: i32):
    grid(min(ceildiv(M, 8), 2))
    go = ProducerConsumerPipeline(stages={stages})
    role first(warps=1) produces go:
        {tiles}
{first}
    role second(warps=1) consumes go:
        {tiles}
{second}
"""
STORED = ["for j in range(ceildiv(N, 16)):", "    store({at}, load(x[t * 8, j * 16], 8, 16) * 2.0)"]
LOADED = ["for j in range(ceildiv(N, 32)):", "    store(y[t * 8, j * 32], load({at}, 8, 32) + 1.0)"]
BEHIND, AROUND = "behind the stores", "around the stores"


def compiled(
    said: str = BEHIND,
    stored: str = "h[t * 8, j * 16]",
    loaded: str = "h[t * 8, j * 32]",
    tiles: str = TILES,
    stages: int = 1,
    waits: str = "before",
) -> Compilation:
    stores, loads = [line.format(at=stored) for line in STORED], [line.format(at=loaded) for line in LOADED]
    first = {
        BEHIND: [*stores, "go.producer_signal_and_step()"],
        AROUND: ["with go.produce() as s:", *(f"    {line}" for line in stores)],
        "before the stores": ["go.producer_signal_and_step()", *stores],
        "between the stores": [stores[0], "    go.producer_signal_and_step()", *stores[1:]],
    }[said]
    second = {
        "before": ["go.consumer_signal_and_step()", *loads],
        "behind": [*loads, "go.consumer_signal_and_step()"],
        "around": ["with go.consume() as s:", *(f"    {line}" for line in loads)],
    }[waits]
    lines = {"first": first, "second": second}
    text = TEXT.format(
        tiles=tiles, stages=stages, **{role: "\n".join(f"            {line}" for line in body) for role, body in lines.items()}
    )
    return compile_source(Source("k.pipe", text), Options("sm_100a"))


@pytest.mark.parametrize(("said", "waits", "stages"), [(BEHIND, "before", 3), (AROUND, "around", 1)])
@pytest.mark.parametrize(
    "tiles", [TILES, TILES.replace("grid.x", "2"), "for t in range(block.x * 2, ceildiv(M, 8), 2 * grid.x):"]
)
def test_tile_by_tile(tiles: str, said: str, waits: str, stages: int) -> None:
    state = compiled(said, tiles=tiles, waits=waits, stages=stages)
    assert not state.failed and state.plans is not None and state.ptx is not None, state.diagnostics
    assert not any("`h`" in line or " h:" in line for line in state.findings["k"].assumed)
    for timing in ("late", "random", "order"):
        x = np.arange(48 * 40, dtype=np.float32).reshape(48, 40)
        h, y = np.zeros_like(x), np.zeros_like(x)
        options = LaunchOptions(Simulation(timing=timing, seed=3))
        launch(state.plans[0].interface, state.ptx, {"x": x, "h": h, "y": y, "n": 1}, device="sim", options=options)
        walked = sorted({t for b in range(2) for t in range(b * 2, 6, 4)} if "block.x * 2" in tiles else range(6))
        for t in walked:
            np.testing.assert_array_equal(y[t * 8 : t * 8 + 8], x[t * 8 : t * 8 + 8] * 2 + 1)


@pytest.mark.parametrize("rows", ["t * grid.x * 8", "t * t * 8", "grid.x * t * n * 8"])
def test_rows_by_products(rows: str) -> None:
    """They are apart where all that the tile is multiplied by is at least 1."""
    state = compiled(stored=f"h[{rows}, j * 16]", loaded=f"h[{rows}, j * 32]")
    assert ("E0614" in {one.code for one in state.diagnostics}) is (rows != "t * grid.x * 8")


WRONG = {
    "said before the stores": {"said": "before the stores"},
    "said once": {"said": "between the stores"},
    "waited for behind the loads": {"waits": "behind"},
    "the rows of the next tile": {"loaded": "h[t * 8 + 8, j * 32]"},
    "a row of the next tile": {"loaded": "h[t * 8 + 1, j * 32]"},
    "tiles that meet": {"stored": "h[t * 4, j * 16]", "loaded": "h[t * 4, j * 32]"},
    "the same rows in each turn": {"stored": "h[block.x * 8, j * 16]", "loaded": "h[block.x * 8, j * 32]"},
    "rows of each other turn": {"loaded": "h[t * 4, j * 32]"},
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_refused(name: str) -> None:
    codes = {one.code for one in compiled(**WRONG[name]).diagnostics}
    assert "E0614" in codes and codes <= {"E0614", "E0618"}, "some of them also meet what another block stores"
