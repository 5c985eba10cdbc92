"""Finds the accesses of a role that may conflict, without comparing all pairs.

Along each axis a tile starts at a term. If the terms of two tiles differ in a part of unknown range, their distance is unknown, and they
are compared. If these parts agree, the rest is in a known range in every iteration: the tiles are boxes, and a sweep finds those that
overlap.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Sequence

from pipec.kir.global_memory.accesses import Access
from pipec.kir.global_memory.places import is_followed, loops_in
from pipec.record import record
from pipec.terms.term import Term, weighted_sum

_Box = tuple[tuple[float, float], ...]  # per axis, the minimum of a tile's start and the maximum of its end
_MOST = 4  # neighbours of an access, on average; beyond that they are not collected


@record
class _Boxed:
    number: int
    box: _Box


def nearby(accesses: Sequence[Access], again: Collection[tuple[Access, Access]]) -> list[tuple[int, ...] | None]:
    """For each access the indices of those that it may conflict with, including itself, in any iterations of the enclosing loops. None
    if it must be compared with all. `again`: pairs that are known to overlap."""
    numbers = {access: number for number, access in enumerate(accesses)}
    known: dict[int, list[int]] = {}
    for first, second in again:
        known.setdefault(numbers[second], []).append(numbers[first])
    found: list[tuple[int, ...] | None] = [None for _ in accesses]
    groups: dict[tuple[str, Hashable], list[_Boxed]] = {}
    for number, access in enumerate(accesses):
        groups.setdefault((access.tensor, _unknown_parts(access)), []).append(_Boxed(number, _box(access)))
    compared = _compared(accesses, groups)
    for (tensor, _), members in groups.items():
        near = None if tensor in compared else _near(members)
        for member in members:
            if near is not None:
                number = member.number
                found[number] = tuple(sorted({number, *near.get(number, ()), *known.get(number, ())}))
    return found


def _compared(accesses: Sequence[Access], groups: dict[tuple[str, Hashable], list[_Boxed]]) -> set[str]:
    """The tensors whose tiles boxes cannot prove disjoint: their distances are not the same in every iteration."""
    keys = Counter(tensor for tensor, _ in groups)
    moving = {access.tensor for access in accesses if any(loops_in(_unknown(access, term)) for term in access.place.corner)}
    return moving.union(tensor for tensor in keys if keys[tensor] > 1)


def _unknown_parts(access: Access) -> Hashable:
    if not all(map(is_followed, access.place.corner)):
        return access  # equal to no other
    return tuple(_unknown(access, term).parts for term in access.place.corner)


def _unknown(access: Access, term: Term) -> Term:
    return weighted_sum(0, [part for part in term.parts if part[0] not in access.place.ranges])


def _box(access: Access) -> _Box:
    place = access.place
    return tuple(_interval(access, term, extent) for term, extent in zip(place.corner, place.extent, strict=True))


def _interval(access: Access, term: Term, extent: int | None) -> tuple[float, float]:
    if extent is None:
        return float("-inf"), float("inf")
    ranges = access.place.ranges
    ends = [sorted(factor * end for end in ranges[atom]) for atom, factor in term.parts if atom in ranges]
    return term.constant + sum(least for least, _ in ends), term.constant + sum(largest for _, largest in ends) + extent


def _near(members: list[_Boxed]) -> dict[int, list[int]] | None:
    """The neighbours of each; None if there are so many that comparing all pairs is no slower."""
    found: dict[int, list[int]] = {}
    for count, (one, other) in enumerate(_overlapping(members)):
        if count > _MOST * len(members):
            return None
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


def _overlapping(members: list[_Boxed]) -> Iterator[tuple[int, int]]:
    axes = range(len(members[0].box))
    axis = max(axes, key=lambda at: len({member.box[at] for member in members}))
    open_boxes: list[_Boxed] = []
    for member in sorted(members, key=lambda one: (one.box[axis], one.number)):
        open_boxes = [one for one in open_boxes if one.box[axis][1] > member.box[axis][0]]
        yield from ((one.number, member.number) for one in open_boxes if _overlap(one.box, member.box))
        open_boxes.append(member)


def _overlap(one: _Box, other: _Box) -> bool:
    return all(a[0] < b[1] and b[0] < a[1] for a, b in zip(one, other, strict=True))
