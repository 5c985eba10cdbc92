"""What becomes of a mutant of a PTX text that is held against the certificate of the right one, and why some are not refused.

A mutant may be as good as the original: nobody can wait for ever in it either. Each that is accepted must have a row here.
"""

import re
from dataclasses import dataclass
from typing import Literal

from pipec.record import replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.network import Action, Arrive, Edge, End, Network, Process, Unreadable, Wait, edges_of
from pipec.verify.network import Test as Branch
from pipec.verify.reader.processes.tidy import mentioned, renamed
from pipec.verify.reader.read import read
from pipec.verify.reader.values.surroundings import LOADED, VOTED
from pipec.verify.terms import Symbol, atom, substituted, symbols_in
from tests.verify.mutations import Mutant

Outcome = Literal["not read", "refused", "accepted"]
# Of the network read, beside that of the original. "unfolded": but for places that are alike in all that can follow, which are one place
# or several; "part": but for whether arrivals pass on what other threads have waited for; "alone": another, of threads that wait for
# nobody but each other.
Likeness = Literal["the same", "other names", "unfolded", "part", "alone", "another"]


@dataclass(frozen=True)
class Reason:
    """Why mutants of an instruction (its text) by a change are accepted whose network is so like the original's. `behind`: what the
    instruction in front of it is, where that matters."""

    instruction: str
    change: str
    likeness: Likeness
    words: str
    behind: str = ""


_FOUND = re.compile(rf"({LOADED}|{VOTED})(\d+)")  # in the name of a symbol: what a load or a vote at that line finds
_MOVES = "removed|twice|moved .*"
REASONS = (
    Reason(
        r"bar\.warp\.sync|bar\.sync\s+[1-9]",
        rf"{_MOVES}|(not )?by lane 0.*|branch .*",
        "the same",
        "only threads of one process meet there, all of them each time: nobody else waits for them. What the meeting orders is data",
    ),
    Reason(r"bar\.sync", "barrier named otherwise", "the same", "only threads of one process meet there, under whatever name"),
    Reason(
        r"bar\.sync",
        "barrier named otherwise",
        "other names",
        "all who meet there meet under the other name, which nobody else uses",
    ),
    Reason(
        r"bar\.sync",
        "barrier named otherwise",
        "another",
        "all who meet there meet under the other name, which nobody else uses; elsewhere they meet under the old one",
    ),
    Reason(r".", "by lane 0 alone", "the same", "no other lane comes there"),
    Reason(r".", "not by lane 0", "the same", "lane 0 does not come there"),
    Reason(r"^@", "predicate left out", "the same", "the predicate always holds there"),
    Reason(
        r"mapa", "predicate left out", "unfolded", "the predicate always holds there; two equal places of the loop become one"
    ),
    Reason(r"mapa", "twice", "the same", "an address is computed twice"),
    Reason(r"mapa", "CTA 0", "the same", "it is CTA 0 anyway"),
    Reason(
        r"^@.*(mapa|mbarrier\.arrive)", r".*", "the same", "the predicate holds on no way there: nothing is left to give back"
    ),
    Reason(
        r"mbarrier\.init",
        "arrivals .*|barrier at .*|removed",
        "another",
        "the kernel never comes to this stage: it uses fewer than there are",
    ),
    Reason(
        r"mbarrier\.(try|test)_wait",
        "twice|branch removed",
        "the same",
        "it only looks whether a phase is over; the wait comes later, or before",
    ),
    Reason(r"bra", "branch removed", "the same", "what it leads around changes nothing there"),
    Reason(r"bra", "branch removed", "another", "it leads around a wait for a phase that a look found over", behind=r"try_wait"),
    Reason(
        r"bar\.warp\.sync|bar\.sync\s+[1-9]",
        _MOVES,
        "unfolded",
        "only threads of one process meet there; one way to a place is by a meeting and another is not, and what follows is the same",
    ),
    Reason(
        r"bar\.warp\.sync",
        _MOVES,
        "part",
        "what one lane then tells says less of what the others have waited for, and no more is needed there",
    ),
    Reason(
        r"bar\.(warp\.)?sync", _MOVES, "alone", "the kernel has one process, all of whose threads meet in other turns of a loop"
    ),
    Reason(
        r"bar\.sync\s+[1-9]",
        "moved .*",
        "another",
        "only threads of one process meet there, in other turns of a loop, and no wait needs what they tell each other there",
    ),
    Reason(
        r"mapa",
        r"CTA \+ 1",
        "another",
        "the barrier of the other CTA gets the arrivals, as many as it takes, and nobody waits at either: it is the last use",
    ),
    Reason(
        r"mbarrier\.arrive",
        r"barrier at .*",
        "another",
        "a stage is given back for the last time, where nobody waits any more, at a barrier that takes just as many arrivals",
    ),
    Reason(
        r"try_wait",
        r"barrier at .*",
        "another",
        "the wait is for a use before the first, at another barrier: it passes at once, and the certificate shows that this barrier "
        "completes no phase before",
    ),
)


def judged(mutant: Mutant, certificate: Certificate) -> tuple[Outcome, Network | None]:
    """`certificate`: of the text that was changed."""
    try:
        network = read(mutant.text, certificate.kernel)
    except Unreadable:
        return "not read", None
    try:
        check(replace(network, facts=(*network.facts, *certificate.assumes)), certificate)
    except Refused:
        return "refused", network
    return "accepted", network


def reason_for(mutant: Mutant, instruction: str, mutated: Network, original: Network) -> str | None:
    likeness, before = likeness_of(mutated, original), _before(mutant)
    for row in REASONS:
        alike = row.likeness == likeness and re.fullmatch(row.change, mutant.change)
        if alike and re.search(row.instruction, instruction) and re.search(row.behind, before):
            return row.words
    return None


def _before(mutant: Mutant) -> str:
    """The instruction in front of the one that was changed."""
    lines = (line.strip() for line in reversed(mutant.text.split("\n")[: mutant.line - 1]))
    return next((line for line in lines if line and not line.startswith((".", "$", "//"))), "")


def likeness_of(network: Network, other: Network) -> Likeness:
    if plain(network) == plain(other):
        return "the same"
    if plain(network, names=False) == plain(other, names=False):
        return "other names"
    if plain(_folded(network)) == plain(_folded(other)):
        return "unfolded"
    whole, of_other = _whole(network), _whole(other)
    if plain(whole) == plain(of_other) or plain(_folded(whole)) == plain(_folded(of_other)):
        return "part"
    return "alone" if len(network.processes) == len(other.processes) == 1 else "another"


def _whole(network: Network) -> Network:
    """As if each arrival were one of all threads that have come as far."""
    return replace(
        network,
        processes=tuple(
            replace(
                process,
                states=tuple(
                    replace(state, action=replace(state.action, part=False)) if isinstance(state.action, Arrive) else state
                    for state in process.states
                ),
            )
            for process in network.processes
        ),
    )


def _folded(network: Network) -> Network:
    """With one state in place of all those whose actions are the same and lead to the same, whatever comes then."""
    return replace(network, processes=tuple(map(_folded_process, _without_lines(network).processes)))


def _folded_process(process: Process) -> Process:
    classes, found = dict.fromkeys(range(len(process.states)), 0), 0
    while found < len(set(classes.values())):
        found = len(set(classes.values()))
        numbers: dict[object, int] = {}
        alike = [(state.live, _renumbered(state.action, classes)) for state in process.states]
        classes = {at: numbers.setdefault(one, len(numbers)) for at, one in enumerate(alike)}
    first = {number: at for at, number in reversed(classes.items())}
    states = [process.states[first[number]] for number in range(len(first))]
    states = [replace(state, action=_renumbered(state.action, classes)) for state in states]
    return replace(process, states=tuple(states), start=classes[process.start])


def _without_lines(network: Network) -> Network:
    """Loads and votes, which have their line in the name of what they find, numbered in the order of the text."""
    live = [state.live for process in network.processes for state in process.states]
    symbols = set[Symbol]().union(*map(mentioned, network.processes), *live)
    symbols |= {symbol for fact in network.facts for symbol in symbols_in(fact)}
    lines = sorted({int(found[2]) for symbol in symbols if (found := _FOUND.search(symbol.name))})

    def name(old: str) -> str:
        return _FOUND.sub(lambda found: f"{found[1]}{lines.index(int(found[2]))}", old)

    forms = {symbol: atom(Symbol(name(symbol.name))) for symbol in symbols if _FOUND.search(symbol.name)}
    return replace(
        network,
        processes=tuple(renamed(process, name) for process in network.processes),
        facts=tuple(substituted(fact, forms) for fact in network.facts),
    )


def plain(network: Network, names: bool = True) -> Network:
    """Without what says nothing: line numbers, the numbers of states, how many arrivals a barrier takes where nobody arrives or waits; and
    without the names of named barriers, if not asked for."""
    network = _without_lines(network)
    used = {
        state.action.use.ring
        for process in network.processes
        for state in process.states
        if isinstance(state.action, Wait | Arrive)
    }
    rings = tuple(
        replace(
            ring, count=ring.count if number in used else 0, instances=ring.instances if names or ring.kind != "named" else (0,)
        )
        for number, ring in enumerate(network.rings)
    )
    return replace(network, processes=tuple(map(_numbered, network.processes)), rings=rings, assumptions=())


def _numbered(process: Process) -> Process:
    """The states in the order in which they are come upon."""
    order = [process.start]
    for number in order:
        order += [edge.target for edge in edges_of(process.states[number].action) if edge.target not in order]
    places = {old: new for new, old in enumerate(order)}
    states = tuple(replace(process.states[old], line=0, action=_renumbered(process.states[old].action, places)) for old in order)
    return replace(process, states=states, start=0)


def _renumbered(action: Action, places: dict[int, int]) -> Action:
    def there(edge: Edge) -> Edge:
        return replace(edge, target=places[edge.target])

    match action:
        case Branch():
            return replace(action, yes=there(action.yes), no=there(action.no))
        case End():
            return action
        case _:
            return replace(action, edge=there(action.edge))
