"""Roles that have the same loops, whatever the bounds: products with a block's place, quotients, remainders, choices."""

import random

import pytest
from fuzz.alike_kernels import alike

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.condition_text import conditions_words
from pipec.verify.data import formula_of

HEAD = "kernel k(n: i32, z: tensor[f32, M, N]):"
ROLES = """
    grid(8)
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
        for i in range(block.x, n * block.x, grid.x):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for i in range(block.x, n * block.x, grid.x):
            p.consumer_signal_and_step()
"""


@pytest.mark.parametrize("number", range(24))
def test_it_is_proved(number: int) -> None:
    state = compile_source(Source("k.pipe", alike(random.Random(f"alike/0/{number}"))), Options("sm_90a"))
    assert [one.code for one in state.diagnostics] == []


def test_what_is_asked_of_a_product_with_a_place_is_exact() -> None:
    """A negative number may be so far from 0 that the product of it and a block's place comes round to a positive one, too."""
    state = compile_source(Source("k.pipe", HEAD + ROLES), Options("sm_90a"))
    assert state.diagnostics == [] and state.plans is not None
    (plan,) = state.plans
    words = conditions_words(map(formula_of, plan.interface.conditions))
    assert words == "max(n, 0) <= 306783377 and n >= -306783378"
