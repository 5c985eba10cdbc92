"""Sizes and numbers in memory drawn at random, with what was found made smaller.

In any order of sizes, what happens only in the fifth block, or where three sizes are large, comes late. The draws are the same in each run
of the compiler, and do not depend on names.
"""

from collections.abc import Callable, Collection, Iterator
from random import Random

from pipec.protocol.forms.sample import Numbers
from pipec.protocol.refuting.launches import Launches
from pipec.protocol.refuting.tried import Possible, all_forms, in_order, inside, steps_of
from pipec.verify.network import Network
from pipec.verify.terms import Floor, Symbol

_MOST_DRAWN = 300  # of which some are no launch
_MULTIPLES = (1, 1, 2, 2, 3, 4, 6, 9)  # of the step of a size: small ones more often
_PLACES = (0, 0, 1, 2, 3, 5, 8)  # of a block in the grid
_LARGEST_CONSTANT = 200
_NEAR_A_CONSTANT = 0.2  # how often
_MOST_SMALLER = 100  # of those that are tried in place of one that was found

Number = Callable[[int], int]  # in memory, by its place


def drawn_sizes(network: Network, launches: Launches, others: Collection[Symbol] = ()) -> Iterator[Numbers]:
    """`others`: sizes on which only places in memory depend."""
    steps = dict.fromkeys(others, 1) | steps_of(network)
    names, constants, random = in_order(network, steps), _constants(network), Random("sizes")

    def drawn(symbol: Symbol) -> int:
        step = steps[symbol]
        if constants and random.random() < _NEAR_A_CONSTANT:
            return max(0, random.choice(constants) + random.randint(-1, 2))
        if symbol.name.startswith("%ctaid."):
            return random.choice(_PLACES)
        return random.choice(_MULTIPLES) * step + random.choice((0, 0, 0, 1, step // 2, -1))

    possible = Possible(network, steps, launches)
    return possible.of(_placed({symbol: drawn(symbol) for symbol in names}, launches) for _ in range(_MOST_DRAWN))


def _placed(sizes: Numbers, launches: Launches) -> Numbers:
    """With a grid as large as the sizes make it, and a block in it."""
    placed = dict(sizes)
    for axis, extent in zip("xyz", launches.extents(sizes), strict=True):
        across, place = Symbol(f"%nctaid.{axis}"), Symbol(f"%ctaid.{axis}")
        if extent and across in sizes:
            placed[across] = extent
        if extent and place in sizes:
            placed[place] = sizes[place] % extent
    return placed


def drawn_numbers(step: int) -> Iterator[Number]:
    """Contents of memory of which multiples of the step matter."""
    random = Random("numbers")
    while True:
        yield _Contents(random, step)


class _Contents:
    """Each number is drawn when it is first read, from few or from many."""

    def __init__(self, random: Random, step: int) -> None:
        self._least = random.choice((0, 0, 0, 1, -1))
        self._most = random.choice((2, 2, 3, 5, 9)) * (step if random.random() < 0.7 else 1)
        self._unit = random.choice((1, step))
        self._seed = random.random()

    def __call__(self, place: int) -> int:
        return self._least + Random(f"{self._seed}/{place}").randrange(self._most) // self._unit * self._unit


def lessened(sizes: Numbers, network: Network, launches: Launches, still: Callable[[Numbers], bool]) -> Numbers:
    """One size after the other as small as is found, if it is still so."""
    steps, possible, left = steps_of(network), Possible(network, sizes, launches), _MOST_SMALLER

    def less(symbol: Symbol) -> Iterator[Numbers]:
        step, value = steps.get(symbol, 1), sizes[symbol]
        for other in sorted({0, 1, step, value // 2, value // 2 // step * step, value // step * step, value - step}):
            if 0 <= other < value:
                yield {**sizes, symbol: other}

    for symbol in in_order(network, sizes):  # the block first: in an earlier one, sizes can be smaller, too
        found: Numbers | None = sizes
        while found is not None:
            sizes, found = found, None
            for other in possible.of(less(symbol)):
                if not left:
                    return sizes
                left -= 1
                if still(other):
                    found = other
                    break
    return sizes


def _constants(network: Network) -> list[int]:
    """Those that sizes are compared with or divided by."""
    found = {
        abs(constant)
        for form in all_forms(network)
        for part in inside(form)
        for constant in (part.constant, *(one.divisor for one, _ in part.terms if isinstance(one, Floor)))
    }
    return sorted(one for one in found if 1 < one < _LARGEST_CONSTANT)
