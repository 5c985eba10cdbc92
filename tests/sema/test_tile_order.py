"""The order of tiles: the compiled index arithmetic gives every place exactly one index, in the order that the documents say."""

import itertools
import operator
import random

import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.sema import tree
from pipec.source import Source

MASK = 2**32 - 1
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}


def source(extents: str, options: str = "") -> str:
    return f"""kernel k(out: tensor[i32, M, 4], X: i32, Y: i32, Z: i32):
    tiles = TileScheduler({extents}{options})
    role one(warps=1):
        for tile in tiles:
            store.direct(out[tile.x + tile.y, tile.z], fill(tile.index, i32, 1, 1))
"""


def analysed(extents: str, options: str = "") -> tree.Kernel:
    state = compile_source(Source("t.pipe", source(extents, options)), Options(), "analyse")
    assert state.diagnostics == [] and state.trees
    return state.trees[0]


def places(kernel: tree.Kernel, sizes: dict[str, int], count: int) -> list[tuple[int, int, int]]:
    """The place of each tile, by evaluating what the loop's head computes."""
    return places_of(kernel, sizes, np.arange(count))


def places_of(kernel: tree.Kernel, sizes: dict[str, int], indices: np.ndarray) -> list[tuple[int, int, int]]:
    (loop,) = (statement for statement in kernel.roles[0].body if isinstance(statement, tree.For))
    assignments = [statement for statement in loop.body if isinstance(statement, tree.Assign)]
    values = {"tile.index": indices}
    for one in assignments:
        if one.variable.name != "tile.index":
            values[one.variable.name] = numbers(one.value, sizes, values)
    axes = [np.broadcast_to(values[f"tile.{axis}"], len(indices)).tolist() for axis in "xyz"]
    return [*zip(*axes, strict=True)]


def numbers(expression: tree.Expression, sizes: dict[str, int], values: dict[str, np.ndarray]) -> np.ndarray:
    """The value for every tile, exactly."""
    match expression:
        case tree.Constant(value):
            return np.asarray(int(value))
        case tree.ReadParameter(parameter):
            return np.asarray(sizes[parameter.name])
        case tree.ReadVariable(variable):
            return values[variable.name]
        case tree.Convert(operand):
            return numbers(operand, sizes, values)
        case tree.Call("min", (left, right)):
            return np.minimum(numbers(left, sizes, values), numbers(right, sizes, values))
        case tree.Binary(symbol, left, right):
            result = OPERATORS[symbol](numbers(left, sizes, values), numbers(right, sizes, values))
            assert (0 <= result).all() and (result <= MASK).all(), "unsigned arithmetic must not wrap"
            return result
        case _:
            raise AssertionError(expression)


def expected(x: int, y: int, z: int, group: int | None) -> list[tuple[int, int, int]]:
    """Written down as walks, not as index arithmetic."""
    strips = [range(first, min(first + (group or x), x)) for first in range(0, x, group or x)]
    return [(i, j, k) for k in range(z) for strip in strips for j in range(y) for i in strip]


@pytest.mark.parametrize("group", [None, 1, 2, 3, 4, 8, 100])
def test_each_place_once_and_in_order(group: int | None) -> None:
    kernel = analysed("X, Y, Z", "" if group is None else f", group={group}")
    sizes = [*itertools.product((1, 2, 3, 4, 5, 9), repeat=3)]
    generator = random.Random(group or 0)
    sizes += [tuple(generator.randint(1, 20) for _ in range(3)) for _ in range(10)]
    for x, y, z in sizes:
        found = places(kernel, {"X": x, "Y": y, "Z": z}, x * y * z)
        assert found == expected(x, y, z, group)
        assert sorted(found) == [*itertools.product(range(x), range(y), range(z))]


@pytest.mark.parametrize(
    ("extents", "shape"), [("X", (7, 1, 1)), ("X, Y", (7, 5, 1)), ("1, Y", (1, 5, 1)), ("6, 4, Z", (6, 4, 3))]
)
@pytest.mark.parametrize("group", [None, 4])
def test_axes_that_have_one_tile_or_are_constants(extents: str, shape: tuple[int, int, int], group: int | None) -> None:
    kernel = analysed(extents, "" if group is None else f", group={group}")
    x, y, z = shape
    assert places(kernel, {"X": x, "Y": y, "Z": z}, x * y * z) == expected(x, y, z, group)


@pytest.mark.parametrize("shape", [(2, 2**29, 1), (2**29, 2, 1), (1, 2**30, 1), (3, 5, 2**26), (2**15, 2**15, 1)])
@pytest.mark.parametrize("group", [None, 1, 8, 2**31 - 1])
def test_no_number_on_the_way_is_too_large(shape: tuple[int, int, int], group: int | None) -> None:
    """The formula of the documents, backwards: from places to their indices."""
    kernel = analysed("X, Y, Z", "" if group is None else f", group={group}")
    x, y, z = shape
    total = x * y * z
    indices = np.unique(
        np.concatenate((np.arange(50), np.arange(total - 50, total), np.linspace(0, total - 1, 1000, dtype=np.int64)))
    )
    for index, (i, j, k) in zip(indices, places_of(kernel, {"X": x, "Y": y, "Z": z}, indices), strict=True):
        size = min(group or x, x)
        first = i // size * size
        assert 0 <= i < x and 0 <= j < y and 0 <= k < z
        assert index == first * y + j * min(x - first, size) + (i - first) + x * y * k


def test_only_what_is_asked_for_is_computed() -> None:
    text = source("X, Y, Z").replace("tile.x + tile.y, tile.z", "0, 0")
    state = compile_source(Source("t.pipe", text), Options(), "analyse")
    assert state.trees
    (loop,) = (statement for statement in state.trees[0].roles[0].body if isinstance(statement, tree.For))
    assert [one.variable.name for one in loop.body if isinstance(one, tree.Assign)] == ["tile.index"]


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 148])
@pytest.mark.parametrize("tiles", [1, 2, 3, 7, 148, 149, 1000])
def test_shares_of_the_static_mode_cover_all_tiles(workers: int, tiles: int) -> None:
    """`for index in range(own, tiles, blocks)` of min(tiles, blocks) workers."""
    kernel = analysed("X", f", blocks={workers}")
    (loop,) = (statement for statement in kernel.roles[0].body if isinstance(statement, tree.For))
    assert loop.step == workers
    launched = min(tiles, workers)
    shares = [list(range(own, tiles, loop.step)) for own in range(launched)]
    assert sorted(itertools.chain(*shares)) == list(range(tiles))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
