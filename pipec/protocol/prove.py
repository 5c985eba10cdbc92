"""Searches a certificate: follows one schedule through all situations that its tests can lead to, and finds the invariants of each.

Runs at a few sizes show which situations exist and suggest invariants, which are then weakened until every way into a situation implies
them. A situation consists of the places of all processes, the arrivals so far, the remembered branches, and the outcomes of tests of
sizes. If that fails, the sizes are split into cases, or another schedule is tried.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from pipec.protocol.effort import Effort, Spent
from pipec.protocol.facts.products import needed
from pipec.protocol.forms.everywhere import askable_formula
from pipec.protocol.program.naming import canonical, in_names_of
from pipec.protocol.program.program import Program
from pipec.protocol.schedules.schedule import Pairs
from pipec.protocol.search.attempts import Attempt, rounds
from pipec.protocol.search.cases import Parts, Splitter
from pipec.protocol.search.undecided import STUCK, TOO_LONG, Undecided
from pipec.verify.checker.certificate import Certificate
from pipec.verify.network import Network
from pipec.verify.terms import Formula

__all__ = ["Undecided", "prove"]


def prove(
    network: Network,
    effort: Effort | None = None,
    pairs: Pairs = (),
    refuted: Callable[[], bool] = lambda: False,
    *,
    any_conditions: bool = False,
    tries: Callable[[Network], Iterator[Iterable[Attempt]]] = rounds,
    lacking: Collection[Formula] = (),
) -> Certificate:
    """Raises Undecided. The result is a proof only if the checker accepts it. Rings of `pairs` must have advanced equally at the end: what
    was filled was released. `refuted`: queried before expensive steps; if it holds there is nothing to prove. `any_conditions`: also those
    that no launch can check; otherwise, all other schedules are tried first. `tries`: the attempts. `lacking`: what all schedules have
    been found to lack, where the same text was read in another way: one that lacks it here too is the last."""
    effort = effort or Effort()
    spent = Spent(effort, refuted)
    # Names determine the order of terms, and thus which proof is found first.
    network, names = canonical(network)
    parts: dict[tuple[bool, bool, bool, bool], Parts] = {}
    reason = Undecided("no schedule was found")
    first: Certificate | None = None
    lack: Formula | None = None
    for attempts in tries(network):
        # Splitting the sizes multiplies the work: it comes after all schedules of a round, one of which may need none.
        again: list[tuple[Attempt, Undecided | None]] = []
        failures: list[tuple[Attempt, Undecided]] = []
        for attempt, before in chain(((attempt, None) for attempt in attempts), again):
            if before is not None and _common_lack(failures, lacking) is not None:
                break
            spent.share(attempt.share)
            products, quotients, reaching, squared = kind = attempt.products, attempt.quotients, attempt.reaching, attempt.squared
            if kind not in parts:
                parts[kind] = Parts(Program(network, products=products, quotients=quotients, reaching=reaching, squared=squared))
            splitter = Splitter(parts[kind], attempt, effort, pairs, spent)
            try:
                cases = (splitter.whole(),) if before is None else (*splitter.parts_of(before),)
                found = Certificate(network.name, cases, needed(network.facts, parts[kind].program.assumed))
                # Another schedule may need no condition on block indices, which no launch can check.
                if any_conditions or all(map(askable_formula, found.assumes)):
                    return in_names_of(found, names)
                first = first or found
            except Undecided as why:
                # A deadlock at small sizes ends the search before more is tried.
                if first is None and (why.hopeless or before is None and refuted()):
                    raise why.again(hopeless=True) from why
                failures.append((attempt, why))
                if before is None:
                    again.append((attempt, why))
                # A wait that some attempt could not get past says more than that later ones took too long.
                reason = why if str(why) != TOO_LONG or str(reason) != STUCK else reason
                if why.required in lacking:
                    break
            if spent.out():
                break
        lack = _common_lack(failures, lacking)
        if lack is not None:
            break
        spent.renew()
        if spent.out():
            break
    if first is not None:
        return in_names_of(first, names)
    raise reason.again(lacks=lack)


def _common_lack(failures: Sequence[tuple[Attempt, Undecided]], lacking: Collection[Formula]) -> Formula | None:
    """What all attempts of a round failed for, with both kinds of schedules, or one of them where it is known to be lacking: one and the
    same number may wrap. Other schedules relate the roles to each other in other ways, but do not bound a number that is read from
    memory."""
    if failures and failures[-1][1].required in lacking:
        return failures[-1][1].required
    kinds = {type(attempt.schedule) for attempt, _ in failures}
    required = {why.required for _, why in failures}
    return required.pop() if len(kinds) > 1 and len(required) == 1 else None
