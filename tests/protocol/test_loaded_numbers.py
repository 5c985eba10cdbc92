"""How often a loop runs is loaded for each tile, and each role says which number that is, what bounds it and where its tile is in words of
its own."""

import random

import pytest
from fuzz.persistent_kernels import draw

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.accept import accept
from tests.protocol.drawing import Draw, Kernel, Lines, indented, source

WALKS: dict[str, Lines] = {
    "tiles": ["for t in range(block.x, m, grid.x):"],
    "turns": ["for i in range(ceildiv(m - block.x, grid.x)):", "    t = block.x + i * grid.x"],
    "its own": [
        "own = m // grid.x",
        "if block.x < m % grid.x:",
        "    own += 1",
        "t = block.x - grid.x",
        "for i in range(own):",
        "    t += grid.x",
    ],
}


def of_tiles(filled: tuple[str, str], emptied: tuple[str, str], blocks: str) -> Kernel:
    """Walks over tiles, and what is taken of a tile."""

    def role(walk: str, bound: str, stage: str) -> Lines:
        loops = f"for k in range({bound}):" if ":" not in bound else f"for k in range({bound.replace(':', ', ')}, 16):"
        return [*WALKS[walk], *indented([loops, f"    {stage}"])]

    return Kernel({"p": (3, "a", "b")}, {"a": role(*filled, "{p+}"), "b": role(*emptied, "{p-}")}, blocks=blocks)


RIGHT = {
    "what is left of a tile": of_tiles(("tiles", "load(ix[t % N])"), ("tiles", "load(ix[t - t // N * N])"), "4"),
    "by turns, what is left": of_tiles(("turns", "max(0, load(ix[t % N]))"), ("tiles", "max(load(ix[t - t // N * N]), 0)"), "3"),
    "by sixteens": of_tiles(("tiles", "0:min(load(ix[t]), N)"), ("its own", "ceildiv(min(N, load(ix[t])), 16)"), "min(m, 132)"),
    "from one to the next": of_tiles(
        ("its own", "min(load(ix[t + 1]), N) - max(load(ix[t]), 0)"),
        ("turns", "min(N, load(ix[t + 1])) - max(0, load(ix[t]))"),
        "min(m, 132)",
    ),
    "of rows, by halves": of_tiles(("tiles", "load(ix[t // N])"), ("its own", "load(ix[t // N])"), "2"),
    "in a block of quarters": of_tiles(("tiles", "min(load(ix[t]), N)"), ("its own", "min(N, load(ix[t]))"), "4"),
}
WRONG = {
    "what is left of the next one": of_tiles(("tiles", "load(ix[t % N])"), ("tiles", "load(ix[t - t // N * N + 1])"), "4"),
    "by another number": of_tiles(("turns", "max(0, load(ix[t % N]))"), ("tiles", "max(load(ix[t % M]), 0)"), "3"),
    "by sixteens and one more": of_tiles(
        ("tiles", "0:min(load(ix[t]), N)"), ("its own", "ceildiv(min(N, load(ix[t])) + 1, 16)"), "min(m, 132)"
    ),
    "bounded elsewhere": of_tiles(
        ("its own", "min(load(ix[t + 1]), N) - max(load(ix[t]), 0)"),
        ("turns", "min(M, load(ix[t + 1])) - max(0, load(ix[t]))"),
        "min(m, 132)",
    ),
    "the tile before": of_tiles(("tiles", "load(ix[t // N])"), ("its own", "load(ix[(t - 1) // N])"), "2"),
    "the larger one": of_tiles(("tiles", "min(load(ix[t]), N)"), ("its own", "max(N, load(ix[t]))"), "4"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    state = compile_source(Source("k.pipe", source(RIGHT[name], Draw(name))), Options("sm_90a"))
    assert [one.code for one in state.diagnostics] == [] and state.ptx is not None
    (proof,) = state.certificates.values()
    assert accept(state.ptx, proof).kernel == "k"


@pytest.mark.parametrize("name", WRONG)
def test_it_is_not_proved(name: str) -> None:
    state = compile_source(Source("k.pipe", source(WRONG[name], Draw(name))), Options("sm_90a"))
    assert [one.code for one in state.diagnostics] and state.failed


@pytest.mark.parametrize("number", range(4))
def test_persistent_gemms_that_are_drawn_are_proved(number: int) -> None:
    """(`benchmarks/proof/strangers.py` draws more, and counts.)"""
    program = draw(random.Random(f"loaded/{number}"), "loaded", right=True)
    assert not compile_source(Source("k.pipe", program.source), Options(program.arch)).failed
