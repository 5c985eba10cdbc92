"""Two accesses to global memory in the terms of both: where can they touch the same element?

The first keeps its terms, and whatever may be another value for the second is a leaf of its own there. Counters are numbers of
iterations, from 0, times the step; the index of a block consists of its cluster's and its own in the cluster.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Literal

from pipec.isa.specials import AXES
from pipec.kir.global_memory.accesses import Access, commute
from pipec.kir.global_memory.equations import Fact, Facts, unwrapped
from pipec.kir.global_memory.paths import Known, conditions, turn_at
from pipec.kir.global_memory.shares import Share, share_of
from pipec.kir.ir import Kernel, Role
from pipec.kir.values.analysis import Count
from pipec.kir.values.reader import LARGEST, Loop
from pipec.record import record
from pipec.sema import tree
from pipec.terms.arithmetic import product, quotient, remainder
from pipec.terms.term import LAUNCH, Atom, Operator, Term, as_term, atom_of, leaf, number
from pipec.terms.walk import Substitution, leaves
from pipec.vocabulary import Axis

_MOST_PAIRS = 40  # of stores of a role, or of two
_TRIP, _POSITIVE, _OTHER = "trip", "positive", "other"
# A tile of the scheduler's: no two clusters get the same, and no cluster gets one twice. Equal in all roles.
_TILE_OF_CLUSTER = leaf(Operator.OBSERVED, "tile", least=0, largest=LARGEST)
_OF_GRID = ("grid", "clusters", "gpu")
_CONSTANT = frozenset((Operator.DIMENSION, Operator.PARAMETER, Operator.SPECIAL, Operator.ELEMENT))


class Workers:
    """The blocks of a grid: the leaves of which their indices consist, and what is known of them."""

    def __init__(self, kernel: Kernel) -> None:
        self.tops: dict[Term, tuple[Term, ...]] = {}
        self.wrapping = False  # whether a number of blocks may not fit in its register
        self.of: list[Term] = []
        self.positive: set[Atom] = set()  # sizes that are numbers of blocks: there is a block
        self._for: dict[str, Term] = {}
        for axis, extent, width in zip(AXES, kernel.grid, kernel.cluster.shape, strict=True):
            blocks = kernel.launch.term(extent)
            named = atom_of(blocks)
            if named is not None and named.operator in LAUNCH:
                self.positive.add(named)
            whole = quotient(unwrapped(blocks), number(width))
            self.wrapping = self.wrapping or (blocks is not unwrapped(blocks) and whole.least < 0)
            most = min(kernel.launch.special(f"grid.{axis}", 0).largest // width, whole.largest)
            several = leaf(Operator.SPECIAL, f"clusters.{axis}" if width > 1 else f"grid.{axis}", least=1, largest=max(most, 1))
            name = f"cluster.{axis}" if width > 1 else f"block.{axis}"
            here = leaf(Operator.SPECIAL, name, least=0, largest=max(most, 1) - 1)
            inside = leaf(Operator.SPECIAL, f"cta.{axis}", least=0, largest=width - 1)
            self._for |= {f"cluster.{axis}": here, f"block.{axis}": here * width + inside, f"cta.{axis}": inside}
            self._for |= {f"clusters.{axis}": several, f"grid.{axis}": several * width}
            self.of += [one for one in (here, inside) if one.number is None]
            if here.number is None:
                self.tops[here] = several - 1, whole - 1
        self.claimed = self._for["cluster.x"]
        x, y, z = (self._for[f"cta.{axis}"] for axis in AXES)
        width, height, _ = kernel.cluster.shape
        self.rank = x + y * width + z * (width * height)

    def alone(self, axis: Axis) -> Term | None:
        """The index of a block along an axis; None in clusters, where it consists of two."""
        return self._for[f"block.{axis}"] if self.rank.number == 0 else None

    def __getitem__(self, atom: Atom) -> Term | None:
        return self._for.get(str(atom.operands[0])) if atom.operator is Operator.SPECIAL else None


class Terms:
    """The terms of a role, for accesses to one tensor: an element of it exists, so its sizes are at least 1. `least`: sizes and parameters
    that are known to be at least some number."""

    def __init__(
        self, role: Role, tensor: tree.TensorParameter | None, workers: Workers, least: Mapping[Atom, int] = MappingProxyType({})
    ) -> None:
        self._values, self._workers, self._at_least = role.values, workers, least
        self._sizes = frozenset(size for size in tensor.shape if isinstance(size, str)) if tensor is not None else frozenset()
        self.tops: dict[Term, tuple[Term, ...]] = {}
        self.wraps: set[Term] = set()  # trips of loops whose counter might wrap
        self.shares: dict[Share, Term] = {}  # what loops over a share of a block's count
        self._known: dict[Atom, Term | None] = {}
        self._trips: dict[Atom, Term] = {}
        self.of = Substitution(self._leaf)
        for here, tops in workers.tops.items():
            if here.number is None:
                self.tops[here] = tuple(map(self.of, tops))

    def _leaf(self, atom: Atom) -> Term | None:
        if atom not in self._known:
            self._known[atom] = self._found(atom)
        return self._known[atom]

    def _found(self, atom: Atom) -> Term | None:
        match atom.operator:
            case Operator.SPECIAL:
                return self._workers[atom]
            case Operator.DIMENSION | Operator.PARAMETER if atom.operands[0] in self._sizes or atom in self._workers.positive:
                return leaf(Operator.OBSERVED, atom, _POSITIVE, least=1, largest=atom.largest)
            case Operator.DIMENSION | Operator.PARAMETER if atom in self._at_least:
                return leaf(Operator.OBSERVED, atom, _POSITIVE, least=self._at_least[atom], largest=atom.largest)
            case Operator.COUNTER if atom in self._values.counts:
                return self._counted(atom, self._values.counts[atom])
            case Operator.LOOP_CARRIED:
                return self._carried(atom)
            case _:
                return None

    def _counted(self, atom: Atom, count: Count) -> Term:
        start, stop, step = self.of(count.start), self.of(count.stop), count.step
        ahead = stop - 1 - start if step > 0 else start - stop - 1
        trip = self._trips[atom] = _trip(atom, quotient(ahead, number(abs(step))).largest)
        if trip.number is None:
            self.tops[trip] = (quotient(ahead, number(abs(step))),)
            if count.wraps:
                self.wraps.add(trip)
        found = start + trip * step
        share = share_of(count)
        if share is not None:
            self.shares[share] = found
        if trip.number is None:  # else it is `start`, which outside of the loop may be beyond `stop`
            self.tops[found] = (stop - 1,) if step > 0 else (start,)
        return found

    def _carried(self, atom: Atom) -> Term | None:
        loop, key = atom.operands
        if isinstance(loop, tree.While) and loop.tile is key:
            self.tops[_TILE_OF_CLUSTER] = self.tops[self._workers.claimed]
            return _TILE_OF_CLUSTER
        row = self._values.recurrences.get(atom)
        if row is None:
            return None
        step = unwrapped(row.following) - as_term(atom)
        if not all(one.operator in _CONSTANT for one in leaves(step)):
            return None
        trip = self._trip(row.loop)
        if row.following - as_term(atom) is not step:
            self.wraps.add(trip)
        return self.of(row.initial) + product(trip, self.of(step))

    def above(self, known: Known) -> list[tuple[Term, tuple[Term, ...]]]:
        """Upper bounds that are known besides those of counters: also of the turns of loops that count down by hand, `while t > 0`."""
        signs = [(as_term(atom), sign + as_term(atom)) for sign in known.signs for atom, factor in sign.parts if factor == -1]
        turns = [
            (as_term(atom), quotient(sign - as_term(atom) * factor, number(-factor)))
            for sign in map(self.of, known.signs)
            for atom, factor in sign.parts
            if factor < 0 and atom.operator is Operator.OBSERVED
        ]
        return [*((self.of(low), (self.of(high),)) for low, high in signs), *((low, (high,)) for low, high in turns)]

    def iteration(self, loop: Loop) -> Term:
        """What differs between the iterations of a loop."""
        return _TILE_OF_CLUSTER if isinstance(loop, tree.While) and loop.tile is not None else self._trip(loop)

    def _trip(self, loop: Loop) -> Term:
        counter = self._values.counters.get(loop)
        if counter is None or not counter.parts:
            return _trip(loop, LARGEST)
        self.of(counter)
        return self._trips[counter.parts[0][0]]


def _trip(of: Atom | Loop, largest: int) -> Term:
    return leaf(Operator.OBSERVED, of, _TRIP, least=0, largest=max(0, largest))


# ------------------------------------------------------------------------------------------------------------ two accesses


@record(eq=False)
class _Use:
    """An access of a role. `turn`: the one that the role holds until it is complete."""

    role: Role
    access: Access
    known: Known
    turn: tree.AwaitTurn | None
    leader: bool


Use = tuple[Role, Access]
# "fitting": shown, if the numbers that coordinates are computed from fit in their registers.
Answer = Literal["shown", "fitting", "open"]
_ANSWERS: tuple[Answer, ...] = ("shown", "fitting", "open")


def worst(answers: Iterable[Answer]) -> Answer:
    """What holds of all; nothing else is asked once one is open."""
    found: Answer = "shown"
    for one in answers:
        found = max(found, one, key=_ANSWERS.index)
        if found == "open":
            break
    return found


def all_apart(twice: "AccessPair", pairs: Iterable[tuple[Use, Use]]) -> Answer:
    """Whether all of these pairs of one block touch different elements, or their order does not matter."""
    met = list(islice(((one, two) for one, two in pairs if not commute(one[1], two[1])), _MOST_PAIRS + 1))
    return worst(twice.apart_in_block(one, two) for one, two in met) if len(met) <= _MOST_PAIRS else "open"


class AccessPair:
    """Pairs of accesses of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._terms: dict[tuple[str, str], Terms] = {}
        self._uses: dict[Access, _Use] = {}

    @cached_property
    def _workers(self) -> Workers:
        return Workers(self._kernel)

    def apart_in_blocks(self, one: Use, other: Use, *, bare: bool = False) -> Answer:
        """Whether two blocks touch different elements, or take turns. `bare`: wherever a role gets to the accesses."""
        return self._first(self._in_blocks, self._both(one, other, None, bare=bare))

    def _in_blocks(self, both: "_Both", wrapping: bool) -> Facts | None:
        facts = both.facts(wrapping)
        if both.same(facts, self._workers.of):
            return facts
        turn = both.one.turn
        if turn is None or turn is not both.other.turn:
            return None
        # Blocks with different turns of one counter are ordered, if each turn is one block's.
        values = both.one.role.values
        counter = [both.mine.of(values.of(one)) for one in turn.counter.coordinates]
        now = both.mine.of(values.of(turn.turn))
        if not both.same(facts, counter):
            return None
        alike = [Fact(one - both.view(one), 0, 0) for one in (*counter, now)]
        facts = both.facts(wrapping, *alike, meet=False)
        return facts if both.same(facts, self._workers.of) else None

    def apart_in_block(self, one: Use, other: Use) -> Answer:
        """Whether two accesses of one block touch different elements, in any iterations; of one access, in two different ones."""
        return self._first(self._in_block, self._both(one, other, self._workers.of))

    def _in_block(self, both: "_Both", wrapping: bool) -> Facts | None:
        facts, one = both.facts(wrapping), both.one
        loops = [loop.statement for loop in one.role.loops if one.access.block in loop.blocks]
        again = one.access is both.other.access and both.same(facts, map(both.mine.iteration, loops))
        return facts if facts.impossible or again else None

    def apart_in_other_iterations(self, one: Use, other: Use, loops: tuple[Loop, Loop]) -> Answer:
        """Whether two roles of one block touch the same element only in iterations of the same number of these loops, one of each."""
        both = self._both(one, other, self._workers.of)
        return self._first(lambda each, wrapping: _in_iterations(each, wrapping, loops), both)

    def _first(self, ask: Callable[["_Both", bool], Facts | None], both: "_Both") -> Answer:
        """What is shown without taking it for granted that numbers fit, or else with it."""
        facts = ask(both, False) or ask(both, True)
        return "open" if facts is None else "fitting" if facts.wrapping else "shown"

    def _both(self, one: Use, other: Use, fixed: Iterable[Term] | None, *, bare: bool = False) -> "_Both":
        here, there = (_Use(*use, Known((), ()), None, False) if bare else self._use(*use) for use in (one, other))
        mine, theirs = (self._of(use) for use in (here, there))
        return _Both(here, there, mine, theirs, self._workers, frozenset(part for term in fixed or () for part, _ in term.parts))

    def _use(self, role: Role, access: Access) -> _Use:
        if access not in self._uses:
            # A copy into shared memory may still be reading when its role passes the turn on.
            turn = turn_at(role, access) if access.handle is None else None
            self._uses[access] = _Use(role, access, conditions(role, access.block), turn, role.leader)
        return self._uses[access]

    def _of(self, use: _Use) -> Terms:
        key = use.role.name, use.access.tensor
        if key not in self._terms:
            self._terms[key] = Terms(use.role, use.access.where.tensor, self._workers)
        return self._terms[key]


def _in_iterations(both: "_Both", wrapping: bool, loops: tuple[Loop, Loop]) -> Facts | None:
    facts, (here, there) = both.facts(wrapping), loops
    alike = facts.same(both.mine.iteration(here), both.view(both.theirs.iteration(there)))
    return facts if facts.impossible or alike else None


@record(eq=False, caches=True)
class _Both:
    one: _Use
    other: _Use
    mine: Terms
    theirs: Terms
    workers: Workers
    fixed: frozenset[Atom]

    @cached_property
    def view(self) -> Substitution:
        """A term of the first as one of the second."""
        return Substitution(self._other)

    def _other(self, atom: Atom) -> Term | None:
        alike = (
            atom in self.fixed
            or atom.operator in (Operator.DIMENSION, Operator.PARAMETER, Operator.ELEMENT)
            or (atom.operator is Operator.SPECIAL and str(atom.operands[0]).startswith(_OF_GRID))
            or (atom.operator is Operator.OBSERVED and atom.operands[-1] is _POSITIVE)
        )
        return None if alike else leaf(Operator.OBSERVED, atom, _OTHER, least=atom.least, largest=atom.largest)

    def same(self, facts: Facts, terms: Iterable[Term]) -> bool:
        """Whether terms are equal for both, wherever they meet."""
        return facts.impossible or all(facts.same(term, self.view(term)) for term in terms)

    def _meeting(self) -> Iterator[Fact]:
        corners = zip(self.one.access.place.corner, self.other.access.place.corner, strict=True)
        extents = zip(self.one.access.place.extent, self.other.access.place.extent, strict=True)
        for (here, there), (m, n) in zip(corners, extents, strict=True):
            if m is not None and n is not None:
                yield Fact(self.mine.of(here) - self.view(self.theirs.of(there)), 1 - m, n - 1, True)

    def facts(self, wrapping: bool, *more: Fact, meet: bool = True) -> Facts:
        """`meet`: they touch the same element."""
        view = self.view
        found = [*more, *(self._meeting() if meet else ())]
        tops: dict[Term, tuple[Term, ...]] = {}
        for use, terms, seen in ((self.one, self.mine, lambda term: term), (self.other, self.theirs, view)):
            found += (Fact(seen(terms.of(zero)), 0, 0) for zero in use.known.zeros)
            if use.leader:
                found.append(Fact(seen(remainder(self.workers.rank, number(2))), 0, 0))
            for term, highs in (*terms.tops.items(), *terms.above(use.known)):
                tops[seen(term)] = *tops.get(seen(term), ()), *map(seen, highs)
        tile, claimed = _TILE_OF_CLUSTER, self.workers.claimed
        implied = [(tile - view(tile), (claimed - view(claimed),)), *self._shares(wrapping)]
        facts = Facts(found, tops, implied, wrapping=wrapping)
        facts.wrapping = facts.wrapping or self.workers.wrapping or bool(self.mine.wraps | self.theirs.wraps)
        return facts

    def _shares(self, wrapping: bool) -> Iterator[tuple[Term, tuple[Term, ...]]]:
        """Of a number of a block's share, and that block."""
        for share, counted in self.mine.shares.items():
            here, there = self.workers.alone(share.axis), self.theirs.shares.get(share)
            if here is not None and there is not None and (wrapping or not share.wraps):
                yield counted - self.view(there), (here - self.view(here),)
