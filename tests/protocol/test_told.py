"""Conditions that every launch satisfies are not told; all others are."""

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.reporting.told import conditions_told
from pipec.record import replace
from pipec.source import Source
from pipec.verify.conditions import condition_data
from pipec.verify.terms import Apply, Compare, Formula, Linear, Symbol, add, atom, choose, floor

KERNEL = """kernel k(x: tensor[f32, M, N], n: i32, u: u32):
    grid(M)
    role a(warps=1):
        store(x[block.x, 0], fill(cast[f32](n) + cast[f32](u), f32, 1, 32))
"""
M, N, SCALAR, UNSIGNED, BLOCKS = (atom(Symbol(name)) for name in ("M", "N", "n", "u", "grid.x"))
PRODUCT = atom(Apply("mul.lo.s32", (M, N)))
MIXED = atom(Apply("mul.lo.s32", (M, SCALAR)))


def told(*conditions: Formula) -> str:
    state = compile_source(Source("k.pipe", KERNEL), Options(), "plan")
    assert state.plans, state.diagnostics
    return conditions_told(replace(state.plans[0].interface, conditions=tuple(map(condition_data, conditions))))


def at_least(form: Linear, least: int) -> Compare:
    return Compare("ge", add(form, Linear(-least)))


@pytest.mark.parametrize(
    "condition",
    [
        at_least(M, 0),
        at_least(floor(M, 3), -5),
        at_least(add(M, N), -1),
        at_least(add(Linear(0), M, -1), -(2**31 - 1)),
        at_least(SCALAR, -(2**31)),
        at_least(UNSIGNED, 0),
        at_least(BLOCKS, 1),
        at_least(choose(at_least(M, 4), N, Linear(1)), 0),
    ],
)
def test_what_all_sizes_satisfy_is_not_told(condition: Formula) -> None:
    assert told(condition) == ""
    assert told(condition, at_least(N, 4)) == "N >= 4"


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (at_least(M, 1), "M >= 1"),
        (at_least(SCALAR, 0), "n >= 0"),
        (at_least(BLOCKS, 2), "grid.x >= 2"),
        (at_least(add(M, N, -1), 0), "M >= N"),
        (at_least(add(Linear(0), M, -1), -(2**31 - 2)), "M <= 2147483646"),
        (at_least(choose(at_least(M, 4), N, Linear(-1)), 0), "(N if M >= 4 else -1) >= 0"),
        (at_least(atom(Symbol("other")), -(2**40)), "other >= -1099511627776"),
        (at_least(MIXED, 0), "M * n >= 0"),
    ],
)
def test_what_some_do_not_is(condition: Formula, words: str) -> None:
    assert told(condition) == words


def test_that_a_product_can_be_computed_is_told_once() -> None:
    """A condition on a product refuses sizes at which it wraps around."""
    few, some = at_least(floor(PRODUCT, 3), -715827882), at_least(add(Linear(0), PRODUCT, -1), -1000)
    assert told(few) == "M * N >= -2147483646", "nothing else says that the product fits"
    assert told(few, some) == "M * N <= 1000"
    assert told(few, at_least(MIXED, 2)) == "M * N >= -2147483646 and M * n >= 2"
