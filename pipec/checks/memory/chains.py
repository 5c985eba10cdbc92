"""Which hand-overs order two accesses in loops of two roles, through any other roles that have loops with as many stages to a turn.

An event is what a role does once in each iteration of a loop: it waits for a stage, or signals one. How many iterations later than an
access an event is sure to come after it (0: in that of the same number) is passed on from a signal to the waits for it, and within a role
from a wait to the signals behind it. Where neither access is known to come first, their tiles must be disjoint.

Iterations need not be equally many: whoever has waited for a stage knows that it was signalled, and that is what its number says.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property, partial

from pipec.checks.memory.hand_overs import HandOvers, Position, Use, equal_bounds
from pipec.checks.memory.lags import Lag, lag
from pipec.kir import ir
from pipec.kir.clusters import EVERY, OWN
from pipec.kir.global_memory.access_pairs import AccessPair
from pipec.kir.global_memory.accesses import Access
from pipec.kir.global_memory.iterations import (
    apart_at_distances,
    beyond_at_distances,
    ends_of,
    meet_now,
    numbered_by_turns,
)
from pipec.kir.global_memory.places import TileBox, renamed
from pipec.kir.plan.types import Plan
from pipec.kir.values.reader import Loop
from pipec.record import record, replace
from pipec.sema import tree
from pipec.terms.arithmetic import remainder
from pipec.terms.term import Atom, Term, number
from pipec.vocabulary import OTHER_SIDE, SIDES, Side

_FARTHEST = 64  # iterations: what is known only later than that is of no use
_Half = tuple[tree.Pipeline, Side]
_Compared = tuple[TileBox, TileBox, Mapping[Loop, int | None]]


@record(eq=False)
class _Nest:
    """Loops of a role within each other, which it goes through whenever it runs. Its iterations are those of the innermost loop, all of
    them counted."""

    role: HandOvers
    loops: tuple[ir.Loop, ...]

    @property
    def header(self) -> Position:
        return self.loops[-1].header, 0

    def holds(self, access: Access) -> bool:
        return access.block in self.loops[-1].blocks and all(access.block != loop.header for loop in self.loops)

    def once(self, position: Position) -> bool:
        """Whether the role gets there exactly once in each iteration."""
        return self.role.loops(position[0]) == self.loops and self.role.once_each_time(position[0])

    def first(self, one: Position, other: Position) -> bool:
        """Whether in each iteration the first position comes before the second one, or is it."""
        return one == other or self.role.dominates(one, other)


@record(eq=False)
class _Turns:
    """The stages of one side of a pipeline that a role obtains: `before` its loops so many, and then these in each iteration; with a `lag`
    one, and in some iterations only. Its number is then no larger than if it were obtained in each from the first one on: a stage of a
    given number is signalled in that iteration, or later."""

    nest: _Nest
    half: _Half
    before: int
    acquires: tuple[tuple[Position, tree.Handle], ...]
    lag: Lag | None = None

    @property
    def ahead(self) -> int:
        """What is added to an iteration's number to get that of its first stage, or of as many stages as there are in each."""
        return self.before - (self.lag.first if self.lag is not None else 0)

    def signals(self, number: int) -> list[Position]:
        return self.nest.role.signals(self.half, self.acquires[number][1])


@record(eq=False)
class _Edge:
    """The signal of acquire `number` of `turns` comes before the wait of the iteration that is `later` by so many."""

    turns: _Turns
    number: int
    nest: _Nest
    wait: Position
    later: int
    first: int = 0  # the iteration before which the wait does not occur


class Chains:
    """Queries about the hand-overs of one kernel."""

    def __init__(self, roles: Mapping[str, HandOvers], plan: Plan) -> None:
        self._roles, self._plan = roles, plan

    def order(self, one: Use, other: Use) -> bool:
        """Whether the accesses never touch the same elements without an order."""
        return any(self._ordered_in(mine, one[1], their, other[1]) for mine in self._around(one) for their in self._around(other))

    def _around(self, use: Use) -> Iterator[_Nest]:
        name, access = use
        yield from (one for one in self._nests if one.role is self._roles[name] and one.holds(access))

    def _ordered_in(self, mine: _Nest, one: Access, their: _Nest, other: Access) -> bool:
        forth = _known_after(self._edges, mine, one, their, other)
        back = _known_after(self._edges, their, other, mine, one)
        if forth is None and back is None:
            return False
        # By how many iterations the second access may be later than the first if neither is known to come first.
        least, most = None if back is None else 1 - back, None if forth is None else forth - 1
        if least is not None and most is not None and least > most:
            return True
        if one.anywhere or other.anywhere:
            return False
        return (
            any(apart_at_distances(*places, least, most) for places in self._comparable(mine, one.place, their, other.place))
            or self._beyond(mine, one, their, other, least, most)
            or (not meet_now(least, most) and self._determined(mine, one, their, other))
        )

    def _beyond(self, mine: _Nest, one: Access, their: _Nest, other: Access, least: int | None, most: int | None) -> bool:
        """Whether all tiles that one role touches in an iteration, by loops inside it, too, are above those of the other role, or below."""
        (low, high), (other_low, other_high) = _reached(mine, one), _reached(their, other)
        return any(
            beyond_at_distances(*places, least, most, above=above)
            for here, there, above in ((low, other_high, True), (high, other_low, False))
            for places in self._comparable(mine, here, their, there)
        )

    def _determined(self, mine: _Nest, one: Access, their: _Nest, other: Access) -> bool:
        """Whether what they touch says in which iteration: the tiles that a scheduler hands out, say, in whatever order."""
        if len(mine.loops) > 1 or len(their.loops) > 1:
            return False
        uses, loops = ((mine.role.role, one), (their.role.role, other)), (mine.loops[0].statement, their.loops[0].statement)
        return self._pairs.apart_in_other_iterations(*uses, loops) == "shown"

    @cached_property
    def _pairs(self) -> AccessPair:
        return AccessPair(self._plan.kernel)

    @cached_property
    def _nests(self) -> list[_Nest]:
        return [
            _Nest(role, role.loops(loop.header))
            for role in self._roles.values()
            for loop in role.role.loops
            if role.once_each_time(loop.header)
        ]

    # -------------------------------------------------------------------------------------------------- who tells whom

    @cached_property
    def _followed(self) -> list[_Turns]:
        return [turns for nest in self._nests for half in nest.role.sides() if (turns := self._turns(nest, half)) is not None]

    @cached_property
    def _edges(self) -> list[_Edge]:
        found = self._followed
        edges: list[_Edge] = []
        for turns in found:
            pipeline, side = turns.half
            for other in found:
                if other.half == (pipeline, OTHER_SIDE[side]) and len(other.acquires) == len(turns.acquires):
                    edges += _waits(turns, other)
                    edges += _drains(turns, other) if side == "producer" else ()
        return edges

    # -------------------------------------------------------------------------------------------------- what is compared

    def _comparable(self, mine: _Nest, one: TileBox, their: _Nest, other: TileBox) -> Iterator[_Compared]:
        """Two places in terms of the same counters, and the loops that these count, with their steps."""
        counters = _counters(mine, their)
        if counters is not None:
            place = replace(one, corner=tuple(renamed(term, counters) for term in one.corner))
            yield place, other, {loop.statement: loop.step for loop in their.loops}
        if len(mine.loops) == len(their.loops) == 1:
            turns = their.loops[0].statement
            here, there = (
                numbered_by_turns(place, nest.loops[0].statement, nest.role.role.values, turns, partial(self._slot, nest))
                for nest, place in ((mine, one), (their, other))
            )
            yield here, there, {turns: 1}

    def _slot(self, nest: _Nest, atom: Atom, iteration: Term) -> Term | None:
        """The number of a stage that is obtained in each iteration, such as `s.index()`."""
        read = atom.operands[0]
        if not isinstance(read, tree.StageIndex):
            return None
        for turns in self._followed:
            handles = [handle for _, handle in turns.acquires]
            if turns.nest is nest and turns.lag is None and read.handle in handles:
                taken = iteration * len(handles) + turns.before + handles.index(read.handle)
                return remainder(taken, number(turns.half[0].stages))
        return None

    def _turns(self, nest: _Nest, half: _Half) -> _Turns | None:
        """None unless the numbers of the stages follow from that of the iteration."""
        pipeline, role = half[0], nest.role
        reach = self._plan.sharing[pipeline]
        if not {reach.producer.to, reach.consumer.to} <= {OWN, EVERY} or role.moves(pipeline):
            return None
        if any(pipeline in one.in_turn or pipeline.sub_stages(of) > 1 for one in self._roles.values() for of in SIDES):
            return None
        before, inside = 0, []
        lags: list[Lag] = []
        for position, acquire in role.obtained(half):
            once = nest.once(position)
            late = lag(role, nest.loops[0], position[0]) if not once and len(nest.loops) == 1 else None
            if once or late is not None:
                inside.append((position, acquire.handle))
                lags += [] if late is None else [late]
            elif role.loops(position[0]) or not (role.once_each_time(position[0]) and role.leads(position, nest.header)):
                return None
            else:
                before += 1
        inside.sort(key=lambda one: one[0])
        if not inside or (lags and len(inside) > 1):
            return None
        return _Turns(nest, half, before, tuple(inside), lags[0] if lags else None)


def _reached(nest: _Nest, access: Access) -> tuple[TileBox, TileBox]:
    """The lowest and the highest tile of an iteration."""
    return ends_of(access.place, nest.role.role.values, [loop.statement for loop in nest.loops])


def _waits(turns: _Turns, other: _Turns) -> Iterator[_Edge]:
    """Whoever obtains a stage waits for the other side's signal of that use, or of the one that had the slot before."""
    pipeline, side = turns.half
    earlier = pipeline.stages if side == "producer" else 0
    late = turns.lag
    if late is not None and not late.always:
        return
    for place, (position, _) in enumerate(turns.acquires):
        sooner, number = divmod(turns.ahead + place - earlier - other.ahead, len(other.acquires))
        if sooner <= 0:
            here, first = (position, 0) if late is None else (late.behind, late.first)
            yield _Edge(other, number, turns.nest, here, -sooner, first)


def _drains(turns: _Turns, other: _Turns) -> Iterator[_Edge]:
    """Whoever drains a pipeline waits for the signals of all stages that it has filled so far."""
    nest = turns.nest
    if turns.lag is not None or other.lag is not None:
        return
    for position in nest.role.drained(turns.half[0]):
        if not nest.once(position):
            continue
        for signalled in range(len(other.acquires)):
            later, place = divmod(other.before + signalled - turns.before, len(turns.acquires))
            later += not nest.first(turns.acquires[place][0], position)
            if later >= 0:
                yield _Edge(other, signalled, nest, position, later)


def _known_after(edges: list[_Edge], mine: _Nest, one: Access, their: _Nest, other: Access) -> int | None:
    """From how many iterations later on the second access is sure to come after the first one; None if that is not known."""
    known: dict[tuple[_Nest, Position], int] = {}
    changed = True
    while changed:
        changed = False
        for edge in edges:
            told, here = _told(edge, mine, one, known), (edge.nest, edge.wait)
            if told is not None and max(told + edge.later, edge.first) < known.get(here, _FARTHEST):
                known[here], changed = max(told + edge.later, edge.first), True
    at = other.block, other.site
    return min((later + (not their.first(wait, at)) for (nest, wait), later in known.items() if nest is their), default=None)


def _told(edge: _Edge, mine: _Nest, access: Access, known: Mapping[tuple[_Nest, Position], int]) -> int | None:
    """From how many iterations later on the signal is sure to come after the access, and to say so."""
    turns, nest = edge.turns, edge.turns.nest
    found: list[int] = []
    if access.handle is not None and turns.acquires[edge.number][1] is access.handle:
        found.append(0)  # a copy completes on the barrier of its own stage
    if nest.role.speaks(turns.half):
        signals, at = turns.signals(edge.number), (access.block, access.site)
        if access.handle is None and nest is mine:
            found.append(int(any(nest.role.leads(one, at, around=nest.header) for one in signals)))
        found += [
            later + (not all(nest.first(wait, one) for one in signals)) for (of, wait), later in known.items() if of is nest
        ]
    return min(found, default=None)


def _counters(mine: _Nest, their: _Nest) -> dict[Loop, Term] | None:
    """If both have the same bounds: the counters of the other's loops, keyed by those of the first."""
    if len(mine.loops) != len(their.loops):
        return None
    counters: dict[Loop, Term] = {}
    for one, other in zip(mine.loops, their.loops, strict=True):
        counter = their.role.role.values.counters.get(other.statement)
        if counter is None or not equal_bounds(mine.role, one, their.role, other, counters):
            return None
        counters[one.statement] = counter
    return counters
