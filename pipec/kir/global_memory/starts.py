"""The start coordinates of TMA stores: loads may start at negative coordinates and read zeros there, stores may not (hardware.md 2.4)."""

from collections.abc import Iterator

from pipec.kir.global_memory.access_pairs import Answer, Terms, Workers, worst
from pipec.kir.global_memory.accesses import BULK, Access, RoleAccesses
from pipec.kir.global_memory.ends import ends
from pipec.kir.global_memory.equations import Fact, Facts
from pipec.kir.global_memory.paths import Known, conditions
from pipec.kir.global_memory.places import TileBox
from pipec.kir.ir import Kernel, Role, run_once
from pipec.sema import tree
from pipec.terms.term import LAUNCH, Atom, Operator, Term, as_term
from pipec.terms.walk import leaves
from pipec.verify.terms import Both, Compare, Formula, Linear, Symbol, add, decided, number

_LARGEST = (1 << 31) - 1  # a coordinate is an i32
_FEW = (
    1 << 16
) - 2  # places along y and z in a grid of which the source does not say how many blocks it has; along x there are more


def may_be_in_front(rows: tuple[RoleAccesses, ...]) -> Iterator[tuple[Role, Access, int]]:
    """The stores that may start at a negative coordinate, with the axis."""
    for row in rows:
        for access in row.accesses:
            if access.writes and access.engine == BULK:
                place = access.place
                yield from (
                    (row.role, access, axis)
                    for axis, corner in enumerate(place.corner)
                    if corner.least < 0 or _comes_round(corner, place)
                )


def _comes_round(corner: Term, place: TileBox) -> bool:
    """Whether a coordinate that is never negative in exact arithmetic leaves the range of its register although all that it is made of
    has ends that the source states: it is negative there."""
    return corner.largest > _LARGEST and all(
        leaf in place.ranges or leaf.operator is Operator.SPECIAL and leaf.largest < _FEW for leaf in leaves(corner)
    )


def starts_in_range(rows: tuple[RoleAccesses, ...]) -> tuple[Formula, ...]:
    """Conditions that a launch must satisfy, for the stores that all blocks reach."""
    found = (form for role, access, axis in may_be_in_front(rows) for form in _within(role, access, axis) or ())
    return tuple(dict.fromkeys(decided(Compare("ge", form)) for form in found if form.terms))


def unstarted(rows: tuple[RoleAccesses, ...]) -> Iterator[tuple[Role, Access]]:
    """The stores whose start no launch checks."""
    yield from dict.fromkeys(
        (role, access)
        for role, access, axis in may_be_in_front(rows)
        if (found := _within(role, access, axis)) is None or any(not form.terms and form.constant < 0 for form in found)
    )


def starts_inside(kernel: Kernel, role: Role, access: Access) -> Answer:
    """Whether it is shown that a store starts at no negative coordinate."""
    if any(_comes_round(corner, access.place) for corner in access.place.corner):
        return "open"
    below = _LowerBounds(kernel, role, access)
    return worst(below.never_negative(corner) for corner in access.place.corner if corner.least < 0)


class _LowerBounds:
    """What is known of the numbers in the coordinates of a store, where its role gets to it."""

    def __init__(self, kernel: Kernel, role: Role, access: Access) -> None:
        self._workers, self._known = Workers(kernel), conditions(role, access)
        self._terms = Terms(role, None, self._workers, dict(_at_least(kernel, role, access, self._known)))

    def never_negative(self, corner: Term) -> Answer:
        terms = self._terms
        sought = terms.of(corner)
        zeros = [Fact(terms.of(zero), 0, 0) for zero in self._known.zeros]
        tops: dict[Term, tuple[Term, ...]] = {}
        for term, highs in (*terms.above(self._known), *terms.tops.items()):
            tops[term] = *tops.get(term, ()), *highs
        for wrapping in (False, True):
            facts = Facts(zeros, tops, wrapping=wrapping)
            if facts.never_negative(sought):
                fits = not (facts.wrapping or self._workers.wrapping or terms.wraps) and facts.most(sought) <= _LARGEST
                return "shown" if fits else "fitting"
        return "open"


def _at_least(kernel: Kernel, role: Role, access: Access, known: Known) -> Iterator[tuple[Atom, int]]:
    """Lower bounds of sizes and parameters: from conditions of the kernel, branches on the way to the store, and the loops around it,
    which have an iteration."""
    signs = list(known.signs)
    for loop in role.loops:
        counter = role.values.counters.get(loop.statement) if access.block in loop.blocks else None
        count = role.values.counts.get(counter.parts[0][0]) if counter is not None and counter.parts else None
        if count is not None:
            signs.append((count.stop - count.start if count.step > 0 else count.start - count.stop) - 1)
    stated = dict(_stated(Both(tuple(one.formula for one in kernel.assumptions))))
    found = {
        atom: stated.get(_name(atom), atom.least)
        for sign in (*access.place.corner, *signs)
        for atom in leaves(sign)
        if atom.operator in LAUNCH
    }
    for sign in signs:
        for atom, factor in sign.parts:
            if factor == 1 and atom in found:
                found[atom] = max(found[atom], -(sign - as_term(atom)).largest)
    return ((atom, least) for atom, least in found.items() if least > atom.least)


def _stated(condition: Formula) -> Iterator[tuple[str, int]]:
    match condition:
        case Compare("ge", Linear(constant, ((Symbol(name), 1),))):
            yield name, -constant
        case Both(parts):
            for part in parts:
                yield from _stated(part)
        case _:
            pass


def _name(atom: Atom) -> str:
    about = atom.operands[0]
    return about.name if isinstance(about, tree.ScalarParameter) else str(about)


def _within(role: Role, access: Access, axis: int) -> tuple[Linear, ...] | None:
    """Numbers that are non-negative if no block has a negative coordinate; None unless every launch reaches the store."""
    corner = access.place.corner[axis]
    found = ends(corner)
    if found is None or access.operation not in tuple(run_once(role, tree.Operation, elected=True)):
        return None
    first, last = found
    wraps = role.values.of(access.where.coordinates[axis]) != corner
    return (first, add(number(_LARGEST), last, -1)) if wraps else (first,)
