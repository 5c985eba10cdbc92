"""benchmarks/gpu/random_kernels.py: each family of kernels is drawn, compiled, launched (here in the simulator) and compared."""

import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.gpu.random_kernels import ARCH, FAMILIES, Drawn, tried


def accepted(family: str) -> tuple[Drawn, dict[str, object]]:
    """The first kernel of a family that is launched, and what became of it."""
    chance = random.Random(f"{family}/test")
    while True:
        drawn = FAMILIES[family](chance)
        if drawn.arch == ARCH and "launches" in (found := tried(drawn, "sim", {})):
            return drawn, found


@pytest.mark.parametrize("family", FAMILIES)
def test_accepted_kernels_are_launched_and_right(family: str) -> None:
    _, found = accepted(family)
    assert found["outcome"] == "right" and found["launches"]


def test_what_differs_is_told() -> None:
    drawn, _ = accepted("movers")
    ((arguments, expected),) = drawn.sizes
    other = replace(
        drawn, sizes=((arguments, lambda: {name: np.asarray(value) + 1 for name, value in (expected() or {}).items()}),)
    )
    found = tried(other, "sim", {})
    assert found["outcome"] == "differs" and found["tensors"] and found["source"] == drawn.source
