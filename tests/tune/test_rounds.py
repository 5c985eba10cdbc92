"""Comparison by rounds: with a clock that drifts, fixed order is wrong and shuffled rounds are right."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from pipec.tune.rounds import Patience, Rounds, Spread, compare, screen


class FakeGpu:
    """True times, slowed down the longer the GPU has been working in a round (as power and heat do), with noise."""

    def __init__(self, true: dict[str, float], drift: float = 0.0, noise: float = 0.0, seed: int = 1) -> None:
        self.true, self.drift, self.noise = true, drift, noise
        self.random = random.Random(seed)
        self.rounds: list[tuple[str, ...]] = []

    def __call__(self, order: Sequence[str]) -> list[float]:
        self.rounds.append(tuple(order))
        slower = (1 + self.drift * turn for turn in range(len(order)))
        return [self.true[name] * slow * (1 + self.random.gauss(0, self.noise)) for name, slow in zip(order, slower, strict=True)]

    @property
    def turns(self) -> Counter[str]:
        return Counter(name for order in self.rounds for name in order)


def test_every_round_has_every_contender_once_in_another_order() -> None:
    gpu = FakeGpu(dict.fromkeys("abcd", 1e-6))
    rounds = compare("abcd", gpu, 24, seed=7)
    assert all(sorted(order) == list("abcd") for order in rounds.orders)
    assert list(rounds.orders) == gpu.rounds  # what is recorded is what ran
    first = Counter(order[0] for order in rounds.orders)
    assert set(first) == set("abcd") and max(first.values()) < 14
    assert len(set(rounds.orders)) > 10


def test_the_seed_gives_the_order_again() -> None:
    gpu = FakeGpu(dict.fromkeys("abcd", 1e-6))
    assert compare("abcd", gpu, 9, seed=3).orders == compare("abcd", gpu, 9, seed=3).orders
    assert compare("abcd", gpu, 9, seed=3).orders != compare("abcd", gpu, 9, seed=4).orders


def test_shuffling_removes_what_a_fixed_order_gives_to_the_first() -> None:
    equal = {"first": 1e-3, "last": 1e-3}
    gpu = FakeGpu(equal, drift=0.08, noise=0.002)
    fixed = [gpu(("first", "last")) for _ in range(40)]
    assert min(last / first for first, last in fixed) > 1.05  # the trap: one of two equals seems 8 % faster
    ratio = compare(tuple(equal), FakeGpu(equal, drift=0.08, noise=0.002), 41).ratio("first", "last")
    assert ratio.low < 1 < ratio.high


def test_ratios_are_taken_within_a_round() -> None:
    rounds = Rounds(0, (("a", "b"), ("b", "a"), ("a", "b")), ((1.0, 2.0), (20.0, 10.0), (4.0, 8.0)))
    assert rounds.times("a") == [1.0, 10.0, 4.0] and rounds.times("b") == [2.0, 20.0, 8.0]
    assert rounds.ratio("a", "b") == Spread(2.0, 2.0, 2.0, 2.0, 2.0)
    assert rounds.ratio("b", "a").median == 0.5


@pytest.mark.parametrize(("count", "left_out"), [(1, 0), (5, 0), (6, 0), (9, 1), (15, 3), (25, 7)])
def test_the_interval_of_a_median(count: int, left_out: int) -> None:
    """Left out at either end: tables of the sign test, 5 % two-sided."""
    spread = Spread.of(range(count))
    assert (spread.low, spread.high) == (left_out, count - 1 - left_out)
    assert (spread.least, spread.most) == (0, count - 1)


def test_the_interval_holds_the_median_as_often_as_it_says() -> None:
    generator = random.Random(5)
    held = 0
    for _ in range(2000):
        spread = Spread.of(generator.expovariate(1.0) for _ in range(15))
        held += spread.low <= 0.6931 <= spread.high
    assert held >= 1900


def test_no_measurement_is_an_error() -> None:
    with pytest.raises(ValueError, match="no measurements"):
        Spread.of(())


def test_a_screening_finds_the_fastest_and_spends_little_on_the_slow() -> None:
    true = {f"t{n}": 1e-5 * (1 + 0.05 * n) for n in range(40)}
    gpu = FakeGpu(true, drift=0.0005, noise=0.003)
    found = screen(tuple(true), gpu, Patience(most=12))
    assert found.best == "t0"
    assert set(found.ranking) == set(true) and len(found.ranking) == len(true)
    assert gpu.turns["t39"] == 1 and gpu.turns["t20"] == 1  # twice as slow: one turn is enough
    assert gpu.turns["t5"] == 3
    assert sum(gpu.turns.values()) < 3 * len(true)
    assert found.dropped["t39"] == 1 and "t0" not in found.dropped


def test_a_screening_keeps_those_it_cannot_tell_apart() -> None:
    true = {"a": 1e-5, "b": 1.005e-5, "c": 1.2e-5}
    found = screen(tuple(true), FakeGpu(true, noise=0.01), Patience(most=8))
    assert set(found.ranking[:2]) == {"a", "b"} and found.ranking[2] == "c"
    assert set(found.dropped) == {"c"} and len(found.rounds.orders) == 8


def test_a_screening_of_one_takes_one_round() -> None:
    gpu = FakeGpu({"a": 1e-6})
    assert screen(("a",), gpu).best == "a" and gpu.turns["a"] == 1


def test_one_slow_round_does_not_drop_the_leader() -> None:
    class Hiccup(FakeGpu):
        def __call__(self, order: Sequence[str]) -> list[float]:
            taken = super().__call__(order)
            return [one * (1.3 if name == "a" and len(self.rounds) == 2 else 1) for name, one in zip(order, taken, strict=True)]

    assert screen(("a", "b"), Hiccup({"a": 1e-6, "b": 1.1e-6})).best == "a"


@pytest.mark.parametrize("taken", [[1e-6], [1e-6, 0.0], [1e-6, float("nan")], [1e-6, float("inf")]])
def test_a_clock_that_is_broken_is_noticed(taken: list[float]) -> None:
    with pytest.raises(ValueError, match="the clock"):
        compare(("a", "b"), lambda order: taken, 1)


@pytest.mark.parametrize("wrong", [{"first": 0.5}, {"behind": 0.9}, {"least": 0}, {"least": 5, "most": 4}])
def test_patience_that_makes_no_sense(wrong: dict) -> None:
    with pytest.raises(ValueError, match="patience"):
        Patience(**wrong)
