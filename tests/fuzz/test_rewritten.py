"""Random kernels in which a role writes a tile several times, seeded. Where its threads did not meet in between, half of them raced."""

import random

import pytest
from fuzz.accepted import tried
from fuzz.fuzz_rewritten import attempt
from fuzz.rewritten_kernels import SIZES, Rewritten
from samples import numbers


@pytest.mark.parametrize("number", numbers("rewritten", 12, 200))
def test_what_is_written_last_is_there(number: int) -> None:
    assert attempt(random.Random(f"rewritten/0/{number}")) is None


@pytest.mark.parametrize(
    ("arch", "rows", "warps", "space"),
    [("sm_90a", 64, 4, "shared"), ("sm_100a", 64, 4, "shared"), ("sm_100a", 128, 8, "shared"), ("sm_100a", 128, 8, "tensor")],
)
def test_threads_meet_between_writes_that_they_share_out_differently(arch: str, rows: int, warps: int, space: str) -> None:
    """A row per thread in one write, and what an accumulator or two threads of a row need in the other: each of the two first."""
    for values in (("kept", "acc"), ("acc", "kept"), ("loaded", "acc"), ("acc", "loaded")):
        drawn = Rewritten(arch, rows, warps, space, tuple((value, False) for value in values))
        assert tried(drawn, arch, SIZES, 1).wrong is None
