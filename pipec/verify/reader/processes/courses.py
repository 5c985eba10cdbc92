"""Turns in loops and under conditions: the blocks that share counters go the same ways, and come to each counter once at most.

What a thread does with turns is an automaton of tests and assignments. If these are made of what is the same in all blocks that share
counters, the blocks come to the same counters in the same order, however often a loop runs; and if the place of the counter only ever
grows, or only falls, none of them comes to a counter twice. Both are shown by induction over the ways between states.
"""

from collections.abc import Collection, Iterator, Mapping

from pipec.record import record
from pipec.verify.logic import System
from pipec.verify.network import Unreadable
from pipec.verify.reader.processes.states import Node, Transition
from pipec.verify.reader.processes.walk import Walk
from pipec.verify.reader.text.interface import facts_of
from pipec.verify.reader.values.parameters import in_ranges
from pipec.verify.reader.values.surroundings import Surroundings
from pipec.verify.terms import Both, Compare, Formula, Linear, Symbol, add, atom, negate, substituted, symbols_in, symbols_of

_LAST = Symbol("the last place of a counter")
_FAR = 1 << 40  # from any place
_MOST_FACTS = 80  # that are tried at each state


@record
class Way:
    """An edge between states from which a turn is still reached. `source`: None at the start; `when` holds on it."""

    source: int | None
    edge: Transition
    when: tuple[Formula, ...]


@record
class Place:
    """The place of a counter among those to which a block comes: how far behind `rest` in bytes, or times `stride`. `needs`: what must hold
    there for `index` to be that."""

    rest: Linear
    stride: Linear | None
    index: Linear
    needs: tuple[Formula, ...]


class Course:
    """What a thread does up to its last turn. `turns`: the states in which it waits for one or passes one on. Raises Unreadable unless all
    blocks that share its counters, those along `axes` of the grid, do the same."""

    def __init__(self, around: Surroundings, walk: Walk, turns: Collection[int], axes: str) -> None:
        self.around, self.nodes = around, walk.nodes
        self.facts = facts_of(around.interface, around.kernel.parameters)
        leading = _leading(walk.nodes, turns)
        self.ways = tuple(way for way in _ways(walk, leading) if way.edge.target in leading)
        self.registers = frozenset(symbol for way in self.ways for symbol, _ in way.edge.values)
        self.tests = [node.condition for node in map(walk.nodes.__getitem__, leading) if node.condition is not None]
        used = {symbol for one in self.tests for symbol in symbols_in(one)}
        used |= {symbol for way in self.ways for _, form in way.edge.values if form is not None for symbol in symbols_of(form)}
        unknown = any(form is None for way in self.ways for _, form in way.edge.values)
        if unknown or not all(one in self.registers or is_shared(around, one, axes) for one in used):
            raise Unreadable(walk.nodes[min(turns)].line, "whether a turn is taken depends on the block, or on what it has read")

    def is_dealt_out(self, place: Linear, axis: str) -> bool:
        """Whether the place differs in blocks at different places along the axis: a register that begins at the block's place, and moves on
        by the number of blocks, or a multiple of it."""
        moving = [symbol for symbol in symbols_of(place) if symbol in self.registers]
        made = [form for way in self.ways for symbol, form in way.edge.values if [symbol] == moving and form is not None]
        steps = [add(form, atom(moving[0]), -1) for form in made if moving[0] in symbols_of(form)]
        starts = {form for form in made if moving[0] not in symbols_of(form)}
        return starts == {atom(Symbol(f"%ctaid.{axis}"))} and all(self._is_round(step, axis) for step in steps)

    def _is_round(self, step: Linear, axis: str) -> bool:
        """Whether it is a multiple of the number of blocks along the axis."""
        blocks = self.around.interface.launch["xyz".index(axis)]
        if blocks is not None and not blocks.terms and not step.terms:
            return step.constant % blocks.constant == 0
        return not step.constant and [one for one, _ in step.terms] == [Symbol(f"%nctaid.{axis}")]

    def check_once(self, places: Mapping[int, Place]) -> None:
        """Whether the place of the counter only grows from one wait to the next, or only falls. `places`: by state that waits."""
        if not any(self._is_monotone(places, grows=grows) for grows in (True, False)):
            raise Unreadable(self.nodes[min(places)].line, "a block may come to a counter twice")

    def _is_monotone(self, places: Mapping[int, Place], *, grows: bool) -> bool:
        """Also whether the arithmetic on the way is what its formulas say."""
        before = Linear(-_FAR if grows else _FAR)
        candidates = [*self._candidates(), _behind(before, 0, grows=grows)]
        for place in places.values():
            candidates += [_behind(place.index, 0, grows=grows), _behind(place.index, 1, grows=grows), *place.needs]
        holding = {number: candidates for way in self.ways for number in [way.edge.target]}
        shrunk = True
        while shrunk:
            shrunk = False
            for way in self.ways:
                known = self._known(way, holding)
                meaning = self._meaning(way, places, before)
                target = way.edge.target
                kept = [one for one in holding[target] if known.entails(substituted(one, meaning))]
                if len(kept) < len(holding[target]):
                    holding[target], shrunk = kept, True
        exact = all(self._known(way, holding).entails(one) for way in self.ways for one in way.edge.requires)
        return exact and all(
            {_behind(place.index, 1, grows=grows), *place.needs} <= {*holding[number]} for number, place in places.items()
        )

    def _known(self, way: Way, holding: Mapping[int, list[Formula]]) -> System:
        before = [] if way.source is None else holding[way.source]
        symbols = {symbol for one in (*before, *way.when, *way.edge.requires) for symbol in symbols_in(one)}
        symbols |= {symbol for _, form in way.edge.values if form is not None for symbol in symbols_of(form)}
        return System(
            [
                *self.facts,
                *in_ranges(self.around.arithmetic.ranges, sorted(symbols, key=lambda one: one.name)),
                *before,
                *way.when,
            ]
        )

    @staticmethod
    def _meaning(way: Way, places: Mapping[int, Place], before: Linear) -> dict[Symbol, Linear]:
        """What the way makes of each register. `before`: the last place where there is none yet."""
        found = {symbol: form for symbol, form in way.edge.values if form is not None}
        if way.source is None:
            found[_LAST] = before
        elif way.source in places:
            found[_LAST] = places[way.source].index
        return found

    def _candidates(self) -> list[Formula]:
        """What may hold of the registers: where they begin and how far they come, by the tests, also one step before and behind each."""
        steps: dict[Symbol, set[Linear]] = {}
        found: dict[Formula, None] = {}
        for way in self.ways:
            for symbol, form in way.edge.values:
                if form is None:
                    continue
                step = add(form, atom(symbol), -1)
                if symbol in symbols_of(form):
                    steps.setdefault(symbol, set()).add(step)
                elif self.registers.isdisjoint(symbols_of(form)):
                    found |= {Compare("ge", step): None, Compare("ge", add(Linear(0), step, -1)): None}
        moved = [
            {},
            *({symbol: add(atom(symbol), step, sign)} for symbol, each in steps.items() for step in each for sign in (-1, 1)),
        ]
        for test in self.tests:
            for one in (*_parts(test), *_parts(negate(test))):
                found |= {changed: None for meaning in moved if isinstance(changed := substituted(one, meaning), Compare)}
        return [*found][:_MOST_FACTS]


def _leading(nodes: list[Node], turns: Collection[int]) -> frozenset[int]:
    """The states from which one of these is reached."""
    before: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for way in node.edges:
            before.setdefault(way.target, []).append(number)
    seen, work = set(turns), [*turns]
    while work:
        fresh = set(before.get(work.pop(), ())) - seen
        seen |= fresh
        work += fresh
    return frozenset(seen)


def _ways(walk: Walk, leading: frozenset[int]) -> Iterator[Way]:
    yield Way(None, walk.start, ())
    for number in sorted(leading):
        node = walk.nodes[number]
        if len(node.edges) == 1:
            yield Way(number, node.edges[0], ())
        elif node.condition is None or len(node.edges) != 2:
            raise Unreadable(node.line, "what decides whether a turn is taken is not understood")
        else:
            yield from (Way(number, node.edges[0], (node.condition,)), Way(number, node.edges[1], (negate(node.condition),)))


def _parts(formula: Formula) -> Iterator[Formula]:
    match formula:
        case Compare("ge", _):
            yield formula
        case Both(parts):
            for part in parts:
                yield from _parts(part)
        case _:
            pass


def _behind(place: Linear, least: int, *, grows: bool) -> Compare:
    """That a place is this far from the last one, upwards or downwards."""
    distance = add(place, atom(_LAST), -1)
    return Compare("ge", add(Linear(-least), distance, 1 if grows else -1))


def is_shared(around: Surroundings, symbol: Symbol, axes: str) -> bool:
    """Whether it is the same in all blocks along these axes of the grid: a parameter, a number of blocks, a place along another axis."""
    if symbol.name in around.kernel.parameters or symbol.name.startswith("%nctaid."):
        return True
    return symbol.name.startswith("%ctaid.") and symbol.name[-1] not in axes
