"""Bounds that name a block's place become bounds of sizes alone, which a launch can check."""

import random

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.forms.everywhere import Everywhere, askable
from pipec.source import Source
from pipec.verify.terms import Apply, Choose, Compare, Floor, Linear, Product, Symbol, add, atom, choose, floor, product, scale

PLACE, GRID, N = Symbol("%ctaid.x"), Symbol("%nctaid.x"), Symbol("n")
FACTS = (
    Compare("ge", atom(PLACE)),
    Compare("ge", add(add(atom(GRID), Linear(-1)), atom(PLACE), -1)),
    Compare("ge", atom(N)),
)


def _drawn(draw: random.Random, depth: int) -> Linear:
    """A form of places and sizes."""
    if depth == 0:
        return draw.choice([atom(PLACE), atom(PLACE), atom(GRID), atom(N), Linear(draw.randint(-3, 9))])
    left, right = _drawn(draw, depth - 1), _drawn(draw, depth - 1)
    match draw.randrange(5):
        case 0:
            return floor(add(left, Linear(draw.randint(0, 7))), draw.choice((2, 3, 8)))
        case 1:
            return choose(Compare("ge", add(left, right, -1)), left, right)
        case 2:
            return product(left, right)
        case 3:
            return atom(Apply("mul.lo.s64", (left, right)))
        case _:
            return add(left, scale(right, draw.choice((-8, -3, -1, 2))))


@pytest.mark.parametrize("seed", range(8))
def test_a_bound_for_all_blocks_is_a_bound_in_each(seed: int) -> None:
    draw, bounded = random.Random(seed), 0
    everywhere = Everywhere(FACTS)
    for _ in range(40):
        form = add(_drawn(draw, 2), Linear(1 << 31))
        bound = everywhere.bound(form)
        if bound is None:
            continue
        assert askable(bound)
        bounded += form != bound
        for _ in range(20):
            blocks = draw.randint(1, 9)
            values = {PLACE: draw.randrange(blocks), GRID: blocks, N: draw.randint(0, 40)}
            assert _exact(bound, values) <= _exact(form, values), (form, bound, values)
    assert bounded > 4


def _exact(form: Linear, values: dict[Symbol, int]) -> int:
    """Its value, in arithmetic that this test does by itself."""
    return form.constant + sum(times * _value(one, values) for one, times in form.terms)


def _value(one: object, values: dict[Symbol, int]) -> int:
    match one:
        case Symbol():
            return values[one]
        case Floor(form, divisor):
            return _exact(form, values) // divisor
        case Choose(Compare(_, form), yes, no):
            return _exact(yes if _exact(form, values) >= 0 else no, values)
        case Apply(_, factors):
            return _exact(factors[0], values) * _exact(factors[1], values)
        case Product(factors):
            found = 1
            for factor in factors:
                found *= _value(factor, values)
            return found
    raise AssertionError(one)


KERNEL = """kernel k(n: i32, x: tensor[f32, M]):
    grid(4)
    p = ProducerConsumerPipeline(stages=2)
    q = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p, q:
{a}
    role b(warps=1) consumes p:
        for t in range(block.x, n, 2 * grid.x):
            for k in range(M):
                p.consumer_signal_and_step()
    role c(warps=1) consumes q:
        for t in range(block.x + grid.x, n, 2 * grid.x):
            for k in range(M):
                q.consumer_signal_and_step()
"""
AHEAD = """        for t in range(block.x, n, 2 * grid.x):
            for k in range(M):
                p.producer_signal_and_step()
            if t + grid.x < n:
                for k in range(M):
                    q.producer_signal_and_step()"""
FLAG = """        odd = False
        for t in range(block.x, n, grid.x):
            for k in range(M):
                if odd:
                    q.producer_signal_and_step()
                else:
                    p.producer_signal_and_step()
            odd = not odd"""


@pytest.mark.parametrize("a", [AHEAD, FLAG])
def test_tiles_that_two_rings_bring_in_turn(a: str) -> None:
    """The counter of the tiles starts at the block's place; nothing is asked of that at launch."""
    state = compile_source(Source("two.pipe", KERNEL.format(a=a)), Options("sm_100a"))
    assert not state.failed, state.diagnostics
    sentence = state.protocol["k"].sentence
    assert "for all sizes" in sentence and "block" not in sentence


def test_a_window_that_ends_at_the_block() -> None:
    bounds = "lo = max(0, block.x * 128 - n) // 64\n        hi = min(ceildiv(M, 64), ceildiv((block.x + 1) * 128, 64))"
    text = f"""kernel k(n: i32, x: tensor[f32, M]):
    grid(16)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        {bounds}
        for j in range(lo, hi):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        {bounds}
        for j in range(hi - lo):
            p.consumer_signal_and_step()
"""
    state = compile_source(Source("window.pipe", text), Options("sm_100a"))
    assert not state.failed, state.diagnostics


LOADED = """kernel k(ix: tensor[i32, M]):
    grid(4)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for j in range({a}):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for j in range({b}):
            p.consumer_signal_and_step()
"""


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("(load(ix[block.x]) + 63) // 64", "ceildiv(load(ix[block.x]), 64)"),
        ("0, load(ix[0]), 64", "0, load(ix[0]), 64"),
        ("load(ix[0]), load(ix[1])", "load(ix[1]) - load(ix[0])"),
    ],
)
def test_what_only_memory_says_is_asked_of_no_launch(a: str, b: str) -> None:
    """What is loaded may be a number near 2^31, and wraps then. No condition of sizes excludes that but one by which nothing is loaded, as
    the tensor is empty: that would be no proof of what the kernel is for."""
    state = compile_source(Source("loaded.pipe", LOADED.format(a=a, b=b)), Options("sm_100a"))
    assert "for all sizes, if arithmetic on numbers in memory" in state.protocol["k"].sentence


def test_what_a_size_bounds_is_asked_of_the_launch() -> None:
    bounds = "0, min(load(ix[block.x]), M), 64"
    state = compile_source(Source("loaded.pipe", LOADED.format(a=bounds, b=bounds)), Options("sm_100a"))
    assert not state.failed, state.diagnostics
    assert "M <= 2147483584" in state.protocol["k"].sentence


def test_no_condition_follows_from_the_others() -> None:
    """Of two counters, one inside the other, each within 32 bits."""
    text = """kernel k(ix: tensor[i32, E], y: tensor[f32, M, 64]):
    grid(8)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for t in range(block.x, M, 8):
            for m in range(max(0, load(ix[t])), min(M, load(ix[t + 1])), 128):
                p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for t in range(block.x, M, 8):
            for m in range(max(0, load(ix[t])), min(M, load(ix[t + 1])), 128):
                p.consumer_signal_and_step()
"""
    state = compile_source(Source("k.pipe", text), Options("sm_100a"))
    assert state.protocol["k"].outcome == "proved"
    assert "for all sizes with M <= 2147483520;" in state.protocol["k"].sentence


def test_what_only_the_search_has_a_name_for_is_no_size() -> None:
    assert all(askable(atom(Symbol(name))) for name in ("K", "%nctaid.x", "size 003", "folded 000"))
    assert not any(askable(atom(Symbol(name))) for name in ("unknown 7", "%ctaid.x", "0:%r7"))
