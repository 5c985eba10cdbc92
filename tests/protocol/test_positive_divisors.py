"""Parameters by which roles divide, of which nothing says that they are positive: launches in which they are not are left out of a proof
that needs it."""

import numpy as np
import pytest

import pipec
from pipec.driver import Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions
from pipec.sim import Options as Simulation
from pipec.source import Source
from pipec.verify.accept import accept

KERNEL = """
kernel k(x: tensor[f32, M, 32], y: tensor[f32, T, 16, 32], lengths: tensor[i32, S], B: i32, H: i32):
    grid(2)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 8, 32]), stages=2)
    role load(warps=1) produces ring:
        for i in range(block.x, B * H, grid.x):
            for j in range({load}):
                with ring.produce() as s:
                    tma.load(s.x, x[i * 16 + j * 8, 0])
    role save(warps=1) consumes ring:
        for i in range(block.x, B * H, grid.x):
            for j in range({save}):
                with ring.consume() as s:
                    store(y[i, j * 8, 0], s.x)
"""
FLAT, NAMED = "ceildiv(load(lengths[i // H]), 8)", "(load(lengths[i // H]) + 7) // 8"
LEFT, BY_HAND = "i % H + 1", "i - i // H * H + 1"


def compiled(load: str, save: str) -> object:
    return compile_source(Source("k.pipe", KERNEL.format(load=load, save=save)), Options("sm_90a"))


@pytest.mark.parametrize(("load", "save"), [(FLAT, FLAT), (LEFT, BY_HAND), (f"min({LEFT}, 2)", f"min({BY_HAND}, 2)")])
def test_it_is_proved_where_they_are_positive(load: str, save: str) -> None:
    state = compiled(load, save)
    assert not state.failed
    assert "H >= 1" in state.protocol["k"].sentence
    assert "H >= 1" in accept(state.ptx, state.certificates["k"]).conditions


@pytest.mark.parametrize(
    ("load", "save"),
    [
        (FLAT, FLAT.replace("i // H", "i // B")),
        (FLAT, FLAT.replace("i // H", "(i + 1) // H")),
        (FLAT, FLAT.replace("ceildiv(load(lengths[i // H]), 8)", "(load(lengths[i // H]) // 8)")),
        (LEFT, BY_HAND.replace("+ 1", "+ 2")),
        (LEFT, "(i + 1) % H + 1"),
        (LEFT, "i % B + 1"),
    ],
)
def test_its_neighbour_is_refused(load: str, save: str) -> None:
    assert compiled(load, save).failed


def test_where_a_size_that_is_not_positive_hangs_it_is_refused() -> None:
    """Not left out: there are launches in which it waits for ever."""
    text = KERNEL.format(load="2 if H > 0 else 1", save="2 if H > -1 else 1").replace("B * H", "B")
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert [one.code for one in state.diagnostics] in (["E0601"], ["E0602"])


def test_a_launch_in_which_they_are_not_is_refused() -> None:
    kernel = pipec.compile(KERNEL.format(load=FLAT, save=FLAT), arch="sm_90a")["k"]
    lengths = np.array([16, 5, 0], np.int32)
    x = np.random.default_rng(1).random((96, 32), np.float32)
    for timing in ("late", "random", "order"):
        y = np.zeros((6, 16, 32), np.float32)
        kernel(x, y, lengths, 3, 2, device="sim", options=LaunchOptions(Simulation(timing=timing)))
        for i in range(6):
            rows = -(-lengths[i // 2] // 8) * 8
            assert np.array_equal(y[i, :rows], x[i * 16 : i * 16 + rows])
            assert not y[i, rows:].any()
    with pytest.raises(ArgumentError, match="H >= 1"):
        kernel(x, y, lengths, 3, 0, device="sim")
