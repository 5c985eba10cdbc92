"""Random kernels called from C: which grids and numbers are launched, and what is refused."""

import random
from dataclasses import replace

import pytest
from bundle.c_bundle import needs_compiler, stand_in
from fuzz import fuzz_bundles
from fuzz.bundle_kernels import draw
from samples import numbers

pytestmark = [needs_compiler, pytest.mark.xdist_group("bundles in C")]


@pytest.mark.parametrize("number", numbers("bundles at random", 3, 40))
def test_bundles(number: int) -> None:
    assert fuzz_bundles.attempt(random.Random(f"bundles/0/{number}")) is None


@pytest.mark.parametrize("changed", [{"grid": ("ceildiv(M, 64)",)}, {"conditions": ("M > 7",)}])
def test_another_grid_or_condition_is_noticed(changed: dict[str, tuple[str, ...]]) -> None:
    kernel = replace(draw(random.Random(5), "k0"), grid=("ceildiv(M, 8)",), conditions=())
    other = replace(kernel, **changed)

    class Pretends(type(kernel)):  # type: ignore[misc]
        def source(self) -> str:
            return other.source()

    pretends = Pretends(kernel.name, kernel.grid, kernel.conditions, kernel.by_tma, kernel.early, kernel.warps)
    wrong = fuzz_bundles.judged([pretends], random.Random(1), stand_in())
    assert wrong is not None and "instead of" in wrong
