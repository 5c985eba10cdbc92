"""Restates the processes of a network: what the checker then makes sure of is what the search is about."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

from pipec.protocol.forms.extents import Between, ranges_in
from pipec.protocol.program.liveness import assigned_in, live_in
from pipec.protocol.program.program import registers_of
from pipec.protocol.restating.blocks import with_blocks
from pipec.protocol.restating.branched import branched
from pipec.protocol.restating.counted import counted
from pipec.protocol.restating.distances import Measured, with_distances
from pipec.protocol.restating.loaded import with_numbers
from pipec.protocol.restating.parted import parted
from pipec.protocol.restating.tile_runs import Seen
from pipec.record import record, replace
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.checker.configuration import Refused
from pipec.verify.checker.restated import restated
from pipec.verify.logic import System
from pipec.verify.network import Action, Edge, Network, Process, Test, edges_of
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.terms import TRUE, Compare, Formula, Symbol, add, atom, negate, substitute, substituted, symbols_in, symbols_of


@record
class Restated:
    """`network`: without registers on which nothing depends any more. `left`: registers that have what is left
    of a tile, if all processes with numbers of a tile have one."""

    network: Network
    others: tuple[Restatement, ...] = ()
    left: tuple[Symbol, ...] = ()


def restate(network: Network, *, distances: bool = True, numbers: bool = False, counting: bool = False) -> Restated:
    """The network in other words. `distances`: with distances in place of counters of turns, if the checker accepts that; `numbers`: with
    loaded numbers in registers; `counting`: with numbers of a tile in registers, and others that count what is left of these."""
    sizes = cache(lambda: System(network.facts).closed())
    others: list[Restatement] = []
    left: list[Symbol] = []
    several = 0
    ways: list[Callable[[], tuple[Measured, ...]]] = [lambda: tuple(map(Measured, network.processes))]
    if numbers or counting:
        named = [cache(partial(with_numbers, network, parted=parts, tiles=counting)) for parts in (False, True)]
        if counting and not any(one.numbers for way in named for one in way()):
            return Restated(network)
        ways = [*named, *ways]
    worded = [cache(partial(_measured, network, way, distances)) for way in ways]
    if counting and not _count_alike(worded, sizes, ranges_in(network.facts)):
        return Restated(network)
    for number, process in enumerate(network.processes):
        if not counting and (made := branched(number, process)) is not None and _accepted(network, made, sizes()):
            others.append(made)
            continue
        itself = one = _one_to_one(number, process)
        for words in dict.fromkeys(made()[number] for made in worded):
            made = _with(process, number, words) if words.meant else itself
            if made is not None and (made == itself or _accepted(network, made, sizes())):
                one = made
                break
        else:
            return restate(network, distances=False, numbers=numbers, counting=counting)
        if counting and any(made()[number].numbers for made in worded):
            several += 1
            if words.numbers and (count := _counted(network, one, words, sizes())) is not None:
                others.append(count[0])
                left.append(count[1])
                continue
        further = parted(one)
        if further is not one and _accepted(network, further, sizes()):
            one = further
        others += [one] if one != itself else []
    if not others:
        return Restated(network)
    return Restated(_in_words(network, others, sizes()), tuple(others), tuple(left) if len(left) == several else ())


def in_words(network: Network, others: Sequence[Restatement]) -> Network | None:
    """The network in these words; None if the checker does not accept them."""
    try:
        return _in_words(network, others, System(network.facts).closed())
    except Refused:
        return None


def _in_words(network: Network, others: Sequence[Restatement], sizes: System) -> Network:
    """Raises Refused."""
    return tidied(restated(network, others, sizes))


def worded(network: Network, others: Sequence[Restatement]) -> Network:
    """The network with processes as they are restated, not yet checked, and without registers on which nothing depends."""
    processes = list(network.processes)
    for one in others:
        processes[one.process] = _worded(processes[one.process], one)
    return tidied(replace(network, processes=tuple(processes)))


def _worded(process: Process, one: Restatement) -> Process:
    states = []
    for place in one.places:
        state = process.states[place.state]
        before = edges_of(state.action)
        ways = [(Edge(place.state) if way.takes is None else before[way.takes], way) for way in place.onwards]
        edges = [Edge(way.target, (*edge.values, *way.values), edge.advances, way.requires) for edge, way in ways]
        asked = None if place.asks is None else Test(place.asks, edges[0], edges[1])
        action = asked or with_edges(state.action, lambda _, only=edges: only[0])  # type: ignore[misc]
        states.append(replace(state, action=action))
    return replace(process, states=tuple(states), start=one.start)


def tidied(network: Network) -> Network:
    """Without registers on which nothing depends."""
    registers = registers_of(network)
    return replace(network, processes=tuple([_alive(process, registers) for process in network.processes]))


def one_behind_the_other(first: Sequence[Restatement], then: Sequence[Restatement]) -> tuple[Restatement, ...]:
    """Restatements of a network, of which some processes are restated again: what does both at once."""
    made = {one.process: one for one in first}
    for one in then:
        made[one.process] = _again(made[one.process], one) if one.process in made else one
    return tuple(made.values())


def _again(first: Restatement, then: Restatement) -> Restatement:
    """Where the two ask something else, what the first one asks follows from the question of the second one, at a place of its own."""
    places: list[Place] = []
    further: list[Place] = []
    for place in then.places:
        before = first.places[place.state]
        facts = tuple(dict.fromkeys((*before.facts, *place.facts)))
        onwards = []
        for number, one in enumerate(place.onwards):
            if one.takes is None:
                onwards.append(one)
                continue
            taken = before.onwards[one.takes]
            onward = Onward(taken.takes, one.target, (*taken.values, *one.values), one.requires)
            if before.asks is not None and place.asks != before.asks:
                answer = negate(before.asks) if one.takes else before.asks
                further.append(Place(before.state, (*facts, answer), TRUE, (onward, onward)))
                onward = Onward(None, len(then.places) + len(further) - 1)
            onwards.append(onward)
        places.append(Place(before.state, facts, place.asks, tuple(onwards)))
    return replace(then, places=(*places, *further))


def _count_alike(worded: Sequence[Callable[[], tuple[Measured, ...]]], sizes: Callable[[], System], between: Between) -> bool:
    """Whether all processes with numbers of a tile have as many stages as one says: soon seen, without the checker."""
    for number in range(len(worded[0]())):
        ways = [made()[number] for made in worded if made()[number].numbers]
        if ways and not any(Seen(one.process, one.numbers, sizes(), between).counted(number) for one in ways):
            return False
    return True


def _counted(network: Network, one: Restatement, words: Measured, sizes: System) -> tuple[Restatement, Symbol] | None:
    """The process with what is left of a tile in a register, if the checker accepts that."""
    process = restated(network, [one], sizes).processes[one.process]
    made = counted(one, process, words.numbers, sizes, ranges_in(network.facts))
    return made if made is not None and _accepted(network, made[0], sizes) else None


def _measured(network: Network, way: Callable[[], tuple[Measured, ...]], distances: bool) -> tuple[Measured, ...]:
    """`distances`: in place of counters of turns as well."""
    made = way()
    if not distances:
        return made
    further = with_distances(replace(network, processes=tuple([one.process for one in made])))
    blocks = with_blocks([one.process for one in further])
    return tuple(
        [
            replace(last, meant=(*one.meant, *each.meant, *last.meant), held=one.held, stages=one.stages, numbers=one.numbers)
            for one, each, last in zip(made, further, blocks, strict=True)
        ]
    )


def _accepted(network: Network, one: Restatement, sizes: System) -> bool:
    try:
        restated(network, [one], sizes)
    except Refused:
        return False
    return True


def _one_to_one(number: int, process: Process) -> Restatement:
    places = []
    for at, state in enumerate(process.states):
        onwards = [Onward(takes, edge.target, (), edge.requires) for takes, edge in enumerate(edges_of(state.action))]
        places.append(Place(at, (), _asked(state.action), tuple(onwards)))
    return Restatement(number, process.start, tuple(places))


def _asked(action: Action) -> Formula | None:
    return action.condition if isinstance(action, Test) else None


def _with(before: Process, number: int, made: Measured) -> Restatement | None:
    """The restatement with registers beside those that have other values now; None if one of these is unknown at times."""
    after, known = made.process, dict(made.meant)
    pairs = [
        (edge, other)
        for state, its in zip(before.states, after.states, strict=True)
        for edge, other in zip(edges_of(state.action), edges_of(its.action), strict=True)
    ]
    moved = _moved(pairs, known)
    if any(value is None for _, other in pairs for symbol, value in other.values if symbol in moved):
        return None
    names = {symbol: Symbol(f"{symbol.name}*") for symbol in moved}
    forms = {symbol: atom(name) for symbol, name in names.items()}
    known |= {name: (Compare("eq", add(atom(name), atom(symbol), -1)),) for symbol, name in names.items()}

    def added(edge: Edge) -> Edge:
        rows = [(names.get(symbol, symbol), value) for symbol, value in edge.values if symbol in names or symbol in known]
        values = tuple([(symbol, None if value is None else substitute(value, forms)) for symbol, value in rows])
        return Edge(edge.target, values, (), tuple([substituted(one, forms) for one in edge.requires]))

    states = []
    for state in after.states:
        action = with_edges(state.action, added)
        if isinstance(action, Test):
            action = Test(substituted(action.condition, forms), action.yes, action.no)
        states.append(replace(state, action=action))
    other = replace(after, states=tuple(states))
    places, held = [], dict(made.held)
    for at, (state, assigned) in enumerate(zip(states, assigned_in(other), strict=True)):
        facts = [fact for symbol in known if symbol in assigned and at in held.get(symbol, (at,)) for fact in known[symbol]]
        onwards = [
            Onward(
                takes, edge.target, tuple([(symbol, value) for symbol, value in edge.values if value is not None]), edge.requires
            )
            for takes, edge in enumerate(edges_of(state.action))
        ]
        places.append(Place(at, tuple(dict.fromkeys(facts)), _asked(state.action), tuple(onwards)))
    return Restatement(number, before.start, tuple(_staged(places, made, known)))


def _staged(places: list[Place], made: Measured, known: Mapping[Symbol, tuple[Formula, ...]]) -> list[Place]:
    """With further places on the way to those where registers have been given a value, at which more and more is known of these."""
    found = list(places)
    begun: dict[tuple[int, frozenset[Symbol]], int] = {}

    def way(target: int, given: frozenset[Symbol]) -> int:
        """The first of the places on the way."""
        known_later = {fact for symbol in given for fact in known[symbol]}
        others = [fact for fact in places[target].facts if fact not in known_later]
        first = len(found)
        for stage in made.stages:
            facts = [fact for fact in stage if not symbols_in(fact).isdisjoint(given)]
            last = stage is made.stages[-1]
            onward = Onward(None, target if last else len(found) + 1)
            found.append(Place(places[target].state, tuple(dict.fromkeys((*others, *facts))), TRUE, (onward, onward)))
        return first

    for at, place in enumerate(places) if made.stages else ():
        onwards = []
        for onward in place.onwards:
            given = frozenset(symbol for symbol, _ in onward.values) & {symbol for symbol, _ in made.held}
            if given:
                key = onward.target, given
                if key not in begun:
                    begun[key] = way(*key)
                onward = replace(onward, target=begun[key])
            onwards.append(onward)
        found[at] = replace(place, onwards=tuple(onwards))
    return found


def _moved(pairs: Sequence[tuple[Edge, Edge]], known: Mapping[Symbol, object]) -> dict[Symbol, None]:
    """The registers that are given other values than before, or values that are made of such registers."""
    moved = {
        symbol: None
        for edge, other in pairs
        for symbol, value in other.values
        if symbol not in known and value != dict(edge.values).get(symbol)
    }
    size = -1
    while size < len(moved):
        size = len(moved)
        for _, other in pairs:
            for symbol, value in other.values:
                if symbol not in known and value is not None and not symbols_of(value).isdisjoint(moved):
                    moved[symbol] = None
    return moved


def _alive(process: Process, registers: frozenset[Symbol]) -> Process:
    """The process without values on which nothing depends."""
    live = live_in(process, registers)

    def kept(edge: Edge) -> Edge:
        return replace(edge, values=tuple([row for row in edge.values if row[0] in live[edge.target]]))

    states = [
        replace(state, action=with_edges(state.action, kept), live=tuple(sorted(alive, key=lambda one: one.name)))
        for state, alive in zip(process.states, live, strict=True)
    ]
    return replace(process, states=tuple(states))
