"""What a search tries, one after the other."""

from collections.abc import Iterator
from typing import Any

from pipec.protocol.aligned import Aligned, Alignment
from pipec.protocol.lazily import Lazy
from pipec.protocol.products import candidates, exact
from pipec.protocol.program import registers_of
from pipec.protocol.quotients import quotients_of
from pipec.protocol.schedule import Schedule
from pipec.protocol.structure import orders
from pipec.record import record
from pipec.verify.network import Network


@record
class Attempt:
    """What tells one search from another. `share`: percent that it may cost of what is left. `tells_begun`: a counter's first turn is
    told apart from the others. `products`: of counters and sizes are values of their own, and sizes are added and multiplied exactly.
    `quotients`: of counters are values of their own. `roomy`: there may be more situations, as few of them become nodes where
    all loops turn together."""

    schedule: Schedule[Any]
    share: int
    tells_begun: bool = False
    products: bool = False
    quotients: bool = False
    roomy: bool = False


def attempts(network: Network) -> Iterator[Attempt]:
    """What makes fewer situations comes first."""
    consumers, producers = orders(network)
    alignment = Alignment(network)
    # Where all loops are the same in all roles, they are followed turn by turn, and there is nearly one situation for each test.
    if alignment.whole:
        yield Attempt(Aligned(network, consumers, alignment), 75, roomy=True)
    # Where all go through the same tiles, nobody need be looked at in the next one while others are in this one.
    elif alignment.common:
        yield Attempt(Aligned(network, consumers, alignment), 50)
    registers = registers_of(network)
    if quotients_of(network, registers):
        yield Attempt(Lazy(network, consumers), 50, quotients=True)
    # Consumers first keeps rings nearly empty, and so there are few situations; producers first fills them.
    yield Attempt(Lazy(network, consumers), 90)
    if candidates(network, registers) or exact(network, registers)[1]:
        yield Attempt(Lazy(network, consumers), 50, products=True)
    if not alignment.whole and not alignment.common:
        yield Attempt(Aligned(network, consumers, alignment), 75)
    yield Attempt(Lazy(network, consumers, forgets=False), 33, tells_begun=True)
    yield Attempt(Aligned(network, consumers, alignment), 33, tells_begun=True)
    yield Attempt(Lazy(network, producers), 50)
    yield Attempt(Lazy(network, producers, forgets=False), 100, tells_begun=True)
