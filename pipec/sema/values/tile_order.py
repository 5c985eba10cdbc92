"""Tiles in scheduler order: from a tile's index to its coordinates.

Tile 0 is (0, 0, 0). Without a group x runs fastest, then y, then z:

    index = x + X * (y + Y * z)

With `group=G` the tiles of one z are cut into strips of G values of x (the last strip has the remainder). Each strip is traversed y by y,
so that concurrent blocks share G rows and few columns of the operands:

    index = strip * G * Y + y * width + (x - strip * G) + X * Y * z,    width = min(X - strip * G, G)

All numbers are non-negative and below 2**31, so the arithmetic is unsigned, where division needs no sign correction.
"""

from pipec.isa.specials import AXES
from pipec.sema import tree
from pipec.sema.meanings import Tile
from pipec.sema.types import I32, U32
from pipec.source import Span
from pipec.vocabulary import BinaryOperator


class Order:
    """The coordinates of the tile with number `index`; `name` is the loop's variable, `at` its span."""

    def __init__(self, schedule: tree.Schedule, name: str, index: tree.Variable, at: Span) -> None:
        self._schedule, self._name, self._index, self._at = schedule, name, index, at
        self._assignments: list[tree.Assign] = []

    def assignments(self, wanted: dict[str, tree.Variable]) -> list[tree.Assign]:
        """The assignments to the coordinates (axis -> i32 variable), in order of evaluation."""
        if wanted:
            places = self._places()
            for axis, variable in wanted.items():
                self._assignments.append(tree.Assign(variable, tree.Convert(places[axis], I32, self._at), self._at))
        return self._assignments

    def _places(self) -> dict[str, tree.Expression]:
        """An axis with one tile has coordinate 0, which needs no division."""
        x, y, z = (self._unsigned(extent) for extent in self._schedule.extents)
        index, plane = self._unsigned(tree.ReadVariable(self._index, self._at)), _product(x, y)
        if _is_one(z):
            return {**self._in_plane(index, x, y), "z": self._constant(0)}
        inside = self._named("in_plane", self._binary("%", index, plane))
        return {**self._in_plane(inside, x, y), "z": self._binary("//", index, plane)}

    def _in_plane(self, inside: tree.Expression, x: tree.Expression, y: tree.Expression) -> dict[str, tree.Expression]:
        if _is_one(y):
            return {"x": inside, "y": self._constant(0)}
        if self._schedule.group is None or _is_one(x):
            return {"x": self._binary("%", inside, x), "y": self._binary("//", inside, x)}
        group = self._constant(self._schedule.group)
        # No strip is wider than the plane, so its tile count is at most that of the plane: the product stays below 2**31.
        strip = _product(tree.Call("min", (x, group), U32, self._at), y)
        first = self._named("first", self._binary("*", self._binary("//", inside, strip), group))
        rest = self._named("in_strip", self._binary("%", inside, strip))
        left = tree.Call("min", (self._binary("-", x, first), group), U32, self._at)
        width = self._named("width", left, usual=_power_of_two(self._schedule.group))  # less in the last strip alone
        return {"x": self._binary("+", first, self._binary("%", rest, width)), "y": self._binary("//", rest, width)}

    def _named(self, part: str, value: tree.Expression, usual: int | None = None) -> tree.Expression:
        """Computed once, read several times: GPUs have no integer divider, so each division is a long instruction sequence."""
        variable = tree.Variable(f"{self._name}.{part}", U32, self._at, usual=usual)
        self._assignments.append(tree.Assign(variable, value, self._at))
        return tree.ReadVariable(variable, self._at)

    def _binary(self, operator: BinaryOperator, left: tree.Expression, right: tree.Expression) -> tree.Expression:
        return tree.Binary(operator, left, right, U32, self._at)

    def _constant(self, value: int) -> tree.Expression:
        return tree.Constant(value, U32, self._at)

    def _unsigned(self, value: tree.Expression) -> tree.Expression:
        # Unsigned division is floor division. A signed one would need a correction for negative numbers, which do not occur.
        if isinstance(value, tree.Constant):
            return tree.Constant(value.value, U32, value.span)
        return tree.Convert(value, U32, value.span)


def tile_count(schedule: tree.Schedule) -> tree.Expression:
    """The number of tiles, i32."""
    x, y, z = schedule.extents
    return _product(_product(x, y), z)


def _product(left: tree.Expression, right: tree.Expression) -> tree.Expression:
    if _is_one(left):
        return right
    return left if _is_one(right) else tree.Binary("*", left, right, left.type, left.span)


def _power_of_two(number: int) -> int | None:
    return number if number > 1 and number & (number - 1) == 0 else None


def _is_one(value: tree.Expression) -> bool:
    return isinstance(value, tree.Constant) and value.value == 1


def tile_place(tile: Tile, axis: str, span: Span) -> tree.Expression | None:
    """`tile.x` and the like, `tile.index`; None for any other member."""
    if axis == "index":
        return tree.ReadVariable(tile.index, span)
    if axis not in AXES:
        return None
    # Only the coordinates that the body reads are computed: each costs a division or a remainder per tile.
    variable = tile.places.setdefault(axis, tree.Variable(f"{tile.name}.{axis}", I32, tile.index.span))
    return tree.ReadVariable(variable, span)
