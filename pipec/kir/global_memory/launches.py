"""The launches that are sampled: a few sizes that a kernel admits, and the first blocks of each grid."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, permutations, product
from math import lcm
from typing import Literal

from pipec.interface import MULTIPROCESSORS
from pipec.isa.dtypes import DType
from pipec.isa.specials import AXES
from pipec.kir.global_memory.places import TileBox
from pipec.kir.global_memory.runs import Box
from pipec.kir.global_memory.scalars import Scalars, Unknown
from pipec.kir.ir import Kernel, Role
from pipec.kir.plan.roles import expressions
from pipec.kir.walk import children, subexpressions
from pipec.record import record, replace
from pipec.sema import tree
from pipec.terms.term import LAUNCH, Atom, Operator, Term, as_term
from pipec.terms.walk import leaves
from pipec.verify.conditions import condition_data, met
from pipec.verify.terms import Both, Compare, Floor, Formula, Linear, Relation, Symbol, substitute, symbols_in, symbols_of

Position = tuple[int, int, int]

# Values for dimensions and for scalar parameters.
SIZES = ((256, 2), (144, 3), (640, 1), (48, 4), (2048, 3))
# Loops that end at a parameter go round often enough, too; and in a small tensor tiles at its two ends overlap.
IN_BLOCK = ((256, 2), (144, 3), (640, 17), (40, 1))
WHOLE_TILES = ((640, 1), (2048, 3), (256, 2))  # enough of them to reach the tiles of another block
# An odd number of tiles of any usual size, and no multiple of 3 of them: a share that is rounded begins inside of a neighbour's.
ODD_TILES = ((1537, 1), (3073, 3))
# For dimensions that differ: `t // rows` in place of `t // columns` is right where there are as many of both. The first are sizes at which
# blocks that have a number for each index of several dimensions meet soon, the last those with several of the largest tiles.
UNEVEN = ((3, 2), (2, 3)), ((48, 2), (16, 3)), ((640, 1), (384, 2))
FAR = ((1 << 20, 1 << 16), (1 << 19, 1 << 15))  # enough of them to reach a block that the kernel names
# Dimensions and parameters each go round their own numbers, small beside large: as five and seven have no common divisor, every dimension
# comes to meet every parameter, and two of a kind are in either order.
_DIMENSIONS = 40, 600, 24, 2056, 136  # odd numbers of the smallest tiles
_PARAMETERS = 3, 1, 4, 2, 17, 130, 5
_FLOATS = 1, 0, -1  # for parameters that are no integers
_LONG = (20480, 300), (19000, 257)  # hundreds of tiles
_TIMES_AS_FAR = 8
_UNREAD = 1 << 16  # of which the kernel reads nothing: it ends a tensor, and no tile shall lie beyond
_UNLIKE = len(_DIMENSIONS) * len(_PARAMETERS)
_FAR_POWERS = range(21, 31)
_CONSECUTIVE = 2
_POWERS = range(8, 18)  # of two: sizes of which the first that gives a grid several blocks is taken
_SEVERAL = 8, 16  # and multiplied by these, to reach the blocks whose small numbers a kernel names
_PACKED_ROW, _ROW = 128, 16  # elements that the length of a row is a multiple of
_TIMES = 4  # the largest multiple of a size among dimensions that differ, and tiles in a row
_MULTIPROCESSORS = 3
_MOST_BLOCKS = 128  # of one launch
_LARGEST_GRID = (1 << 31) - 1, 65535, 65535
_MOST_NEAR = 12
_LARGEST_TRIED = 1 << 16
_NAMED = 48  # the smallest block number that is sampled explicitly
_MOST_NAMED = 4
_BITS = 32  # of a block's number
_COMPARED = frozenset(("//", "%", "&", "<", "<=", ">", ">=", "==", "!=", "min", "max"))


@record
class Launch:
    """`sizes`: of dimensions and parameters. `blocks`: the blocks to run, each with its hardware values; `times`: how often as far as
    usual."""

    sizes: Mapping[str, int]
    blocks: Mapping[Position, Mapping[str, int]]
    times: int = 1


def named_sizes(kernel: Kernel) -> set[str]:
    return {size for tensor in kernel.tensors for size in tensor.shape if isinstance(size, str)}


def far_blocks(kernel: Kernel, named: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Sizes at which a grid reaches the blocks that the kernel names; `FAR` if none does."""
    powers = ((1 << power, 1 << power) for power in _FAR_POWERS)
    sizes = (FAR, *zip(*[powers] * _CONSECUTIVE, strict=False))
    return next((tried for tried in sizes if all(max(_extents(kernel, one)) > named[-1] + 1 for one in tried)), FAR)


def _extents(kernel: Kernel, tried: tuple[int, int]) -> tuple[int, ...]:
    """Of the grid at a size; ones if there is no launch."""
    launch = next(launches(kernel, (tried,), most=1), None)
    known = next(iter(launch.blocks.values())) if launch is not None else {}
    return tuple(known.get(f"grid.{axis}", 1) for axis in AXES)


def several_blocks(kernel: Kernel) -> tuple[tuple[int, int], ...]:
    """Sizes at which a grid has several blocks along each axis along which it ever has, as `ceildiv(N, 4096)` has at few of the usual
    ones; none if those of `WHOLE_TILES` are such. A parameter that the grid counts by, `ceildiv(n, 128)`, is as large as a dimension, and
    negative if only then there are several, as in `-n`."""
    counted = any(isinstance(node, tree.ReadParameter) for extent in kernel.grid for node in subexpressions(extent))

    def axes(tried: tuple[int, int]) -> set[str]:
        return {axis for axis, extent in zip(AXES, _extents(kernel, tried), strict=True) if extent > 1}

    sizes = [(1 << power, 1 << power if counted else 3) for power in _POWERS]
    negative = [(size, -count) for size, count in sizes if counted]
    if negative and axes(negative[-1]) > axes(sizes[-1]):
        sizes = negative
    most = axes(sizes[-1])
    if all(axes(tried) >= most for tried in WHOLE_TILES):
        return ()
    size, count = next(tried for tried in sizes if axes(tried) >= most)
    return tuple((size * times, count * times if counted else count) for times in _SEVERAL)


def launches(
    kernel: Kernel,
    tried: tuple[tuple[int, int], ...] = SIZES,
    *,
    most: int | None = None,
    named: tuple[int, ...] = (),
    uneven: Literal["", "up", "down"] = "",
) -> Iterator[Launch]:
    """Launches that the kernel's `assume` admits, with at most this many of their blocks, including those at the numbers `named`.
    `uneven`: dimensions are one, two ... times a size in the order of their names, or in the opposite one."""
    names = sorted(named_sizes(kernel), reverse=uneven == "down")
    times = _TIMES if uneven else 1
    for base in tried:
        choices = (
            _rounded(kernel, {name: size * (1 + at % times) for at, name in enumerate(names)}, in_rows=bool(uneven))
            | dict.fromkeys(integer_parameters(kernel), count)
            for size, count in (base, *_near(kernel, base))
        )
        # Sizes that the others determine are last: as they are chosen, all are alike.
        launch = _launch(kernel, (each for one in choices for each in (one, _agreed(kernel, one))), most, named)
        if launch is not None:
            yield launch


def unusual(kernel: Kernel, *, most: int | None = None) -> Iterator[Launch]:
    """Launches at which a mistake shows that does not at the usual sizes."""
    yield from at_the_edge(kernel, most=most)
    yield from at_constants(kernel, most=most)
    yield from unlike(kernel, most=most)


def of_long_loops(kernel: Kernel) -> Iterator[Launch]:
    """Launches of which one block is run a long way, as to the second tile of a slot `t % 100`."""
    for tried in _LONG:
        launch = _launch(kernel, _admitted(kernel, _alike(kernel, *tried)), 1)
        if launch is not None:
            yield replace(launch, times=_TIMES_AS_FAR)


def unlike(kernel: Kernel, *, most: int | None = None) -> Iterator[Launch]:
    """Launches in which dimensions and parameters differ from each other, each larger than others in some and smaller in some:
    `x * rows + y` in place of `x * columns + y` is right where there are no more columns than rows."""
    read = _read_sizes(kernel)
    dimensions, parameters, floats = sorted(named_sizes(kernel) & read), integer_parameters(kernel), _float_parameters(kernel)
    for step in range(_UNLIKE if len(dimensions) + len(parameters) > 1 or floats else 0):
        sizes = dict.fromkeys(named_sizes(kernel) - read, _UNREAD)
        sizes |= {name: _of_walk(_DIMENSIONS, step, at) for at, name in enumerate(dimensions)}
        counts = {name: _of_walk(_PARAMETERS, step, at) for at, name in enumerate(parameters)}
        counts |= {name: _FLOATS[(at + step // len(_PARAMETERS)) % len(_FLOATS)] for at, name in enumerate(floats)}
        launch = _launch(kernel, _admitted(kernel, _rounded(kernel, sizes, in_rows=True) | counts), most)
        if launch is not None:
            yield launch


def _of_walk(numbers: tuple[int, ...], step: int, at: int) -> int:
    """Of the sizes that a kernel has, the one in this place goes ahead of the first: by more places each time that has been round."""
    return numbers[(step + at * (1 + step // len(numbers) % (len(numbers) - 1))) % len(numbers)]


def _read_sizes(kernel: Kernel) -> set[str]:
    """The dimensions that the kernel computes with, or assumes something of."""
    nodes = [one for extent in kernel.grid for one in subexpressions(extent)]
    nodes += [one for role in kernel.roles for one in expressions(role)]
    assumed = {symbol.name for one in kernel.assumptions for symbol in symbols_in(one.formula)}
    return {one.name for one in nodes if isinstance(one, tree.ReadDimension)} | assumed


def _admitted(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
    """The sizes, and ones nearby that fit what the kernel assumes."""
    units = _assumed_units(kernel)
    whole = {**sizes, **{name: -(-sizes[name] // unit) * unit for name, unit in units.items()}}
    return (each for one in ((sizes, whole) if units else (sizes,)) for each in (one, _agreed(kernel, one)))


def _assumed_units(kernel: Kernel) -> dict[str, int]:
    """Of which numbers sizes and parameters are assumed to be multiples: 64, by `K % 64 == 0`."""
    found: dict[str, int] = {}
    for relation, form in (each for one in kernel.assumptions for each in _relations(one.formula)):
        for one, _ in form.terms if relation == "eq" else ():
            if isinstance(one, Floor) and len(one.form.terms) == 1 and isinstance(symbol := one.form.terms[0][0], Symbol):
                found[symbol.name] = lcm(found.get(symbol.name, 1), one.divisor)
    return found


def at_the_edge(kernel: Kernel, *, most: int | None = None) -> Iterator[Launch]:
    """Launches that the kernel's `assume` only just admits: with `n * 64 + 64 >= M` the smallest such `n`."""
    parameters = integer_parameters(kernel)
    for tried in SIZES if any(kernel.assumptions) and parameters else ():
        one = _alike(kernel, *tried)
        edge = _agreed(kernel, one, frozenset(parameters))
        launch = _launch(kernel, _admitted(kernel, edge), most) if edge != one else None
        if launch is not None:
            yield launch


def at_constants(kernel: Kernel, *, most: int | None = None) -> Iterator[Launch]:
    """Launches in which a size or parameter is a number with which a role compares it, or next to it."""
    for name, value in _constants(kernel):
        for off, tried in product((0, 1, -1), SIZES[:2]):
            launch = _launch(kernel, _admitted(kernel, _alike(kernel, *tried) | {name: value + off}), most)
            if launch is not None:
                yield launch


def _constants(kernel: Kernel) -> list[tuple[str, int]]:
    found: dict[tuple[str, int], None] = {}
    for _, number, term in _compared_numbers(kernel):
        ((atom, factor),) = term.parts if len(term.parts) == 1 else ((None, 1),)
        if atom is not None and atom.operator in LAUNCH:
            named = atom.operands[0]
            name = named.name if isinstance(named, tree.ScalarParameter) else str(named)
            if name in named_sizes(kernel) or name in integer_parameters(kernel):
                found[name, (number - term.constant) // factor] = None
    return list(islice(found, _MOST_NAMED))


def _compared_numbers(kernel: Kernel) -> Iterator[tuple[Role, int, Term]]:
    """Constants with which roles compare something, or by which they divide it."""
    for role in kernel.roles:
        for node in expressions(role):
            compares = (isinstance(node, tree.Binary) and node.operator in _COMPARED) or (
                isinstance(node, tree.Call) and node.function in _COMPARED
            )
            for here, other in permutations(children(node)[:2]) if compares else ():
                number = role.values.of(here).number
                if number is not None:
                    yield role, number, role.values.of(other)


def _alike(kernel: Kernel, size: int, count: int) -> dict[str, int]:
    return _rounded(kernel, dict.fromkeys(named_sizes(kernel), size)) | dict.fromkeys(integer_parameters(kernel), count)


def _float_parameters(kernel: Kernel) -> list[str]:
    return [one.name for one in kernel.scalars if isinstance(one.type, DType) and one.type.is_float]


def integer_parameters(kernel: Kernel) -> list[str]:
    return [one.name for one in kernel.scalars if isinstance(one.type, DType) and one.type.is_integer]


def _rounded(kernel: Kernel, sizes: Mapping[str, int], *, in_rows: bool = False) -> dict[str, int]:
    """Dimensions of these sizes, or the next larger ones that rows of elements may have; `in_rows`: of any elements, not of packed ones
    alone."""
    packed = {tensor.shape[-1] for tensor in kernel.tensors if tensor.dtype.is_packed}
    rows = {tensor.shape[-1] for tensor in kernel.tensors} if in_rows else set()
    units = {name: _PACKED_ROW if name in packed else _ROW if name in rows else 1 for name in sizes}
    return {name: -(-size // units[name]) * units[name] for name, size in sizes.items()}


def _launch(
    kernel: Kernel, choices: Iterable[Mapping[str, int]], most: int | None = None, named: tuple[int, ...] = ()
) -> Launch | None:
    """Of the first sizes that the kernel's `assume` admits; None if there are none, or they are of no launch."""
    chosen = next((one for one in choices if all(met(each.formula, one) for each in kernel.assumptions)), None)
    if chosen is None:
        return None
    sizes = {**dict.fromkeys(_float_parameters(kernel), _FLOATS[0]), **chosen}
    try:
        grid = tuple(map(Scalars({**sizes, MULTIPROCESSORS: _MULTIPROCESSORS}).value, kernel.grid))
    except Unknown:
        return None
    if any(
        not 0 < extent <= limit or extent % width
        for extent, limit, width in zip(grid, _LARGEST_GRID, kernel.cluster.shape, strict=True)
    ):
        return None
    return Launch(sizes, dict(islice(_blocks(kernel, sizes, grid, named), most)))


def _agreed(kernel: Kernel, sizes: Mapping[str, int], bounded: frozenset[str] = frozenset()) -> Mapping[str, int]:
    """The sizes, with those replaced that the kernel's `assume` computes from others: `G` in `G == ceildiv(K, 128)`. Those of `bounded`
    also where it says how large or small they may be at most, beside others."""
    settled: dict[str, int] = {}
    for relation, form in (each for one in kernel.assumptions for each in _relations(one.formula)):
        numbers = {Symbol(name): Linear(size) for name, size in {**sizes, **settled}.items()}
        for one, times in form.terms if relation == "eq" or len(form.terms) > 1 else ():
            rest = Linear(form.constant, tuple([term for term in form.terms if term[0] != one]))
            name = one.name if isinstance(one, Symbol) else ""
            settles = abs(times) == 1 if relation == "eq" else name in bounded
            if settles and name and name not in settled and one not in symbols_of(rest):
                value = substitute(rest, numbers)
                if not value.terms:
                    # The least, or the largest, of which the form is not negative.
                    settled[name] = -(value.constant // times) if times > 0 else value.constant // -times
                    break
    return {**sizes, **settled}


def _relations(condition: Formula) -> Iterator[tuple[Relation, Linear]]:
    """Forms that are 0, or not negative, wherever the condition holds."""
    match condition:
        case Compare("eq" | "ge" as relation, form):
            yield relation, form
        case Both(parts):
            for part in parts:
                yield from _relations(part)


def _near(kernel: Kernel, base: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Replacements for sizes that the kernel does not admit: near the constants that it compares sizes with."""
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


def sizes_at_which_they_meet(pairs: Iterable[tuple[TileBox, TileBox]]) -> tuple[tuple[int, int], ...]:
    """A size or parameter can be chosen so that a tile that stands at it begins where another one does, as `M - 1000` does at 0."""
    ends = (axis for place, other in pairs for axis in zip(place.corner, other.corner, strict=True))
    found = (one for one in dict.fromkeys(map(_meeting, ends)) if one is not None)
    return tuple(islice(found, _MOST_NEAR))


def sizes_of_several_tiles(places: Iterable[TileBox]) -> tuple[tuple[int, int], ...]:
    """A size and a parameter by which loops go over several of the longest tiles, if those of `IN_BLOCK` may end inside the first."""
    numbers = (
        abs(one)
        for place in places
        for corner, extent in zip(place.corner, place.extent, strict=True)
        for one in (extent or 0, corner.constant, *(factor for _, factor in corner.parts))
    )
    longest = max((one for one in numbers if one <= _LARGEST_TRIED), default=0)
    return ((_TIMES * longest, _TIMES * longest),) if longest >= IN_BLOCK[0][0] else ()


def _meeting(ends: tuple[Term, Term]) -> tuple[int, int] | None:
    """A size of dimensions and a parameter, of which the difference of the two has one."""
    one, other = ends
    of_launch = [(atom, factor) for atom, factor in (one - other).parts if atom.operator in LAUNCH]
    if len(of_launch) != 1:
        return None
    ((atom, factor),) = of_launch
    value = (other.constant - one.constant) // factor
    reach = abs(one.constant) + abs(other.constant) + IN_BLOCK[0][0]
    if not 0 < value <= _LARGEST_TRIED:
        return None
    return (value, IN_BLOCK[0][1]) if atom.operator is Operator.DIMENSION else (reach, value)


def numbers_of_blocks(kernel: Kernel) -> tuple[int, ...]:
    """The larger numbers of blocks on which the behaviour of a role depends, as in `block.x % 1000` and in `block.x * 64 % 64000` or, with
    256, `cast[i8](block.x)`."""
    found = {
        number // times
        for _, number, term in _compared_numbers(kernel)
        for times in _times_block(term)
        if number // times >= _NAMED
    }
    found |= {
        1 << node.type.bits
        for role in kernel.roles
        for node in expressions(role)
        if isinstance(node, tree.Convert) and isinstance(node.type, DType) and node.type.is_integer and node.type.bits < _BITS
        and _times_block(role.values.of(node.operand))
    }  # fmt: skip
    return tuple(sorted(found)[:_MOST_NAMED])


def _times_block(term: Term) -> set[int]:
    """By what a term multiplies what it consists of that depends on a block's index."""
    return {abs(factor) for atom, factor in term.parts if any(_is_of_block(one) for one in leaves(as_term(atom)))}


def _is_of_block(atom: Atom) -> bool:
    return atom.operator is Operator.SPECIAL and "." in str(atom.operands[0])


def _blocks(
    kernel: Kernel, sizes: Mapping[str, int], grid: tuple[int, ...], named: tuple[int, ...]
) -> Iterator[tuple[Position, Mapping[str, int]]]:
    """The corners of the grid and of its first cluster, blocks at named numbers, then the first blocks along each axis."""
    shape = kernel.cluster.shape
    axes = sum(extent > 1 for extent in grid)
    each = round(_MOST_BLOCKS ** (1 / axes)) if axes else 1
    marks = {at for number in named[: _MOST_NAMED // max(axes, 1)] for at in (number - 1, number, number + 1, 2 * number)}
    corners = [{0, width - 1, width, extent - 1, *marks} for extent, width in zip(grid, shape, strict=True)]
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
    """Which of several boxes may overlap: space is divided into cells as large as the largest box."""

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
        """The boxes with smaller numbers, in order."""
        return sorted({one for cell in self._cells[number] for one in self._numbers[cell] if one < number})
