"""Conflicting accesses at sampled sizes that nothing orders.

Addresses that cannot be compared as terms are compared as numbers: every role that accesses what the kernel writes is run at a few
sizes, in the first blocks of the grid. What is found happens in some launch; finding nothing proves nothing.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain, combinations_with_replacement, islice
from math import inf, prod

from pipec.isa.specials import AXES
from pipec.isa.targets import WARP
from pipec.kir.global_memory.access_pairs import AccessPair, Answer, Use, worst
from pipec.kir.global_memory.accesses import Access, RoleAccesses, commute, not_compared
from pipec.kir.global_memory.clocks import Clocks, Stamped, Tells
from pipec.kir.global_memory.courses import Course, short_course
from pipec.kir.global_memory.launches import (
    IN_BLOCK,
    ODD_TILES,
    SIZES,
    UNEVEN,
    WHOLE_TILES,
    Cells,
    Launch,
    Position,
    far_blocks,
    launches,
    named_sizes,
    numbers_of_blocks,
    of_long_loops,
    several_blocks,
    sizes_at_which_they_meet,
    sizes_of_several_tiles,
    unusual,
)
from pipec.kir.global_memory.places import GridAxis, TileBox, apart, apart_by_blocks
from pipec.kir.global_memory.runs import Passed, RecordedAccess, Run, Turn
from pipec.kir.global_memory.starts import may_be_in_front
from pipec.kir.global_memory.turn_order import PassedOn, TurnOrder
from pipec.kir.ir import Kernel, Role
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import SCHEDULER
from pipec.vocabulary import Axis

# Between blocks an error must appear at two consecutive sizes, as the caller may rely on a relation of sizes that is unknown here.
_MOST_SIZES = 2
_MOST_UNKNOWN = 8  # launches that show no place
_ANY = 1 << 10  # more than there are in any group
_CORNERS = 27  # sampled blocks, at most
_MOST_WORK = 1_500  # expressions, in total, of more than these blocks
_LEAST_BLOCKS = 3
_MOST_OWN = 3  # blocks that are run for what happens inside of each
_MOST_TOUCHES = 600  # of one tensor in one launch
_MOST_TOGETHER = 8  # blocks whose roles are all run together
_MOST_IN_TURNS = 32  # the same, of a whole grid that takes turns at several counters
_MOST_PAIRS = 1000  # of accesses to a tensor that are compared as terms
_MOST_HARD = 40  # that are not told apart by one coordinate


@record
class Overlap:
    """Two uses of a tensor that overlap and are unordered, in these blocks at these sizes."""

    first: tuple[Role, RecordedAccess]
    second: tuple[Role, RecordedAccess]
    blocks: tuple[Position, Position]
    sizes: Mapping[str, int]


@record
class BlockOverlaps:
    """`apart`: for each other tensor, whether it is shown that blocks have elements of their own."""

    met: list[Overlap]
    apart: Mapping[str, Answer]


# ---------------------------------------------------------------------------------------------------------- between blocks


def between_blocks(kernel: Kernel, rows: tuple[RoleAccesses, ...], tells: Tells) -> BlockOverlaps:
    """The first overlap of each tensor, if there is one at two consecutive sizes."""
    answers = answers_of_blocks(kernel, rows)
    suspects = frozenset(tensor for tensor, answer in answers.items() if answer == "open")
    courses = [short_course(kernel, row) for row in rows] if suspects else []
    unknown: dict[str, float] = {}  # launches that show no place, as where places are read from memory, until one does
    once: dict[str, Overlap] = {}
    found: dict[str, Overlap] = {}
    for tried, count in _tried(kernel) if suspects else ():
        several = islice((launch for launch in tried if len(launch.blocks) > 1), count)
        for left in range(count, 0, -1):
            asked = suspects - found.keys()
            if left < _MOST_SIZES:  # only what has been seen can be seen twice
                asked &= once.keys()
            elif count == _ANY:
                asked = frozenset(tensor for tensor in asked if unknown.get(tensor, 0) < _MOST_UNKNOWN)
            launch = next(several, None) if asked else None
            if launch is None:
                break
            uses, order = _uses(kernel, courses, rows, launch, asked, tells)
            for tensor, of_tensor in uses.items():
                unknown[tensor] = -inf if of_tensor else unknown.get(tensor, 0) + 1
            for tensor, overlap in _met(uses, order, launch):
                if tensor in once:
                    found[tensor] = once[tensor]
                once.setdefault(tensor, overlap)
    return BlockOverlaps(
        [found[tensor] for tensor in sorted(found)], {tensor: answers[tensor] for tensor in sorted(answers.keys() - found.keys())}
    )


def _tried(kernel: Kernel) -> Iterator[tuple[Iterator[Launch], int]]:
    """Launches in groups of which two must show an overlap, of so many."""
    named = numbers_of_blocks(kernel)
    several = tuple(sizes for sizes in (several_blocks(kernel),) if sizes)
    for sizes in (SIZES, WHOLE_TILES, ODD_TILES, *several, *((far_blocks(kernel, named),) if named else ())):
        yield launches(kernel, sizes, named=named), _MOST_SIZES
    for sizes in (*UNEVEN, *several) if len(named_sizes(kernel)) > 1 else ():
        yield launches(kernel, sizes, uneven="up"), _MOST_SIZES
        yield launches(kernel, sizes, uneven="down"), _MOST_SIZES
    yield unusual(kernel), _ANY


def _inside(touch: RecordedAccess) -> bool:
    """Whether any part of it is inside the tensor."""
    return all(first < last for first, last in touch.box)


def in_front(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> dict[Access, int]:
    """TMA stores that start at a negative coordinate in every sampled launch, with the axis."""
    left = {access: axis for _, access, axis in may_be_in_front(rows)}
    courses = [short_course(kernel, row) for row in rows if not left.keys().isdisjoint(row.accesses)]
    tried = 0
    for launch in islice(launches(kernel, most=_CORNERS), _MOST_SIZES) if left else ():
        touches = (event for course in courses for known in launch.blocks.values() for event in Run(course, known).events())
        seen = {one.access: one.before for one in touches if isinstance(one, RecordedAccess) and one.before is not None}
        left = {access: axis for access, axis in (left if tried else seen).items() if access in left.keys() & seen.keys()}
        tried += 1
        if not left:
            break
    return left if tried else {}


def answers_of_blocks(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> dict[str, Answer]:
    """For each tensor that is stored, whether blocks have tiles of their own."""
    axes = [
        GridAxis(axis, kernel.launch.special(f"block.{axis}", WARP), kernel.launch.special(f"cta.{axis}", WARP), width)
        for axis, extent, width in zip(AXES, kernel.grid, kernel.cluster.shape, strict=True)
        if kernel.launch.term(extent).largest > 1
    ]
    if not axes:
        return {access.tensor: "shown" for row in rows for access in row.accesses}
    twice = AccessPair(kernel)
    uses: dict[str, dict[object, list[Use]]] = {}
    for row in rows:
        for access in row.accesses:
            alike = access.place.corner, access.place.extent, access.writes, access.reduce
            uses.setdefault(access.tensor, {}).setdefault(alike, []).append((row.role, access))
    found: dict[str, Answer] = {}
    for tensor, all_of in uses.items():
        # Beyond this, comparing costs more than running the roles.
        few = sum(members[0][1].writes for members in all_of.values()) * len(all_of) <= _MOST_PAIRS
        pairs = _pairs(list(all_of.values())) if few else []
        hard = [(some, others) for some, others in pairs if not _own(axes, some[0][1].place, others[0][1].place)]
        few = few and len(hard) <= _MOST_HARD
        found[tensor] = worst(_alike_apart(twice, some, others) for some, others in hard) if few else "open"
    return found


def _pairs(groups: list[list[Use]]) -> list[tuple[list[Use], list[Use]]]:
    """Uses of the same tiles, and others whose order relative to them matters."""
    both = combinations_with_replacement(groups, 2)
    return [
        (some, others)
        for some, others in both
        if (some[0][1].writes or others[0][1].writes) and not commute(some[0][1], others[0][1])
    ]


def _alike_apart(twice: AccessPair, some: list[Use], others: list[Use]) -> Answer:
    """Where the tiles alone do not show it, the way to each of them may."""
    answer = twice.apart_in_blocks(some[0], others[0], bare=True)
    if answer != "open" or len(some) * len(others) > _MOST_HARD:
        return answer
    return worst(twice.apart_in_blocks(one, other) for one in some for other in others)


def _own(axes: list[GridAxis], one: TileBox, other: TileBox) -> bool:
    """Whether every block has tiles of its own. For two blocks, the axes that are known to distinguish them are considered first."""
    left, same = list(axes), set[Axis]()
    while left:
        found = [along for along in left if apart_by_blocks(one, other, along, same)]
        if not found:
            return False
        same.update(along.axis for along in found)
        left = [along for along in left if along not in found]
    return True


@record(eq=False)
class _Use:
    """`held`: the turns that its block had waited for by then; `passed`: those that its block passes on only after it."""

    role: Role
    block: Position
    touch: RecordedAccess
    held: frozenset[Turn]
    passed: frozenset[Turn]


def _uses(
    kernel: Kernel, courses: list[Course], rows: tuple[RoleAccesses, ...], launch: Launch, suspects: Collection[str], tells: Tells
) -> tuple[dict[str, list[_Use]], TurnOrder]:
    turns = _turns(kernel)
    several = len(turns) > 1
    if turns and (several or _ordered_by_others(rows, turns, suspects)):
        found, order = _of_all_roles(kernel, rows, launch, tells, several=several)
    else:
        found, order = list(_of_each_role(courses, launch)), TurnOrder(())
    uses: dict[str, list[_Use]] = {tensor: [] for tensor in suspects}
    for use in found:
        if _inside(use.touch) and len(uses.get(use.touch.access.tensor, (None,) * _MOST_TOUCHES)) < _MOST_TOUCHES:
            uses[use.touch.access.tensor].append(use)
    return uses, order


def _met(uses: Mapping[str, list[_Use]], order: TurnOrder, launch: Launch) -> Iterator[tuple[str, Overlap]]:
    for tensor, all_of in uses.items():
        cells = Cells([one.touch.box for one in all_of])
        earlier = ((all_of[place], use) for number, use in enumerate(all_of) for place in cells.before(number))
        pairs = ((one, use) for one, use in earlier if one.block != use.block)
        race = next((pair for pair in pairs if _race(*pair, order)), None)
        if race is not None:
            first, second = race
            blocks = first.block, second.block
            yield tensor, Overlap((first.role, first.touch), (second.role, second.touch), blocks, launch.sizes)


def _of_each_role(courses: list[Course], launch: Launch) -> Iterator[_Use]:
    work = 0
    for number, (block, known) in enumerate(launch.blocks.items()):
        for course in courses:
            if course.role.leader and known["cta.rank"] % 2 or (work > _MOST_WORK and number >= _LEAST_BLOCKS):
                continue
            run = Run(course, known)
            events = list(run.events())
            work += run.work
            passed = [event for event in events if isinstance(event, Passed)]
            for event in events:
                if isinstance(event, RecordedAccess):
                    behind = frozenset(one.turn for one in passed if one.step >= event.step)
                    yield _Use(course.role, block, event, event.held, behind)


def _ordered_by_others(rows: tuple[RoleAccesses, ...], turns: tuple[str, ...], suspects: Collection[str]) -> bool:
    """Whether an access is ordered by turns only as far as hand-overs transfer them: of a role that takes none, or of a copy into shared
    memory, which is complete when somebody has waited for its stage."""
    uses = [(row.role.name, access) for row in rows for access in row.accesses]
    return any(name not in turns or (access.handle is not None and access.tensor in suspects) for name, access in uses)


def _of_all_roles(
    kernel: Kernel, rows: tuple[RoleAccesses, ...], launch: Launch, tells: Tells, *, several: bool
) -> tuple[list[_Use], TurnOrder]:
    """The turns of one role also order other roles, as far as hand-overs transfer them. `several`: waits for turns, which order blocks
    through each other; nothing is compared then unless all blocks of the launch are known."""
    courses = _courses(kernel, rows)
    uses: list[_Use] = []
    passed_on: list[PassedOn] = []
    if _shares(kernel) or (several and not _all_of_them(launch)):
        return uses, TurnOrder(())
    for block, known in islice(launch.blocks.items(), _MOST_IN_TURNS if several else _MOST_TOGETHER):
        clocks = _together(courses, known, tells=tells, turns=several)
        if clocks is None:
            return ([] if several else uses), TurnOrder(())
        passed_on += [PassedOn(turn, _waited_for(clocks, clock)) for turn, clock in clocks.passed if several]
        for number, use in clocks.touches:
            passed = frozenset(turn for turn, clock in clocks.passed if clocks.complete(number, use.touch, clock))
            uses.append(_Use(kernel.roles[number], block, use.touch, _waited_for(clocks, use.clock), passed))
    return uses, TurnOrder(passed_on)


def _waited_for(clocks: Clocks, clock: tuple[int, ...]) -> frozenset[Turn]:
    return frozenset(turn for role, turn, step in clocks.taken if clock[role] >= step)


def _all_of_them(launch: Launch) -> bool:
    """Whether the blocks to run are the whole grid, and few enough to run all of their roles."""
    known = next(iter(launch.blocks.values()), {})
    return len(launch.blocks) == prod(known.get(f"grid.{axis}", 1) for axis in AXES) <= _MOST_IN_TURNS


def _turns(kernel: Kernel) -> tuple[str, ...]:
    """For each wait for a turn the role that waits."""
    return tuple(
        role.name for role in kernel.roles for block in role.blocks for one in block.operations if isinstance(one, tree.AwaitTurn)
    )


def _race(one: _Use, other: _Use, order: TurnOrder) -> bool:
    """CTAs of a cluster are no exception: what they hand over to each other orders shared memory, not the copies of each to a tensor."""
    return _clash(one.touch, other.touch) and not (
        order.comes_before(one.passed, other.held) or order.comes_before(other.passed, one.held)
    )


def _clash(one: RecordedAccess, other: RecordedAccess) -> bool:
    if not (one.access.writes or other.access.writes) or commute(one.access, other.access):
        return False
    return all(first < end and start < last for (first, last), (start, end) in zip(one.box, other.box, strict=True))


# ------------------------------------------------------------------------------------------------------------ in one block


@record
class StoreOverlaps:
    """Pairs of stores that overlap at some sizes, the earlier one first: `own`, by role; `shared`, those of two roles."""

    own: Mapping[str, frozenset[tuple[Access, Access]]]
    shared: frozenset[tuple[Access, Access]]

    def joined(self, other: "StoreOverlaps") -> "StoreOverlaps":
        names = self.own.keys() | other.own.keys()
        own = {name: self.own.get(name, frozenset()) | other.own.get(name, frozenset()) for name in names}
        return StoreOverlaps(own, self.shared | other.shared)


def stores_again(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> StoreOverlaps:
    """At the usual sizes, all alike."""
    both = _stored_by_several(rows)
    several = [row for row in rows if _deals_out(row) or any(one.tensor in both for one in row.accesses)]
    return _overlapping_stores(several, both, kernel, _in_block(kernel, rows) if several else iter(()))


@record
class Doubts:
    """`own`: the roles of which nothing shows that they store different elements each time; `shared`: the tensors of which nothing shows
    it of two roles."""

    own: Collection[str]
    shared: Collection[str]


def stores_again_where_sizes_differ(kernel: Kernel, rows: tuple[RoleAccesses, ...], doubtful: Doubts) -> StoreOverlaps:
    several = [
        row
        for row in rows
        if row.role.name in doubtful.own or any(one.writes and one.tensor in doubtful.shared for one in row.accesses)
    ]
    return _overlapping_stores(several, doubtful.shared, kernel, _unusual_in_block(kernel))


def _overlapping_stores(
    rows: list[RoleAccesses], both: Collection[str], kernel: Kernel, launched: Iterator[Launch]
) -> StoreOverlaps:
    own: dict[str, set[tuple[Access, Access]]] = {}
    shared: set[tuple[Access, Access]] = set()
    courses = [short_course(kernel, row) for row in rows]
    blocks = ((launch.times, known) for launch in launched for known in launch.blocks.values())
    for times, known in blocks if rows else ():
        of_all: dict[str, list[tuple[str, RecordedAccess]]] = {}
        for course in courses:
            stores: dict[str, list[RecordedAccess]] = {}
            for one in Run(course, known, times).events():
                if isinstance(one, RecordedAccess) and one.access.writes and _inside(one):
                    stores.setdefault(one.access.tensor, []).append(one)
            for tensor, touches in stores.items():
                own.setdefault(course.role.name, set()).update(_again(touches))
                of_all.setdefault(tensor, []).extend((course.role.name, one) for one in touches if tensor in both)
        for uses in of_all.values():
            shared.update(_of_two(uses))
    return StoreOverlaps({name: frozenset(pairs) for name, pairs in own.items()}, frozenset(shared))


def _stored_by_several(rows: tuple[RoleAccesses, ...]) -> frozenset[str]:
    """The tensors for which stores of two roles are only assumed to be disjoint."""
    return frozenset(
        one.tensor
        for number, row in enumerate(rows)
        for other in rows[number + 1 :]
        for one in row.accesses
        if one.writes and any(not_compared(one, second) for second in other.accesses)
    )


def _of_two(uses: list[tuple[str, RecordedAccess]]) -> Iterator[tuple[Access, Access]]:
    different = list({(touch.access, touch.box): (role, touch) for role, touch in uses}.values())
    cells = Cells([touch.box for _, touch in different])
    for number, (role, second) in enumerate(different):
        for other, first in (different[place] for place in cells.before(number)):
            if other != role and _clash(first, second):
                yield first.access, second.access


def _again(touches: list[RecordedAccess]) -> Iterator[tuple[Access, Access]]:
    cells = Cells([one.box for one in touches])
    for number, second in enumerate(touches):
        # Ordering the role for the last of them also orders it for the earlier ones.
        last = next((place for place in reversed(cells.before(number)) if _clash(touches[place], second)), None)
        if last is not None:
            yield touches[last].access, second.access


def _deals_out(row: RoleAccesses) -> bool:
    """Whether the role stores tiles that are assumed to be disjoint."""
    return any(one.writes and one.place.dealt_out for one in row.accesses)


def _in_block(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> Iterator[Launch]:
    stores = [one for row in rows for one in row.accesses if one.writes][:_MOST_HARD]
    meeting = (
        (one.place, other.place)
        for one in stores
        for row in rows
        for other in row.accesses[:_MOST_HARD]
        if other is not one and other.tensor == one.tensor
    )
    several = sizes_of_several_tiles(one.place for one in stores)
    return launches(kernel, IN_BLOCK + several + sizes_at_which_they_meet(meeting), most=_MOST_OWN)


def _unusual_in_block(kernel: Kernel) -> Iterator[Launch]:
    yield from launches(kernel, WHOLE_TILES, most=_MOST_OWN)
    yield from unusual(kernel, most=_MOST_OWN)
    yield from of_long_loops(kernel)


def between_roles(kernel: Kernel, rows: tuple[RoleAccesses, ...], doubtful: Collection[str]) -> Overlap | None:
    """Two roles of a block that use the same elements in some sampled launch, without a hand-over between them. `doubtful`: tensors of
    which nothing shows that they store different elements."""
    suspects = {
        one.tensor
        for number, row in enumerate(rows)
        for other in rows[number + 1 :]
        for one in row.accesses
        for second in other.accesses
        if one.tensor == second.tensor and (one.writes or second.writes) and not commute(one, second)
        if not apart(one.place, second.place)
    }
    if not suspects or _shares(kernel):
        return None
    courses = _courses(kernel, rows)
    using = [short_course(kernel, row) for row in rows if any(one.tensor in suspects for one in row.accesses)]
    return next(
        (
            found
            for launch in chain(_in_block(kernel, rows), _unusual_in_block(kernel) if doubtful else ())
            for block, known in launch.blocks.items()
            # Whose elements are its own needs no order: only where roles meet are hand-overs followed.
            if _meet(using, known, suspects, launch.times) and (clocks := _together(courses, known, launch.times)) is not None
            for found in _of_two_roles(kernel, clocks, block, launch, suspects)
        ),
        None,
    )


def _meet(courses: list[Course], known: Mapping[str, int], suspects: set[str], times: int) -> bool:
    """Whether two roles of a block use the same element of a tensor, in whatever order."""
    uses: dict[str, list[tuple[str, RecordedAccess]]] = {}
    for course in courses:
        for one in Run(course, known, times).events():
            if isinstance(one, RecordedAccess) and one.access.tensor in suspects and _inside(one):
                uses.setdefault(one.access.tensor, []).append((course.role.name, one))
    return any(True for of_tensor in uses.values() for _ in _of_two(of_tensor))


def _shares(kernel: Kernel) -> bool:
    """Whether the CTAs of a cluster may hand over to each other, which a run of a single CTA does not show."""
    loads = (one for role in kernel.roles for block in role.blocks for one in block.operations if isinstance(one, tree.TmaLoad))
    sides = {pipeline for role in kernel.roles for pipeline in (*role.produces, *role.consumes)}
    return kernel.cluster.size > 1 and (
        any(one.multicast is not None for one in loads)
        or any(pipeline.scope == "cluster" or pipeline.cta_group > 1 or pipeline.kind == SCHEDULER for pipeline in sides)
    )


def _of_two_roles(kernel: Kernel, clocks: Clocks, block: Position, launch: Launch, suspects: set[str]) -> Iterator[Overlap]:
    for tensor in sorted(suspects):
        uses = [(role, one) for role, one in clocks.touches if one.touch.access.tensor == tensor and _inside(one.touch)]
        uses = uses[: _MOST_TOUCHES * launch.times]
        cells = Cells([one.touch.box for _, one in uses])
        for number, (role, second) in enumerate(uses):
            for other, first in (uses[place] for place in cells.before(number)):
                if other != role and _apart_in_time(other, first, role, second):
                    yield Overlap(
                        (kernel.roles[other], first.touch), (kernel.roles[role], second.touch), (block, block), launch.sizes
                    )


def _courses(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> list[Course]:
    """Of all roles, for runs with hand-overs."""
    touching = {row.role.name: row for row in rows}
    return [Course(touching.get(role.name, RoleAccesses(role, ()))) for role in kernel.roles]


def _together(
    courses: list[Course], known: Mapping[str, int], times: int = 1, *, tells: Tells = lambda *_: "signalled", turns: bool = False
) -> Clocks | None:
    """All roles of a block; None if it is not known to the end which role waits for which (`turns`: or for which turn)."""
    runs = [Run(course, known, times) for course in courses]
    clocks = Clocks(
        [list(run.events()) for run in runs], lambda number, pipeline, side: tells(courses[number].role.name, pipeline, side)
    )
    return clocks if clocks.ended and all(run.ended and (run.turns_known or not turns) for run in runs) else None


def _apart_in_time(role: int, one: Stamped, partner: int, other: Stamped) -> bool:
    if not _clash(one.touch, other.touch):
        return False
    return other.clock[role] < one.touch.step and one.clock[partner] < other.touch.step
