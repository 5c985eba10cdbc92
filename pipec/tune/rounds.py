"""Comparing contenders by time without bias from the order of execution: rounds of turns, reshuffled in each round.

A clock (`Clock`) runs one round: each contender named has one turn, in the order given. The GPU's clock rate drifts with temperature and
power during a comparison, so contenders are compared within a round, by the ratio of their times; figures over rounds are the median of
such ratios with an interval, not a ratio of best times.

`compare` runs every contender in every round. `screen` is for many contenders of which only the fast ones matter: it stops measuring
those that have fallen behind. The winner of a screening was partly lucky, so its time is measured again by `compare`.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

# Seconds per launch of each contender named, measured one after the other in this order.
Clock = Callable[[Sequence[str]], Sequence[float]]

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Spread:
    """Of several measurements: the median, an interval that contains the true median with at least 95 % confidence, the extremes.

    The interval is one of order statistics (binomial, distribution-free). Below six measurements it is the whole range, whose confidence
    is less.
    """

    median: float
    low: float
    high: float
    least: float
    most: float

    @staticmethod
    def of(values: Iterable[float]) -> "Spread":
        """Raises ValueError if there is no value."""
        found = sorted(values)
        if not found:
            raise ValueError("no measurements")
        inner = _interval(len(found))
        return Spread(median(found), found[inner], found[-1 - inner], found[0], found[-1])


def _interval(count: int) -> int:
    """The number of values to drop at either end of `count` sorted ones."""
    # The true median is below all values, or above all, with probability 2 * (1/2)^n: each is on either side of it with equal probability.
    out, tail = 0, 2 * 0.5**count  # probability that the median is outside the range
    while out < (count - 1) // 2:
        tail += 2 * comb(count, out + 1) * 0.5**count
        if tail > 1 - CONFIDENCE:
            break
        out += 1
    return out


@dataclass(frozen=True, slots=True)
class Rounds:
    """The measurements: the order of the turns in each round, and the seconds per launch in that order."""

    seed: int | str
    orders: tuple[tuple[str, ...], ...]
    seconds: tuple[tuple[float, ...], ...]

    def times(self, name: str) -> list[float]:
        """Seconds of a contender, one for each round that it took part in."""
        return [row[order.index(name)] for order, row in zip(self.orders, self.seconds, strict=True) if name in order]

    def time(self, name: str) -> Spread:
        return Spread.of(self.times(name))

    def ratio(self, name: str, to: str) -> Spread:
        """The speed-up of a contender over `to`: seconds of `to` over its own, round by round."""
        both = [row for row in self._by_name() if name in row and to in row]
        return Spread.of(row[to] / row[name] for row in both)

    def _by_name(self) -> list[dict[str, float]]:
        return [dict(zip(order, row, strict=True)) for order, row in zip(self.orders, self.seconds, strict=True)]


@dataclass(frozen=True, slots=True)
class Screening:
    """`ranking`: those that were never dropped, fastest first, then the dropped ones, the last dropped first.

    `dropped`: after how many rounds each of them was dropped.
    """

    ranking: tuple[str, ...]
    dropped: Mapping[str, int]
    rounds: Rounds

    @property
    def best(self) -> str:
        return self.ranking[0]


@dataclass(frozen=True, slots=True)
class Patience:
    """When a screening drops a contender, and when it ends.

    `first`: dropped after one round if this many times slower than the fastest in it. `behind`: dropped after at least `least` rounds if
    this many times slower than the leader in every one of them. `most`: rounds at which the screening ends.
    """

    first: float = 1.5
    behind: float = 1.02
    least: int = 3
    most: int = 12

    def __post_init__(self) -> None:
        if not (self.first >= 1 and self.behind >= 1 and 1 <= self.least <= self.most):
            raise ValueError(f"patience must have first >= 1, behind >= 1 and 1 <= least <= most: {self}")


def compare(names: Sequence[str], clock: Clock, rounds: int, seed: int | str = 0) -> Rounds:
    """Every contender once in every round, in an order drawn per round from `seed`."""
    generator = random.Random(seed)
    orders, seconds = [], []
    for _ in range(rounds):
        order = _shuffled(names, generator)
        orders.append(order)
        seconds.append(_turns(order, clock))
    return Rounds(seed, tuple(orders), tuple(seconds))


def screen(names: Sequence[str], clock: Clock, patience: Patience | None = None, seed: int | str = 0) -> Screening:
    """Finds the fastest of many: shuffled rounds of the remaining ones, until one is left or patience ends."""
    patience = patience or Patience()
    generator = random.Random(seed)
    orders: list[tuple[str, ...]] = []
    seconds: list[tuple[float, ...]] = []
    left = list(names)
    gone: list[str] = []
    dropped: dict[str, int] = {}
    while left and len(orders) < patience.most and (len(left) > 1 or not orders):
        order = _shuffled(left, generator)
        orders.append(order)
        seconds.append(_turns(order, clock))
        so_far = Rounds(seed, tuple(orders), tuple(seconds))
        behind = _fallen_behind(left, so_far, patience)
        for name in sorted(behind, key=lambda name: -median(so_far.times(name))):
            dropped[name] = len(orders)
            gone.append(name)
        left = [name for name in left if name not in behind]
    rounds = Rounds(seed, tuple(orders), tuple(seconds))
    # The remaining ones have taken part in the same rounds, so their medians are comparable; dropped ones have not.
    ranked = sorted(left, key=lambda name: median(rounds.times(name)))
    return Screening((*ranked, *reversed(gone)), dropped, rounds)


def _fallen_behind(left: Sequence[str], rounds: Rounds, patience: Patience) -> set[str]:
    leader = min(left, key=lambda name: median(rounds.times(name)))
    count = len(rounds.orders)
    if count == 1:
        fastest = rounds.times(leader)[0]
        return {name for name in left if rounds.times(name)[0] > patience.first * fastest}
    if count < patience.least:
        return set()
    # Slower in every round, not on average: otherwise a single round in which the clock dropped during its turn would eliminate a
    # contender.
    return {name for name in left if name != leader and rounds.ratio(leader, name).least > patience.behind}


def _shuffled(names: Sequence[str], generator: random.Random) -> tuple[str, ...]:
    order = list(names)
    generator.shuffle(order)
    return tuple(order)


def _turns(order: tuple[str, ...], clock: Clock) -> tuple[float, ...]:
    taken = tuple(clock(order))
    if len(taken) != len(order) or not all(0 < one < float("inf") for one in taken):
        raise ValueError(f"the clock gave {taken} for a round of {len(order)} turns")
    return taken
