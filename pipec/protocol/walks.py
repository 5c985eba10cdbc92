"""A proof of roles that take the stages of one walk one by one, or in pieces."""

from collections.abc import Collection, Iterator
from itertools import product

from pipec.protocol.effort import Effort
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.program.program import registers_of
from pipec.protocol.prove import Undecided, prove
from pipec.protocol.restating.opaque import Opaque
from pipec.protocol.restating.pieces import in_pieces
from pipec.protocol.restating.restate import in_words
from pipec.protocol.schedules.schedule import Pairs
from pipec.protocol.search.attempts import in_step
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.network import Edge, Network
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import Symbol, symbols_in

_STEPS = 150_000, 900_000  # of a search: nearly all that are found take few


def proofs_in_pieces(network: Network, pairs: Pairs) -> Iterator[Certificate]:
    """Not yet checked; first one for which it makes no difference where pieces end. None at all if the roles take no such walk, or none
    is found so under conditions that launches can be asked for."""
    walks = in_pieces(network)
    if walks is None:
        return
    made = in_words(replace(network, facts=(*network.facts, *walks.conditions)), walks.others)
    if made is None:
        return
    sizes = frozenset[Symbol]().union(*map(symbols_in, made.facts))
    opaque = Opaque(made, registers_of(made))
    ways = ((_forgetting(made, walks.left), lambda found: found), (opaque.network, opaque.unfolded))
    for steps, (plain, unfolded) in product(_STEPS, ways):
        try:
            found = unfolded(prove(plain, Effort(combinations=steps), pairs=pairs, tries=in_step))
        except Undecided:
            continue
        if all(askable_formula(one) and symbols_in(one) <= sizes for one in found.assumes):
            yield replace(found, assumes=(*walks.conditions, *found.assumes), restated=walks.others)


def _forgetting(network: Network, left: Collection[Symbol]) -> Network:
    """The network with anything in all registers but these: what holds of it holds of the network."""

    def edge(one: Edge) -> Edge:
        return replace(one, values=tuple([(symbol, value if symbol in left else None) for symbol, value in one.values]))

    processes = [
        replace(process, states=tuple([replace(state, action=with_edges(state.action, edge)) for state in process.states]))
        for process in network.processes
    ]
    return replace(network, processes=tuple(processes))
