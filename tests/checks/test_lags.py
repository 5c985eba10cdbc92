"""Slots in global memory that are given back with a lag, under conditions on the iteration: in one CTA, in clusters and in pairs."""

import random
from functools import cache
from itertools import islice

import numpy as np
import pytest
from diagnose import Options, diagnose, outcomes
from effort import reached
from fuzz import fuzz_lags, lag_kernels
from fuzz.fuzz_hand_overs import tried
from lower.running import run
from samples import numbers

from pipec.driver import compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, M, 32], t: tensor[f32, S, 32], y: tensor[f32, M, 32], n: i32):
    grid({grid})
    full = ProducerConsumerPipeline(stages={stages}{shared})
    back = ProducerConsumerPipeline(stages={stages}{shared})
    role first(warps=4) produces full consumes back:
        for i in range(n):
{first}
    role second(warps=4) consumes full produces back:
        for i in range(n):
{second}
"""
SHARED = {
    "one CTA": ("2", ""),
    "a cluster": ("4)\n    cluster(2", ""),
    "a cluster that shares": ("4)\n    cluster(2", ', scope="cluster"'),
    "a pair": ("4)\n    cluster(2", ", cta_group=2"),
}
PUT = "store.direct(t[(block.x * 4 + {slot}) * 128, 0], load(x[(block.x * n + i) * 128, 0], 128, 32))"
GET = "store.direct(y[(block.x * n + i) * 128, 0], load(t[(block.x * 4 + {slot}) * 128, 0], 128, 32) + 1.0)"
AWAIT, TELL = "back.consumer_signal_and_step()", "back.producer_signal_and_step()"
FILL, TAKE = "full.producer_signal_and_step()", "full.consumer_signal_and_step()"


def when(condition: str, line: str) -> list[str]:
    return [f"if {condition}:", f"    {line}"]


def source(first: list[str], second: list[str], slot: str = "i % 2", shared: str = "one CTA", stages: int = 2) -> str:
    grid, options = SHARED[shared]
    bodies = ("\n".join(" " * 12 + line.replace("{slot}", slot) for line in lines) for lines in (first, second))
    return KERNEL.format(grid=grid, shared=options, stages=stages, **dict(zip(("first", "second"), bodies, strict=True)))


LAG = [*when("i >= 2", AWAIT), PUT, FILL], [TAKE, GET, *when("i + 2 < n", TELL)]
RIGHT = {
    "with a lag": source(*LAG),
    "in other words": source([*when("not i < 2", AWAIT), PUT, FILL], [TAKE, GET, *when("i < n - 2", TELL)]),
    "in the other branch": source(["if i < 2:", "    pass", "else:", f"    {AWAIT}", PUT, FILL], LAG[1]),
    "three slots": source([*when("i > 2", AWAIT), PUT, FILL], [TAKE, GET, *when("i + 3 < n", TELL)], "i % 3", stages=3),
    "more slots than the lag": source(*LAG, "i % 4"),
    "of one slot": source([*when("i > 0", AWAIT), PUT, FILL], [TAKE, GET, *when("i < n - 1", TELL)], "0", stages=1),
    "what is told by another condition": source([*when("i >= 2", AWAIT), PUT, FILL], [TAKE, GET, *when("n - i > 2", TELL)]),
}
WRONG = {
    "a lag too long": source([*when("i >= 3", AWAIT), PUT, FILL], [TAKE, GET, *when("i + 3 < n", TELL)], stages=3),
    "awaited behind the store": source([PUT, *when("i >= 2", AWAIT), FILL], LAG[1]),
    "told before the load": source(LAG[0], [TAKE, *when("i + 2 < n", TELL), GET]),
    "awaited in every second turn": source([*when("i % 2 == 0", AWAIT), PUT, FILL], [TAKE, GET, *when("i % 2 == 0", TELL)]),
    "awaited in the first turns alone": source([*when("i < 2", AWAIT), PUT, FILL], [TAKE, GET, *when("i < 2", TELL)]),
    "awaited while there are others": source([*when("i + 2 < n", AWAIT), PUT, FILL], LAG[1]),
    "by a number in memory": source([*when("load(x[0, 0]) > 1.0", AWAIT), PUT, FILL], LAG[1]),
}


@pytest.mark.combinations(0.4)
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("name", RIGHT)
def test_it_is_right(name: str, shared: str) -> None:
    (grid, options), (plain, _) = SHARED[shared], SHARED["one CTA"]
    text = RIGHT[name].replace(f"grid({plain})", f"grid({grid})")
    text = text.replace("stages=1)", f"stages=1{options})").replace("stages=2)", f"stages=2{options})")
    text = text.replace("stages=3)", f"stages=3{options})")
    assert outcomes("k.pipe", text, Options()) == ["proved"], diagnose("k.pipe", text)
    blocks, n = int(grid[0]), 5
    for timing in ("order", "late", "random"):
        x = np.random.default_rng(n).random((blocks * n * 128, 32), np.float32)
        t, y = np.zeros((blocks * 512, 32), np.float32), np.zeros_like(x)
        run(text, "k", x, t, y, n, timing=timing)
        assert np.array_equal(y, x + 1), timing


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_refused(name: str) -> None:
    assert "E0614" in [one.code for one in diagnose("k.pipe", WRONG[name])]


@pytest.mark.parametrize("number", numbers("lags", 20, 500))
def test_accepted_kernels_do_not_race(number: int) -> None:
    assert fuzz_lags.attempt(random.Random(f"lags/{number}")) is None


def test_lags_are_accepted_and_most_others_go_wrong() -> None:
    drawn = [lag_kernels.draw(random.Random(f"lags/{number}")) for number in range(60)]
    codes = cache(lambda text: {one.code for one in compile_source(Source("k.pipe", text)).diagnostics})
    assert reached(5, ("if " in text and not codes(text) for text in drawn))
    refused = islice((text for text in drawn if codes(text) == {"E0614"}), 12)
    assert reached(8, (tried(text, 2, unchecked=True, sizes=fuzz_lags.TURNS) is not None for text in refused))
