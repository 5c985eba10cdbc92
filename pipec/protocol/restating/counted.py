"""Loops over the blocks of a tile that count what is left of it, whatever the words.

Where a tile has n stages of a ring, n being a number of the tile (loaded.py), a role may take them one by one, two or four in a turn of its
loop with a rest behind it, in elements or in blocks, up or down. Here a register is added that is n where the tile begins and one less
behind each wait for the ring. Tests of the loops ask whether that many are left, and in front of each wait, and where a tile ends, it is
asked whether one is: so all roles ask the same. Which number n is, and what is known of the register at each place, is seen in runs of the
process alone, with numbers drawn for those of the tile; what then does not follow from place to place is dropped, and a test that does not
mean the same stays as it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import gcd

from pipec.protocol.forms.extents import FAR, Between
from pipec.protocol.restating.tile_runs import MOST_TURNS, Counted, Key, Seen, Visit, outcome_of, value_of
from pipec.record import mutable, replace
from pipec.verify.checker.certificate import Onward, Place, Restatement
from pipec.verify.checker.unknown import unknown
from pipec.verify.logic import System
from pipec.verify.network import Edge, Process, State, Test, Wait, edges_of
from pipec.verify.terms import (
    FALSE,
    TRUE,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    floor,
    negate,
    scale,
    substitute,
    substituted,
    symbols_in,
    symbols_of,
)

_FAR = 1 << 30


def counted(
    one: Restatement, process: Process, numbers: Sequence[Symbol], sizes: System, between: Between
) -> tuple[Restatement, Symbol] | None:
    """The restatement with such a register, not yet checked, and the register; None if its loops do not count to a number of the tile.
    `process`: as it is restated; `numbers`: its registers for numbers of the tile; `sizes`: what is known of sizes, `between` which numbers
    they lie."""
    seen = Seen(process, numbers, sizes, between)
    found = seen.counted(one.process)
    made = None if found is None else _Counting(one, process, sizes, seen, found).restatement()
    return None if made is None or found is None else (made, found.left)


@mutable
class _Asked:
    """How many must be left: then the edge `takes` is taken, and else the other one; None if it always is."""

    least: int | None
    takes: int


class _Counting:
    """Restates a process once more."""

    def __init__(self, one: Restatement, process: Process, sizes: System, seen: Seen, found: Counted) -> None:
        self.one, self.process, self.sizes, self.seen, self.found = one, process, sizes, seen, found
        self.counters = {symbol for visits in seen.visits.values() for symbol in visits[0].values}
        self.waiting = {at for at, state in enumerate(process.states) if self._is_wait(state)}
        self.left = atom(found.left)
        self.taken = add(found.number, self.left, -1)
        self.keys = self._reached()
        # (Nothing is known before the first tile; where no run comes, perhaps none can.)
        first = {*self._reached(tiles=False)}
        self.known: dict[Key, list[Formula]] = {
            key: [*self._facts(seen.visits[key])] if key in seen.visits else [] if key in first else [FALSE] for key in self.keys
        }
        self.asked: dict[Key, _Asked] = {}
        for key in [key for key in self.keys if key in seen.visits]:
            action = process.states[key[0]].action
            if isinstance(action, Test) and one.places[key[0]].onwards[0].takes is not None:
                asked = self._asks(key, action)
                if asked is not None:
                    self.asked[key] = asked

    def _reached(self, *, tiles: bool = True) -> list[Key]:
        """Where the process comes; `tiles`: also behind the beginning of a tile."""
        found: dict[Key, None] = {(self.one.start, None): None}
        work = [*found]
        while work:
            key = work.pop()
            for number, edge in enumerate(edges_of(self.process.states[key[0]].action)):
                then = self.seen.behind(key, number)
                if then not in found and (tiles or not self.seen.begin(edge)):
                    found[then] = None
                    work.append(then)
        return [*found]

    def _is_wait(self, state: State) -> bool:
        return isinstance(state.action, Wait) and not state.action.peeks and state.action.use.ring == self.found.ring

    def _left(self, visit: Visit) -> int:
        number = value_of(self.found.number, visit.values)
        assert number is not None
        return number - visit.taken.get(self.found.ring, 0)

    def _facts(self, visits: Sequence[Visit]) -> Iterator[Formula]:
        """What is true in all visits, and may follow."""
        left = [self._left(visit) for visit in visits]
        taken = [visit.taken.get(self.found.ring, 0) for visit in visits]
        yield from (*self.seen.walked, *self.seen.beyond)
        for symbol, (low, high) in self.seen.between.items():
            yield from [Compare("ge", add(atom(symbol), Linear(-low)))] if low > -FAR else []
            yield from [Compare("ge", add(Linear(high), atom(symbol), -1))] if high < FAR else []
        if len({*taken}) == 1:
            yield Compare("eq", add(self.taken, Linear(-taken[0])))
        else:
            yield Compare("ge", self.taken)
        if min(left) >= 0:
            yield Compare("ge", add(self.left, Linear(-min(left))))
        if max(left) < max((*self.seen.divisors, 2)):
            yield Compare("ge", add(Linear(max(left)), self.left, -1))
        counters = set[Symbol].intersection(*({*visit.values} for visit in visits)).difference(self.seen.numbers)
        for counter in sorted(counters, key=lambda each: each.name):
            values = [visit.values[counter] for visit in visits]
            if len({*values}) == 1:
                yield Compare("eq", add(atom(counter), Linear(-values[0])))
                continue
            for form, mine in ((self.taken, taken), (self.left, left)):
                if (made := _line(form, mine, atom(counter), values)) is not None:
                    yield made
                    break
        for divisor in self.seen.divisors:
            if divisor <= MOST_TURNS and len({each % divisor for each in taken}) == 1 and len({*taken}) > 1:
                rest = add(self.taken, Linear(-(taken[0] % divisor)))
                yield Compare("eq", add(rest, floor(rest, divisor), -divisor))

    def _asks(self, key: Key, action: Test) -> _Asked | None:
        """How many must be left for one outcome of a test, and not for the other."""
        told = [(self._left(visit), outcome_of(action.condition, visit.values)) for visit in self.seen.visits[key]]
        yes, no = ([left for left, outcome in told if outcome is each] for each in (True, False))
        if len(yes) + len(no) < len(told):
            return None
        if not yes or not no:
            takes, left = (0, yes) if yes else (1, no)
            if max(left) <= 0:
                return _Asked(1, 1 - takes)
            return _Asked(1 if min(left) >= 1 else None, takes)
        for takes, more, less in ((0, yes, no), (1, no, yes)):
            if min(more) > max(less):
                return _Asked(1 if max(less) < 1 <= min(more) else min(more), takes)
        return None

    def restatement(self) -> Restatement | None:
        self._follow()
        if not self.asked:
            return None
        return replace(self.one, places=tuple(self._places()), start=0)

    # ------------------------------------------------------------------------------------------------------------- what follows

    def _follow(self) -> None:
        """Drops what does not follow from place to place."""
        work = dict.fromkeys(self.keys)
        while work:
            key, _ = work.popitem()
            if key in self.asked and not self._means(key):
                del self.asked[key]
            for number, edge in enumerate(edges_of(self.process.states[key[0]].action)):
                then = self.seen.behind(key, number)
                facts = self.known.get(then, [])
                if not facts:
                    continue
                kept = [*self._following(key, number, edge, facts)]
                if len(kept) < len(facts):
                    self.known[then] = kept
                    work[then] = None
        for key in [key for key in self.asked if not self._means(key)]:
            del self.asked[key]

    def _having(self, key: Key, number: int) -> System:
        facts = [*self.known.get(key, ()), *self._answer(key, number)]
        begins = self.seen.begin(edges_of(self.process.states[key[0]].action)[number])
        return self.sizes.extended(facts) if begins else System(facts)

    def _answer(self, key: Key, number: int) -> Iterator[Formula]:
        action = self.process.states[key[0]].action
        if isinstance(action, Test):
            yield negate(action.condition) if number else action.condition
            if key in self.asked:
                yield self._question(self.asked[key], number)

    def _question(self, asked: _Asked, number: int) -> Formula:
        question = TRUE if asked.least is None else Compare("ge", add(self.left, Linear(-asked.least)))
        return question if asked.takes == number else negate(question)

    def _means(self, key: Key) -> bool:
        action = self.process.states[key[0]].action
        assert isinstance(action, Test)
        for number, meant in enumerate((action.condition, negate(action.condition))):
            if not System([*self.known[key], self._question(self.asked[key], number)]).entails(meant):
                return False
        return True

    def _following(self, key: Key, number: int, edge: Edge, facts: Sequence[Formula]) -> Iterator[Formula]:
        values = {symbol: unknown(place) if value is None else value for place, (symbol, value) in enumerate(edge.values)}
        if (now := self._begun(edge)) is not None:
            values[self.found.left] = now
        elif key[0] in self.waiting:
            values[self.found.left] = add(self.left, Linear(-1))
        before, having = set(self.known.get(key, ())), None
        for fact in facts:
            if fact in before and symbols_in(fact).isdisjoint(values):
                yield fact
                continue
            having = having or self._having(key, number)
            if having.entails(substituted(fact, values)):
                yield fact

    def _begun(self, edge: Edge) -> Linear | None:
        """What is left where a tile begins."""
        values = {symbol: value for symbol, value in edge.values if symbol in self.seen.numbers and value is not None}
        return substitute(self.found.number, values) if not symbols_of(self.found.number).isdisjoint(values) else None

    # ------------------------------------------------------------------------------------------------------------------- places

    def _places(self) -> Iterator[Place]:
        """By key, and what is known of whether one is left: None where it has not been asked since the last wait."""
        keys: list[tuple[Key, bool | None]] = [((self.one.start, None), None)]
        numbers = {keys[0]: 0}

        def place(key: Key, answer: bool | None) -> int:
            if (key, answer) not in numbers:
                numbers[key, answer] = len(keys)
                keys.append((key, answer))
            return numbers[key, answer]

        for key, answer in keys:
            before, state = self.one.places[key[0]], self.process.states[key[0]]
            facts = tuple(dict.fromkeys((*before.facts, *self.known.get(key, ()))))  # a certificate states each once
            waits = key[0] in self.waiting
            ends = key in self.seen.visits and any(map(self.seen.begin, edges_of(state.action)))
            if ends and answer is None:
                yield Place(
                    before.state, facts, self._one_left, (Onward(None, place(key, True)), Onward(None, place(key, False)))
                )
                continue
            if waits and answer is None:
                yield Place(before.state, facts, self._one_left, (Onward(None, place(key, True)),) * 2)
                continue
            asked = self.asked.get(key)
            onwards = []
            for number, (onward, edge) in enumerate(zip(before.onwards, edges_of(state.action), strict=True)):
                known, values = answer, onward.values
                if asked is not None and asked.least == 1:
                    known = asked.takes == number
                if (begun := self._begun(edge)) is not None:
                    known, values = None, (*values, (self.found.left, begun))
                elif waits:
                    known, values = None, (*values, (self.found.left, add(self.left, Linear(-1))))
                target = place(self.seen.behind(key, number), known)
                requires = tuple(dict.fromkeys(self._required(key, number, onward.requires)))
                onwards.append(replace(onward, target=target, values=values, requires=requires))
            if asked is None:
                yield Place(before.state, facts, before.asks, tuple(onwards))
                continue
            onwards = onwards if asked.takes == 0 else onwards[::-1]
            if asked.least is None:
                yield Place(before.state, facts, TRUE, (onwards[0],) * 2)
            elif asked.least == 1 and answer is not None:
                yield Place(before.state, facts, TRUE, (onwards[0 if answer else 1],) * 2)
            else:
                yield Place(before.state, facts, self._question(asked, asked.takes), tuple(onwards))

    @property
    def _one_left(self) -> Formula:
        return Compare("ge", add(self.left, Linear(-1)))

    def _required(self, key: Key, number: int, required: Iterable[Formula]) -> Iterator[Formula]:
        """What is required, if that does not follow here; of sizes, if a bound of the tile's number implies it."""
        having: System | None = None
        for one in required:
            if key in self.known:
                having = having or self.sizes.extended([*self.known[key], *self._answer(key, number)])
                if having.entails(one):
                    continue
                yield next((each for each in self._of_sizes(one) if having.extended([each]).entails(one)), one)
            else:
                yield one

    def _of_sizes(self, required: Formula) -> Iterator[Formula]:
        """Conditions on sizes that may imply it, the weakest ones first."""
        if isinstance(required, Compare) and required.form.constant > _FAR and not symbols_in(required).isdisjoint(self.counters):
            for bound in self.seen.bounds:
                for less in (0, *self.seen.divisors):
                    yield Compare("ge", add(Linear(required.form.constant - less), bound, -1))


def _line(form: Linear, mine: Sequence[int], other: Linear, values: Sequence[int]) -> Formula | None:
    """The equation between a form and a counter, if one is a line over the other."""
    apart = next(((a - mine[0], b - values[0]) for a, b in zip(mine, values, strict=True) if b != values[0]), None)
    if apart is None:
        return None
    up, across = apart
    if not up:
        return None
    common = gcd(up, across) if across > 0 else -gcd(up, across)
    up, across = up // common, across // common
    rests = {across * a - up * b for a, b in zip(mine, values, strict=True)}
    if len(rests) > 1:
        return None
    return Compare("eq", add(add(scale(form, across), scale(other, up), -1), Linear(-rests.pop())))
