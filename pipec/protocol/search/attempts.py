"""The attempts of a search, in order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

from pipec.protocol.facts.products import candidates, exact
from pipec.protocol.facts.quotients import in_units, quotients_of
from pipec.protocol.facts.squares import squares
from pipec.protocol.program.program import registers_of
from pipec.protocol.program.structure import begins_tiles, orders
from pipec.protocol.schedules.aligned import Aligned, Alignment
from pipec.protocol.schedules.lazily import Lazy
from pipec.protocol.schedules.schedule import Schedule
from pipec.record import record
from pipec.verify.network import Network


@record
class Attempt:
    """The parameters of a search. `share`: its limit as a percentage of the remaining budget. `tells_begun`: distinguishes a counter's
    first iteration from the others. `products`: products of counters and sizes are variables of their own, and sizes are added and
    multiplied exactly; `reaching`: so are counters that sizes bound; `squared`: and squares of counters are variables, too. `quotients`:
    quotients of counters are variables of their own. `roomy`: allows more situations, as few of them become nodes if all loops run in
    lockstep."""

    schedule: Schedule[Any]
    share: int
    tells_begun: bool = False
    products: bool = False
    quotients: bool = False
    roomy: bool = False
    reaching: bool = False
    squared: bool = False


def rounds(network: Network) -> Iterator[Iterable[Attempt]]:
    """The attempts, in rounds: sizes are split only where all of a round have failed, since one of them may do without."""
    consumers, producers = orders(network)
    alignment = Alignment(network)
    yield _first(network, consumers, alignment)
    for attempt in (
        Attempt(Lazy(network, consumers, forgets=False), 50, tells_begun=True),
        Attempt(Aligned(network, consumers, alignment), 33, tells_begun=True),
        Attempt(Lazy(network, producers), 50),
        Attempt(Lazy(network, producers, forgets=False), 100, tells_begun=True),
    ):
        yield [attempt]


def in_step(network: Network) -> Iterator[Iterable[Attempt]]:
    """For loops that ask the same: the attempts that follow them iteration by iteration."""
    alignment = Alignment(network)
    if alignment.whole or alignment.common:
        consumers, _ = orders(network)
        yield [Attempt(Aligned(network, consumers, alignment), 50, roomy=True)]
        # (What the row of the next tile is may only be known not to wrap by bounds of quotients.)
        yield [Attempt(Aligned(network, consumers, alignment), 100, products=True, roomy=True)]


def _first(network: Network, consumers: Sequence[int], alignment: Alignment) -> Iterator[Attempt]:
    """Attempts with fewer situations come first."""
    # If all roles have the same loops, they are followed iteration by iteration, with about one situation per test.
    if alignment.whole:
        yield Attempt(Aligned(network, consumers, alignment), 75, roomy=True)
    # If all iterate over the same tiles, none enters the next one while others are in this one.
    elif alignment.common:
        yield Attempt(Aligned(network, consumers, alignment), 50)
    registers = registers_of(network)
    multiplied = bool(candidates(network, registers) or exact(network, registers)[1])
    if alignment.whole and multiplied:
        yield Attempt(Aligned(network, consumers, alignment), 40, products=True, roomy=True)
    # Where sizes are multiplied, most of the remaining budget is for the attempt with products, unless one of these has been made.
    plain = 90 if not multiplied else 40 if alignment.whole else 20
    counted = quotients_of(network, registers)
    units = bool(counted) and counted == in_units(network, registers)
    if counted and not units:
        # (Loops by twos up to a bound that depends on the tile have some thirty situations.)
        yield Attempt(Lazy(network, consumers), min(max(plain, 30), 50), quotients=True)
    # Consumers first keeps rings almost empty, which gives few situations; producers first fills them.
    yield Attempt(Lazy(network, consumers), plain)
    # (Most loops up to a multiple of their stride begin alike, and are proved without.)
    if units:
        yield Attempt(Lazy(network, consumers), 75, quotients=True)
    if multiplied:
        # A flat loop asks for the first block of a tile before its stage is taken, for the last one behind it.
        prompts = (True, False) if begins_tiles(network) else (False,)
        for reaching, prompt in product((False, True), prompts):
            yield Attempt(Lazy(network, consumers, prompt=prompt), 75, products=True, reaching=reaching)
    if not alignment.whole and not alignment.common:
        yield Attempt(Aligned(network, consumers, alignment), 75)
    if not alignment.whole and squares(network, registers):
        yield Attempt(Lazy(network, consumers), 75, products=True, squared=True)
