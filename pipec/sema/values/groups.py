"""K groups: stages with several tiles of each payload member, selected by a compile-time index.

A `for` over a constant range whose variable selects such a tile is unrolled: its body is first analysed as a loop; when an index needs the
value of the variable, that attempt is undone and the body is analysed once per value.
"""

from pipec.diag.catalogue.language import types as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import Known, Meaning, TileGroup, describe
from pipec.source import Span


class NeedsValue(Exception):
    """An index needs the compile-time value of this loop variable. Caught where its loop is analysed."""

    def __init__(self, variable: tree.Variable) -> None:
        super().__init__(variable.name)
        self.variable = variable


def tile_group(context: Context, pipeline: tree.Pipeline, handle: tree.Handle | None, name: str, span: Span) -> TileGroup | None:
    """The tiles of one payload member; None when the pipeline has no such member."""
    tiles = tuple(buffer for buffer in context.buffers.get(pipeline, ()) if buffer.member == name and buffer.space == "shared")
    return TileGroup(tiles, handle, span) if tiles else None


def pick(context: Context, group: TileGroup, index: Meaning, span: Span, at: Span) -> tree.BufferRef:
    """The tile of the group at `index`, an expression at `at`."""
    assert group.handle is not None
    place = known_place(context, index, len(group.tiles), at)
    return tree.BufferRef(group.tiles[place], group.handle, False, span)


def known_place(context: Context, index: Meaning, count: int, at: Span) -> int:
    """The compile-time index of one of `count` items. Raises NeedsValue for the variable of a constant loop."""
    ask_for_value(context, index)
    if not isinstance(index, Known):
        expected = "known while compiling: a number, or the variable of a `for` over a constant range"
        context.fail(messages.WrongType(what="the place in a group", expected=expected, found=describe(index), at=at))
    place = index.value
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < count:
        expected = "0" if count == 1 else f"between 0 and {count - 1}"
        context.fail(messages.WrongType(what="the place in a group", expected=expected, found=describe(index), at=at))
    return place


def ask_for_value(context: Context, index: Meaning) -> None:
    """Raises NeedsValue if the value of a constant loop's variable would make the index known."""
    variable = None if isinstance(index, Known) else _unrollable(context, index)
    if variable is not None:
        raise NeedsValue(variable)


def _unrollable(context: Context, index: Meaning) -> tree.Variable | None:
    match index:
        case tree.ReadVariable(variable):
            return variable if variable in context.unrollable else None
        case tree.Binary():
            return _unrollable(context, index.left) or _unrollable(context, index.right)
        case tree.Unary() | tree.Convert() | tree.Bitcast():
            return _unrollable(context, index.operand)
        case _:
            return None
