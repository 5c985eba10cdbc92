"""One loop over the blocks of K of as many tiles as the place of a block says, against a loop over tiles with one over K in it: a launch is
asked for what the product is of, not for what is left of 2^31 in the largest grid."""

import textwrap

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.conditions import met
from pipec.verify.data import formula_of

TEXT = """
kernel k(x: tensor[f32, M, K], y: tensor[f32, N, 4], ends: tensor[i32, E], n: i32):
    grid({grid})
    assume(K > 0 and N > 0 and n > 0)
    steps = ceildiv(K, 64)
    columns = ceildiv(N, 64)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
{load}
    role take(warps=1) consumes p:
{take}
"""
ROWS, PAIRS = "ceildiv(M, 64)", "ceildiv(M, 64) * 2)\n    cluster(2"
# The grid, how many tiles a block has, and by what that is multiplied.
PLACES = {
    "one more": (ROWS, "block.x + 1", "steps"),
    "none in the first block": (ROWS, "block.x", "steps"),
    "another axis": (f"8, {ROWS}", "block.y + 1", "steps"),
    "two axes": (f"ceildiv(E, 64), {ROWS}", "block.x + block.y + 1", "steps"),
    "an axis by another": (f"{ROWS}, 8", "block.x + 1", "(block.y + 1)"),
    "as many as are left": (ROWS, "grid.x - block.x", "steps"),
    "as many rows as are left": (ROWS, f"{ROWS} - block.x", "steps"),
    "two for each": (ROWS, "2 * block.x + 2", "steps"),
    "twice as many": (ROWS, "block.x + 1", "(2 * steps)"),
    "half as many": (ROWS, "block.x // 2 + 1", "steps"),
    "what is left of four": (ROWS, "block.x % 4 + 1", "steps"),
    "what is left of a row": (f"{ROWS} * ceildiv(N, 64)", "block.x % columns + 1", "steps"),
    "clusters": (PAIRS, "cluster.x + 1", "steps"),
    "blocks of clusters": (PAIRS, "block.x + 1", "steps"),
    "a parameter": (ROWS, "block.x + 1", "n"),
    "loaded": (ROWS, "max(0, min(load(ends[block.x]), M))", "steps"),
}
SIZES = dict.fromkeys(("M", "N", "K", "E", "n", "grid.x", "grid.y", "grid.z"), 100)
LARGE = 1 << 24
WALK = "for t in range(block.x, ceildiv(M, 64), grid.x):\n    "
FLAT, NESTED = (
    "for i in range({tiles} * {steps}):\n    {it}",
    "for n_ in range({tiles}):\n    for k in range({steps}):\n        {it}",
)


def compiled(grid: str, load: str, take: str):
    roles = {
        "load": load.replace("{it}", "p.producer_signal_and_step()"),
        "take": take.replace("{it}", "p.consumer_signal_and_step()"),
    }
    text = TEXT.format(grid=grid, **{role: textwrap.indent(body, " " * 8) for role, body in roles.items()})
    return compile_source(Source("k.pipe", text), Options("sm_90a"))


def of(words: str, tiles: str, steps: str) -> str:
    return words.replace("{tiles}", f"({tiles})").replace("{steps}", steps)


@pytest.mark.parametrize("place", PLACES)
def test_a_launch_is_asked_for_the_product(place: str) -> None:
    grid, tiles, steps = PLACES[place]
    state = compiled(grid, of(FLAT, tiles, steps), of(NESTED, tiles, steps))
    assert not state.failed, state.diagnostics
    conditions = [formula_of(one) for one in state.plans[0].interface.conditions]
    # Large sizes are launched, one at a time.
    for name in SIZES:
        assert all(met(one, SIZES | {name: LARGE}) for one in conditions), (name, state.protocol["k"].sentence)


@pytest.mark.parametrize("place", PLACES)
def test_its_neighbour_is_not_proved(place: str) -> None:
    grid, tiles, steps = PLACES[place]
    for wrong in (f"{tiles} + 1", f"{tiles} - 1"):
        assert compiled(grid, of(FLAT, wrong, steps), of(NESTED, tiles, steps)).failed


def test_not_all_products_are_launched() -> None:
    """One that does not fit in 32 bits is refused, as the one loop would not go round at all."""
    state = compiled(*(of(one, "block.x + 1", "steps") for one in (ROWS, FLAT, NESTED)))
    conditions = [formula_of(one) for one in state.plans[0].interface.conditions]
    assert all(met(one, SIZES | {"K": 64 << 15, "grid.x": 1 << 15}) for one in conditions)
    assert not all(met(one, SIZES | {"K": 64 << 16, "grid.x": 1 << 15}) for one in conditions)


@pytest.mark.parametrize("tiles", ["t + 1", "t + 2", "ceildiv(M, 64) - t"])
def test_tiles_of_a_walk(tiles: str) -> None:
    """The same for the tiles that a block comes to: the last one is the last of all."""
    flat, nested = (WALK + of(one, tiles, "steps").replace("\n", "\n    ") for one in (FLAT, NESTED))
    for grid in ("min(ceildiv(M, 64), gpu.multiprocessors)", "gpu.multiprocessors"):
        state = compiled(grid, flat, nested)
        assert not state.failed, state.diagnostics
        conditions = [formula_of(one) for one in state.plans[0].interface.conditions]
        assert all(met(one, SIZES | {name: LARGE}) for name in SIZES for one in conditions)
    for wrong in (f"{tiles} + 1", f"{tiles} - 1"):
        assert compiled(grid, WALK + of(FLAT, wrong, "steps").replace("\n", "\n    "), nested).failed


@pytest.mark.parametrize("assumed", ["M <= 65536", "M >= 64", "ceildiv(M, 64) * ceildiv(K, 64) <= 2147483647"])
def test_a_size_that_no_thread_reads_may_be_asked_for(assumed: str) -> None:
    """The number of blocks is made of it, and what is assumed of it is known to the reader."""
    text = TEXT.replace("n > 0", f"n > 0 and {assumed}")
    roles = {
        "load": FLAT.replace("{it}", "p.producer_signal_and_step()"),
        "take": NESTED.replace("{it}", "p.consumer_signal_and_step()"),
    }
    written = {role: textwrap.indent(body.format(tiles="(block.x + 1)", steps="steps"), " " * 8) for role, body in roles.items()}
    state = compile_source(Source("k.pipe", text.format(grid=ROWS, **written)), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    assert state.protocol["k"].sentence.count("ceildiv(K, 64) * ceildiv(M, 64) <= 2147483647") == 1
