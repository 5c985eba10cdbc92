"""Random kernels in which a role reduces tiles of several types, seeded. Where the two buffers in which its warps exchange parts had places
that depended on the type, a fifth of them raced."""

import random

import pytest
from fuzz.accepted import tried
from fuzz.fuzz_reduced import attempt
from fuzz.reduced_kernels import SIZES, Reduced, Step
from samples import numbers


@pytest.mark.parametrize("number", numbers("reduced", 12, 200))
def test_what_is_reduced_is_what_the_tiles_hold(number: int) -> None:
    assert attempt(random.Random(f"reduced/0/{number}")) is None


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("types", [("f64", "f32"), ("f32", "f64"), ("i64", "i32"), ("f64", "i64"), ("f32", "i32")])
def test_warps_of_a_row_exchange_wide_and_narrow_elements_in_turn(rows: int, types: tuple[str, ...]) -> None:
    """Each reduction uses the other buffer than the one before it, whatever the sizes of their elements."""
    steps = tuple(Step(number, "row_max", "") for number in range(2))
    assert tried(Reduced(8, tuple((dtype, rows) for dtype in types), steps), "sm_90a", SIZES, 1).wrong is None
