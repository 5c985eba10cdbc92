"""The start coordinates of TMA stores: loads may start at negative coordinates and read zeros there, stores may not (hardware.md 2.4)."""

from collections.abc import Iterator

from pipec.kir.global_memory.access_pairs import Answer, worst
from pipec.kir.global_memory.accesses import BULK, Access, RoleAccesses
from pipec.kir.global_memory.ends import ends
from pipec.kir.global_memory.lower_bounds import LARGEST, LowerBounds
from pipec.kir.global_memory.places import TileBox
from pipec.kir.ir import Kernel, Role, run_once
from pipec.sema import tree
from pipec.terms.term import Operator, Term
from pipec.terms.walk import leaves
from pipec.verify.terms import Compare, Formula, Linear, add, decided, number

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
    return corner.largest > LARGEST and all(
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
    below = LowerBounds(kernel, role, access.block, access.place.corner)
    return worst(below.never_negative(corner) for corner in access.place.corner if corner.least < 0)


def _within(role: Role, access: Access, axis: int) -> tuple[Linear, ...] | None:
    """Numbers that are non-negative if no block has a negative coordinate; None unless every launch reaches the store."""
    corner = access.place.corner[axis]
    found = ends(corner)
    if found is None or access.operation not in tuple(run_once(role, tree.Operation, elected=True)):
        return None
    first, last = found
    wraps = role.values.of(access.where.coordinates[axis]) != corner
    return (first, add(number(LARGEST), last, -1)) if wraps else (first,)
