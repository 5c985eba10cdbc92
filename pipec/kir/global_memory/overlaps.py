"""Accesses that meet at sizes that were tried, and that nothing orders.

Places that cannot be compared as terms are compared as numbers: every role that touches what the kernel writes is run at a few sizes, in
the first blocks of the grid. What is found happens in some launch; that nothing is found proves nothing.
"""

from collections.abc import Iterator, Mapping
from itertools import islice, product

from pipec.interface import MULTIPROCESSORS
from pipec.isa.dtypes import DType
from pipec.isa.specials import AXES
from pipec.isa.targets import WARP
from pipec.kir.global_memory.accesses import Access, RoleAccesses, commute
from pipec.kir.global_memory.clocks import Clocks, Stamped
from pipec.kir.global_memory.courses import Course, short_course
from pipec.kir.global_memory.places import Along, Place, apart, apart_by_blocks
from pipec.kir.global_memory.runs import Box, Passed, Run, Scalars, Touch, Unknown
from pipec.kir.global_memory.starts import may_be_in_front
from pipec.kir.ir import Kernel, Role
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import SCHEDULER
from pipec.verify.conditions import condition_data, met
from pipec.vocabulary import Axis

Position = tuple[int, int, int]

# By dimension and by scalar parameter. Tensors that TMA reaches have rows of 16 bytes; packed elements come by 128.
_SIZES = ((256, 2), (144, 3), (640, 1), (48, 4), (2048, 3))
_WHOLE_TILES = ((640, 1), (2048, 3), (256, 2))  # enough of them to come round to those of another block
_PACKED_ROW = 128
_MULTIPROCESSORS = 3
# Between blocks a fault must show at two sizes in a row, lest a relation of sizes is missed that only the caller knows.
_MOST_SIZES = 2
_MOST_BLOCKS = 128  # of one launch
_CORNERS = 27  # of its blocks, at most
_MOST_NEAR = 12
_MOST_WORK = 1_500  # expressions, in all of them
_MOST_TOUCHES = 600  # of one tensor in one launch
_MOST_PAIRS = 1000  # of accesses to a tensor that are compared as terms


@record
class Launch:
    """`sizes`: of dimensions and integer parameters. `blocks`: the blocks that are run, each with its hardware values."""

    sizes: Mapping[str, int]
    blocks: Mapping[Position, Mapping[str, int]]


@record
class Met:
    """Two uses of a tensor that overlap and that nothing orders, in these blocks at these sizes."""

    first: tuple[Role, Touch]
    second: tuple[Role, Touch]
    blocks: tuple[Position, Position]
    sizes: Mapping[str, int]


@record
class Between:
    """`unsure`: the tensors of which no two blocks were seen to touch the same elements, while nothing shows that they do not."""

    met: list[Met]
    unsure: frozenset[str]


# --------------------------------------------------------------------------------------------------------------- launches


def launches(kernel: Kernel, tried: tuple[tuple[int, int], ...] = _SIZES, *, most: int | None = None) -> Iterator[Launch]:
    """Such as the kernel's `assume` admits, with so many of their blocks at most."""
    names = {size for tensor in kernel.tensors for size in tensor.shape if isinstance(size, str)}
    rows = {tensor.shape[-1] for tensor in kernel.tensors if tensor.dtype.is_packed}
    scalars = [one.name for one in kernel.scalars if isinstance(one.type, DType) and one.type.is_integer]
    for base in tried:
        named = (
            {name: -(-size // _PACKED_ROW) * _PACKED_ROW if name in rows else size for name in sorted(names)}
            | dict.fromkeys(scalars, count)
            for size, count in (base, *_near(kernel, base))
        )
        sizes = next((one for one in named if all(met(each.formula, one) for each in kernel.assumptions)), None)
        if sizes is None:
            continue
        try:
            grid = tuple(map(Scalars({**sizes, MULTIPROCESSORS: _MULTIPROCESSORS}).value, kernel.grid))
        except Unknown:
            continue
        if not any(extent <= 0 or extent % width for extent, width in zip(grid, kernel.cluster.shape, strict=True)):
            yield Launch(sizes, dict(islice(_blocks(kernel, sizes, grid), most)))


def _near(kernel: Kernel, base: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Others for sizes that the kernel does not admit: at the numbers that it compares sizes with."""
    size, count = base
    stated = {number for one in kernel.assumptions for number in _numbers(condition_data(one.formula))}
    near = sorted({abs(number) + off for number in stated for off in (-1, 0, 1)} - {0, -1})
    for one in near[:_MOST_NEAR]:
        yield from ((size, one), (one, count), (one, one))


def _numbers(data: object) -> Iterator[int]:
    if isinstance(data, int):
        yield data
    for part in data if isinstance(data, list | tuple) else ():
        yield from _numbers(part)


def _blocks(kernel: Kernel, sizes: Mapping[str, int], grid: tuple[int, ...]) -> Iterator[tuple[Position, Mapping[str, int]]]:
    """The corners of the grid and of its first cluster, then the first blocks along each axis."""
    shape = kernel.cluster.shape
    axes = sum(extent > 1 for extent in grid)
    each = round(_MOST_BLOCKS ** (1 / axes)) if axes else 1
    corners = [{0, width - 1, width, extent - 1} for extent, width in zip(grid, shape, strict=True)]
    places = [sorted(at for at in one if at < extent) for one, extent in zip(corners, grid, strict=True)]
    more = [range(min(extent, each)) for extent in grid]
    for x, y, z in dict.fromkeys((x, y, z) for some in (places, more) for z, y, x in product(*reversed(some))):
        known = dict(sizes)
        place = []
        for axis, at, extent, width in zip(AXES, (x, y, z), grid, shape, strict=True):
            known |= {f"block.{axis}": at, f"grid.{axis}": extent, f"cta.{axis}": at % width}
            known |= {f"cluster.{axis}": at // width, f"clusters.{axis}": extent // width}
            place.append(at % width)
        known["cta.rank"] = kernel.cluster.rank((place[0], place[1], place[2]))
        yield (x, y, z), known


class Cells:
    """Which of some boxes may overlap: space is cut into cells as large as the largest box."""

    def __init__(self, boxes: list[Box]) -> None:
        width = [max(last - first for first, last in axis) for axis in zip(*boxes, strict=True)]
        self._cells = [
            list(product(*(range(first // size, (last - 1) // size + 1) for (first, last), size in zip(box, width, strict=True))))
            for box in boxes
        ]
        self._numbers: dict[tuple[int, ...], list[int]] = {}
        for number, cells in enumerate(self._cells):
            for cell in cells:
                self._numbers.setdefault(cell, []).append(number)

    def before(self, number: int) -> list[int]:
        """The boxes with smaller numbers, in their order."""
        return sorted({one for cell in self._cells[number] for one in self._numbers[cell] if one < number})


# ---------------------------------------------------------------------------------------------------------- between blocks


def between_blocks(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> Between:
    """The first overlap of each tensor, if there is one at two sizes in a row."""
    suspects = frozenset(_not_apart(kernel, rows))
    courses = [short_course(kernel, row) for row in rows] if suspects else []
    found: dict[str, Met] = {}
    for tried in (_SIZES, _WHOLE_TILES) if suspects else ():
        several = (launch for launch in launches(kernel, tried) if len(launch.blocks) > 1)
        met: dict[str, Met] = {}
        left, sizes = suspects - found.keys(), 0
        while left and sizes < _MOST_SIZES and (launch := next(several, None)) is not None:
            met = dict(_met(kernel, courses, launch, left)) | met
            left &= met.keys()
            sizes += 1
        if sizes == _MOST_SIZES:
            found |= {tensor: met[tensor] for tensor in left}
    return Between([found[tensor] for tensor in sorted(found)], suspects - found.keys())


def _inside(touch: Touch) -> bool:
    """Whether anything of it lies in the tensor."""
    return all(first < last for first, last in touch.box)


def in_front(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> dict[Access, int]:
    """Stores by TMA that begin in front of their tensor in every launch that was tried, with the axis."""
    left = {access: axis for _, access, axis in may_be_in_front(rows)}
    courses = [short_course(kernel, row) for row in rows if not left.keys().isdisjoint(row.accesses)]
    tried = 0
    for launch in islice(launches(kernel, most=_CORNERS), _MOST_SIZES) if left else ():
        touches = (event for course in courses for known in launch.blocks.values() for event in Run(course, known).events())
        seen = {one.access: one.before for one in touches if isinstance(one, Touch) and one.before is not None}
        left = {access: axis for access, axis in (left if tried else seen).items() if access in left.keys() & seen.keys()}
        tried += 1
        if not left:
            break
    return left if tried else {}


def _not_apart(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> Iterator[str]:
    """The tensors of which blocks are not seen to have tiles of their own."""
    axes = [
        Along(axis, kernel.launch.special(f"block.{axis}", WARP), kernel.launch.special(f"cta.{axis}", WARP), width)
        for axis, extent, width in zip(AXES, kernel.grid, kernel.cluster.shape, strict=True)
        if kernel.launch.term(extent).largest > 1
    ]
    uses: dict[str, dict[object, Access]] = {}
    for access in (one for row in rows for one in row.accesses):
        alike = access.place.corner, access.place.extent, access.writes, access.reduce
        uses.setdefault(access.tensor, {}).setdefault(alike, access)
    for tensor, all_of in uses.items():
        stores = [one for one in all_of.values() if one.writes]
        # A run of the roles costs no more than to compare so many.
        if len(stores) * len(all_of) > _MOST_PAIRS or any(
            not commute(one, other) and not _own(axes, one.place, other.place) for one in stores for other in all_of.values()
        ):
            yield tensor


def _own(axes: list[Along], one: Place, other: Place) -> bool:
    """Whether every block has tiles of its own. Of two blocks, those axes come first that are known to tell them apart."""
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
    role: Role
    block: Position
    touch: Touch
    passed: tuple[Passed, ...]


def _met(kernel: Kernel, courses: list[Course], launch: Launch, suspects: frozenset[str]) -> Iterator[tuple[str, Met]]:
    uses: dict[str, list[_Use]] = {tensor: [] for tensor in suspects}
    work = 0
    for block, known in launch.blocks.items():
        for course in courses:
            if course.role.leader and known["cta.rank"] % 2 or work > _MOST_WORK:
                continue
            run = Run(course, known)
            events = list(run.events())
            work += run.work
            passed = tuple(event for event in events if isinstance(event, Passed))
            for event in events:
                if (
                    isinstance(event, Touch)
                    and _inside(event)
                    and len(uses.get(event.access.tensor, (None,) * _MOST_TOUCHES)) < _MOST_TOUCHES
                ):
                    uses[event.access.tensor].append(_Use(course.role, block, event, passed))
    turns = _turns(kernel)
    for tensor, all_of in uses.items():
        cells = Cells([one.touch.box for one in all_of])
        earlier = ((all_of[place], use) for number, use in enumerate(all_of) for place in cells.before(number))
        pairs = ((one, use) for one, use in earlier if one.block != use.block)
        found = next((pair for pair in pairs if _race(kernel, *pair, turns)), None)
        if found is not None:
            first, second = found
            blocks = first.block, second.block
            yield tensor, Met((first.role, first.touch), (second.role, second.touch), blocks, launch.sizes)


def _turns(kernel: Kernel) -> frozenset[str] | None:
    """The roles that take turns; None where they do so in several ways, whose order among each other is not followed."""
    found = [
        role.name for role in kernel.roles for block in role.blocks for one in block.operations if isinstance(one, tree.AwaitTurn)
    ]
    return frozenset(found) if len(found) < 2 else None


def _race(kernel: Kernel, one: _Use, other: _Use, turns: frozenset[str] | None) -> bool:
    if not _clash(one.touch, other.touch) or turns is None:
        return False
    if turns and not {one.role.name, other.role.name} <= turns:
        return False  # a hand-over may pass on what a turn has ordered
    if _earlier(one, other) or _earlier(other, one):
        return False
    shape = kernel.cluster.shape
    near = all(at // width == there // width for at, there, width in zip(one.block, other.block, shape, strict=True))
    # CTAs of one cluster can wait for each other, but not where all of them do the same at the same point.
    return not near or (one.touch.access is other.touch.access and one.touch.step == other.touch.step)


def _clash(one: Touch, other: Touch) -> bool:
    if not (one.access.writes or other.access.writes) or commute(one.access, other.access):
        return False
    return all(first < end and start < last for (first, last), (start, end) in zip(one.box, other.box, strict=True))


def _earlier(one: _Use, other: _Use) -> bool:
    """Whether the one is done before its block passes on a turn, and the other after its block has waited for a later one."""
    return any(
        passed.step >= one.touch.step and passed.turn[0] == place and passed.turn[1] < turn
        for passed in one.passed
        for place, turn in other.touch.held
    )


# ------------------------------------------------------------------------------------------------------------ in one block


def stores_again(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> dict[str, frozenset[tuple[Access, Access]]]:
    """By role the pairs of its stores that overlap at some sizes, the earlier one first."""
    found: dict[str, set[tuple[Access, Access]]] = {}
    several = [short_course(kernel, row) for row in rows if _stores(row)]
    for launch in islice(launches(kernel, most=1), _MOST_SIZES) if several else ():
        known = next(iter(launch.blocks.values()))
        for course in several:
            stores: dict[str, list[Touch]] = {}
            for one in Run(course, known).events():
                if isinstance(one, Touch) and one.access.writes and _inside(one):
                    stores.setdefault(one.access.tensor, []).append(one)
            for touches in stores.values():
                found.setdefault(course.role.name, set()).update(_again(touches))
    return {name: frozenset(pairs) for name, pairs in found.items()}


def _again(touches: list[Touch]) -> Iterator[tuple[Access, Access]]:
    cells = Cells([one.box for one in touches])
    for number, second in enumerate(touches):
        # Where the role is ordered for the last of them, it is for those before.
        last = next((place for place in reversed(cells.before(number)) if _clash(touches[place], second)), None)
        if last is not None:
            yield touches[last].access, second.access


def _stores(row: RoleAccesses) -> bool:
    """Whether a role may store twice: it has two stores to one tensor, or one in a loop."""
    stores = [one for one in row.accesses if one.writes]
    looped = {number for loop in row.role.loops for number in loop.blocks}
    return len({one.tensor for one in stores}) < len(stores) or any(one.block in looped for one in stores)


def between_roles(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> Met | None:
    """Two roles of a block that use the same elements, and no hand-over between the two, in some launch that was tried."""
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
    return next(
        (
            found
            for launch in islice(launches(kernel, most=1), _MOST_SIZES)
            for found in _unordered(kernel, rows, launch, suspects)
        ),
        None,
    )


def _shares(kernel: Kernel) -> bool:
    """Whether the CTAs of a cluster may hand over to each other, which the run of one does not show."""
    loads = (one for role in kernel.roles for block in role.blocks for one in block.operations if isinstance(one, tree.TmaLoad))
    sides = {pipeline for role in kernel.roles for pipeline in (*role.produces, *role.consumes)}
    return kernel.cluster.size > 1 and (
        any(one.multicast is not None for one in loads)
        or any(pipeline.scope == "cluster" or pipeline.cta_group > 1 or pipeline.kind == SCHEDULER for pipeline in sides)
    )


def _unordered(kernel: Kernel, rows: tuple[RoleAccesses, ...], launch: Launch, suspects: set[str]) -> Iterator[Met]:
    block, known = next(iter(launch.blocks.items()))
    touching = {row.role.name: row for row in rows}
    runs = [Run(Course(touching.get(role.name, RoleAccesses(role, ()))), known) for role in kernel.roles]
    clocks = Clocks([list(run.events()) for run in runs])
    if not all(run.ended for run in runs) or not clocks.ended:
        return  # who waits for whom is not known to the end
    for tensor in sorted(suspects):
        uses = [(role, one) for role, one in clocks.touches if one.touch.access.tensor == tensor and _inside(one.touch)]
        uses = uses[:_MOST_TOUCHES]
        cells = Cells([one.touch.box for _, one in uses])
        for number, (role, second) in enumerate(uses):
            for other, first in (uses[place] for place in cells.before(number)):
                if other != role and _apart_in_time(other, first, role, second):
                    yield Met(
                        (kernel.roles[other], first.touch), (kernel.roles[role], second.touch), (block, block), launch.sizes
                    )


def _apart_in_time(role: int, one: Stamped, partner: int, other: Stamped) -> bool:
    if not _clash(one.touch, other.touch):
        return False
    return other.clock[role] < one.touch.step and one.clock[partner] < other.touch.step
