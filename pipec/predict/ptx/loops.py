"""Which lines of PTX are executed between two others, and how often: the costlier side of each branch, and the trips of loops whose bounds
are constants in the text.

A loop is known by its counter, which two instructions write: one sets it to a constant, the other adds one; it goes on while the counter
is below (or differs from) a constant. What lies behind a comparison of the counter with a value from outside is executed in one trip, as
where each CTA of a cluster does its part of the work.
"""

from collections.abc import Iterable, Mapping
from math import ceil, prod
from typing import NamedTuple

from pipec.record import record


@record
class Line:
    """An instruction; `guard` is its predicate, with a `!` if negated, or empty."""

    guard: str
    opcode: str
    operands: str

    @property
    def parts(self) -> list[str]:
        return [operand.strip() for operand in self.operands.split(",")]


@record
class Loop:
    """`lines` of all trips, of which those `once` are executed in a single one."""

    lines: frozenset[int]
    once: frozenset[int]
    trips: int

    def times(self, line: int) -> int:
        return 1 if line not in self.lines or line in self.once else self.trips


class Cost(NamedTuple):
    """Of a line or a path, compared in this order: products and copies, bytes, instructions."""

    asked: int
    moved: float
    issued: float

    def and_also(self, other: "Cost") -> "Cost":
        return Cost(self.asked + other.asked, self.moved + other.moved, self.issued + other.issued)


Links = Mapping[int, tuple[int, ...]]


def times(line: int, loops: Iterable[Loop]) -> int:
    return prod(loop.times(line) for loop in loops)


def loops(
    lines: Mapping[int, list[Line]], after: Links, before: Links, labels: Mapping[str, int], written: Mapping[str, list[Line]]
) -> tuple[Loop, ...]:
    """Those of a kernel with constant trip counts. `after` and `before`: the lines that may follow, or precede, each line; `labels` have
    their lines, and `written` the instructions that write each register."""
    found, entry = [], min(lines)
    for at, instructions in lines.items():
        for one in instructions:
            if one.opcode.startswith("bra") and one.guard and (head := labels.get(one.operands.strip())) is not None:
                counted = _counted(one.guard, written)
                if counted is None:
                    continue
                counter, trips = counted
                if at not in reached((entry,), after, frozenset((head,))):  # only through the head: a loop
                    inside = reached((at,), before, frozenset((head,))) | {head}
                    found.append(Loop(frozenset(inside), _once(counter, inside, head, lines, after, labels, written), trips))
    return tuple(found)


def _counted(guard: str, written: Mapping[str, list[Line]]) -> tuple[str, int] | None:
    """The counter that a predicate compares with a constant, and for how many trips it holds."""
    compared = written.get(guard, [])
    if len(compared) != 1 or not compared[0].opcode.startswith(("setp.lt.", "setp.ne.")) or len(compared[0].parts) != 3:
        return None
    _, counter, end = compared[0].parts
    writers = {one.opcode.partition(".")[0]: one for one in written.get(counter, [])}
    if len(written.get(counter, [])) != 2 or writers.keys() != {"mov", "add"}:
        return None
    start, (_, added, step) = writers["mov"].parts[-1], writers["add"].parts
    if added != counter or not all(map(_is_number, (start, step, end))) or int(step) <= 0:
        return None
    return counter, max(1, ceil((int(end) - int(start)) / int(step)))


def _once(
    counter: str,
    inside: set[int],
    head: int,
    lines: Mapping[int, list[Line]],
    after: Links,
    labels: Mapping[str, int],
    written: Mapping[str, list[Line]],
) -> frozenset[int]:
    """Lines that are only reached if the counter equals something that the loop does not write."""
    here = {id(one) for at in inside for one in lines[at]}
    every = reached((head,), after, frozenset(set(after) - inside))
    found: set[int] = set()
    for at in inside:
        for one in lines[at]:
            compared = written.get(one.guard.removeprefix("!"), [])
            if not one.opcode.startswith("bra") or len(compared) != 1 or len(compared[0].parts) != 3:
                continue
            kind, operands = compared[0].opcode.split(".")[:2], compared[0].parts[1:]
            others = [operand for operand in operands if operand != counter]
            if kind[0] != "setp" or kind[1] not in ("eq", "ne") or len(others) != 1:
                continue
            if any(id(writer) in here for writer in written.get(others[0], [])):
                continue
            target = labels.get(one.operands.strip())
            jumps = (kind[1] == "eq") != one.guard.startswith("!")  # if they are equal
            taken = target if jumps else at + 1
            kept = {at: tuple(line for line in after[at] if line != taken)}
            found |= every - reached((head,), {**after, **kept}, frozenset(set(after) - inside))
    return frozenset(found)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def reached(first: Iterable[int], links: Links, places: frozenset[int]) -> set[int]:
    """Lines reachable from the first ones without passing through a place."""
    found: set[int] = set()
    stack = [line for line in first if line not in places]
    while stack:
        line = stack.pop()
        if line not in found:
            found.add(line)
            stack += [other for other in links.get(line, ()) if other not in places]
    return found


def costliest(start: int, way: set[int], after: Links, before: Links, costs: Mapping[int, Cost]) -> list[int]:
    """Of the `way` that begins behind `start`, the lines of the path that costs most, in order. A loop is passed once: where it would go
    back, the path goes on behind it."""
    firsts = [line for line in after.get(start, ()) if line in way]
    following = {line: {other for other in after[line] if other in way} for line in way}
    _, back = _searched(firsts, following)
    for latch, head in back:
        inside = (reached((latch,), before, frozenset((head,))) & way) | {head}
        following[latch] |= {other for line in inside for other in after[line] if other in way - inside}
    for latch, head in back:
        following[latch].discard(head)
    order, _ = _searched(firsts, following)
    best: dict[int, tuple[Cost, int | None]] = {}
    for line in order:
        then = max((other for other in sorted(following[line]) if other in best), key=lambda other: best[other][0], default=None)
        own = costs[line]
        best[line] = (own if then is None else own.and_also(best[then][0])), then
    at = max(firsts, key=lambda line: best[line][0], default=None)
    path = []
    while at is not None:
        path.append(at)
        at = best[at][1]
    return path


def _searched(firsts: Iterable[int], following: Mapping[int, Iterable[int]]) -> tuple[list[int], list[tuple[int, int]]]:
    """Lines in postorder of a depth-first search: each behind those that follow it; and the jumps back, from where to where."""
    order: list[int] = []
    back: list[tuple[int, int]] = []
    begun: set[int] = set()
    ended: set[int] = set()
    stack = [(line, False) for line in firsts]
    while stack:
        line, ending = stack.pop()
        if ending:
            order.append(line)
            ended.add(line)
        elif line not in begun:
            begun.add(line)
            stack.append((line, True))
            back += [(line, other) for other in following[line] if other in begun and other not in ended]
            stack += [(other, False) for other in following[line]]
    return order, back
