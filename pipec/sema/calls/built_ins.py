"""Built-in functions that create values: tiles from tensors and numbers, columns, rows, ranges, thread numbers."""

from collections.abc import Callable

from pipec.diag.catalogue.language import types as messages
from pipec.diag.catalogue.tiles import columns as column_messages
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.calls.reductions import row_reduction
from pipec.sema.context import Context
from pipec.sema.declarations.assumptions import assumed_positive
from pipec.sema.language.functions import REDUCTIONS
from pipec.sema.meanings import EXPRESSIONS, Elected, Known, Meaning, Range, describe
from pipec.sema.types import I32, TileType
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.columns import moving_columns
from pipec.sema.values.expected import (
    as_buffer_ref,
    coordinate,
    known,
    known_dtype,
    known_int,
    need_values,
    runtime,
    scalar,
    tensor_slice,
    tile_size,
    value,
)
from pipec.sema.values.groups import ask_for_value
from pipec.sema.values.operators import select
from pipec.syntax import ast

_LONGEST_STEP = 1 << 30  # of a range
_OF_GRID = "grid.", "clusters."  # special values that are at least 1


def select_call(context: Context, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, "select", ("condition", "when_true", "when_false"))
    condition, when_true, when_false = (value(context, bound[name]) for name in ("condition", "when_true", "when_false"))
    if isinstance(condition, Known):
        return when_true if known(context, bound["condition"], bool, "the condition", "a condition") else when_false
    return select(context, condition, when_true, when_false, node.span)


def _load(context: Context, node: ast.Call) -> Meaning:
    one = len(node.arguments) == 1
    if [argument.name for argument in node.arguments] == [None, None]:  # a length alone, as of a vector
        _need_rows(context, tensor_slice(context, node.arguments[0].value, "what is loaded"), node.arguments[0].value)
    names = ("tensor",) if one else ("tensor", "rows", "columns")
    bound = bind_arguments(context, node, "load", names, () if one else ("at",))
    source = tensor_slice(context, bound["tensor"], "what is loaded")
    need_values(context, source.tensor.dtype, "loaded into registers", node.span)
    if one:
        return tree.ReadElement(source, source.tensor.dtype, node.span)
    _need_rows(context, source, bound["tensor"])
    rows, columns = (tile_size(context, bound[name]) for name in ("rows", "columns"))
    at = rows_at(context, rows, bound["at"], "the rows that are loaded") if "at" in bound else None
    return tree.ReadTensor(source, None, TileType(source.tensor.dtype, rows, columns), node.span, at)


def rows_at(context: Context, rows: int, node: ast.Expression, what: str) -> tree.Expression:
    """A number for each row of a tile."""
    at = runtime(context, node, None, what)
    if at.type != TileType(I32, rows, 1):
        expected = f"a tile of `i32` with {rows} rows and one column"
        # Whatever integers they are: those of a tensor of `i64` that holds numbers of rows fit.
        other = isinstance(at.type, TileType) and at.type.dtype.is_integer and at.type == TileType(at.type.dtype, rows, 1)
        hint = f"convert them: `cast[i32]({node.span.text()})`" if other else None
        context.fail(messages.WrongType(what=what, expected=expected, found=describe(at), at=node.span, hint=hint))
    return at


def _fill(context: Context, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, "fill", ("value", "dtype", "rows", "columns"))
    dtype = known_dtype(context, bound["dtype"])
    filler = scalar(context, bound["value"], dtype, "the value of `fill`")
    rows, columns = (tile_size(context, bound[name]) for name in ("rows", "columns"))
    return tree.Splat(filler, TileType(dtype, rows, columns), node.span)


def _vector(axis: int) -> Callable[[Context, ast.Call], Meaning]:
    name = ("per_row", "per_column")[axis]
    size = ("rows", "columns")[axis]

    def load_vector(context: Context, node: ast.Call) -> Meaning:
        bound = bind_arguments(context, node, name, ("tensor", size))
        source = tensor_slice(context, bound["tensor"], "what is loaded")
        need_values(context, source.tensor.dtype, "loaded into registers", node.span)
        count = tile_size(context, bound[size])
        shape = (count, 1) if axis == 0 else (1, count)
        return tree.ReadTensor(source, axis, TileType(source.tensor.dtype, *shape), node.span)

    return load_vector


_SWIZZLED_ROWS = 8  # after which each swizzle pattern begins again (hardware.md 2.3)
_MOST_BOX_ROWS = 256  # of one copy (hardware.md 2.4)
_MOST_AT_ONCE = 32  # elements of a row that a thread handles at a time
_GROUP_COLUMNS = 8  # columns that wgmma distributes over the threads of a row
_HALF_WARP_ROWS, _HALF_WARP_RUNS = 64, 16  # tile rows that the halves of a warp may share, and the column granularity


def _position(axis: int) -> Callable[[Context, ast.Call], Meaning]:
    name = ("row_index", "column_index")[axis]
    size = ("rows", "columns")[axis]

    def number(context: Context, node: ast.Call) -> Meaning:
        bound = bind_arguments(context, node, name, (size,))
        count = tile_size(context, bound[size])
        shape = (count, 1) if axis == 0 else (1, count)
        return tree.Position(axis, TileType(I32, *shape), node.span)

    return number


def _one_column(tile: ast.Expression, first: ast.Expression, type_: TileType) -> str:
    """One column of a tile, whose elements are in one of the threads that share a row: a sum brings them to all of these."""
    zero = "0.0" if type_.dtype.is_float else "0"
    return (
        f"write one column as `row_sum(select(column_index({type_.columns}) == {first.span.text()}, {tile.span.text()}, {zero}))`"
    )


def _columns(context: Context, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, "columns", ("tile", "first", "count"))
    start = context.elaborate(bound["first"])
    if not isinstance(start, Known):
        if isinstance(context.elaborate(bound["tile"]), (tree.Accumulator, *EXPRESSIONS)):
            ask_for_value(context, start)  # registers cannot be indexed
        return moving_columns(context, bound, node)
    operand = runtime(context, bound["tile"], None, "the tile")
    if not isinstance(operand.type, TileType):
        context.fail(messages.WrongType(what="the tile", expected="a tile", found=describe(operand), at=node.span))
    first, count = (known_int(context, bound[name], f"`{name}`") for name in ("first", "count"))
    tile = operand.type
    if count < 1:
        context.fail(
            column_messages.ColumnsCount(count=count, needed="at least one group is needed here", at=bound["count"].span)
        )
    if not (0 <= first and first + count <= tile.columns):
        context.fail(
            messages.WrongType(
                what="the range of columns",
                expected=f"inside the tile's {tile.columns}",
                found=f"{first} to {first + count - 1}",
                at=node.span,
            )
        )
    # The chunk of columns that a thread processes must start at a multiple of its own length, here and in the whole tile.
    unit = max(_HALF_WARP_RUNS if tile.rows == _HALF_WARP_ROWS else _GROUP_COLUMNS, min(_MOST_AT_ONCE, count & -count))
    if count % unit:
        context.fail(
            column_messages.ColumnsCount(
                count=count,
                needed=f"a multiple of {unit} is needed here",
                hint=_one_column(bound["tile"], bound["first"], tile) if count == 1 else None,
                at=bound["count"].span,
            )
        )
    if first % unit:
        context.fail(
            messages.WrongType(
                what="`first`", expected=f"a multiple of {unit} for {count} columns", found=str(first), at=bound["first"].span
            )
        )
    return tree.Columns(operand, first, TileType(tile.dtype, tile.rows, count), node.span)


def _rows(context: Context, node: ast.Call) -> Meaning:
    """Some rows of a stage's tile, for a copy that fills them alone."""
    bound = bind_arguments(context, node, "rows", ("tile", "first", "count"))
    whole = as_buffer_ref(context, context.elaborate(bound["tile"]), bound["tile"].span, "the tile")
    if whole.buffer.space != "shared" or whole.transposed or whole.buffer.dtype.is_scale:
        expected = "a tile in shared memory, in its stored order, and not of scale factors"
        context.fail(messages.WrongType(what="the tile", expected=expected, found=describe(whole), at=bound["tile"].span))
    ask_for_value(context, context.elaborate(bound["first"]))  # the address of each part is one of its own
    first, count = (known_int(context, bound[name], f"`{name}`") for name in ("first", "count"))
    if not (0 <= first < first + count <= whole.buffer.rows):
        expected, found = f"inside the tile's {whole.buffer.rows}", f"{first} to {first + count - 1}"
        context.fail(messages.WrongType(what="the range of rows", expected=expected, found=found, at=node.span))
    if count > _MOST_BOX_ROWS:
        expected = f"at most {_MOST_BOX_ROWS}, as many as one copy takes"
        context.fail(messages.WrongType(what="`count`", expected=expected, found=str(count), at=bound["count"].span))
    if first % _SWIZZLED_ROWS:
        expected = f"a multiple of {_SWIZZLED_ROWS}, where the swizzle pattern begins again"
        context.fail(messages.WrongType(what="`first`", expected=expected, found=str(first), at=bound["first"].span))
    return replace(whole, part=(first, count), span=node.span)


def _need_rows(context: Context, source: tree.TensorSlice, node: ast.Expression) -> None:
    if len(source.coordinates) < 2:
        context.fail(
            messages.WrongType(
                what="the tensor of `load`",
                expected="of two dimensions or more",
                found=f"`{source.tensor.name}` with one dimension, of which `per_row` and `per_column` read a vector",
                at=node.span,
            )
        )


def _special(name: str) -> Callable[[Context, ast.Call], Meaning]:
    def read(context: Context, node: ast.Call) -> Meaning:
        bind_arguments(context, node, name, ())
        return tree.Special(name, I32, node.span)

    return read


def _elect(context: Context, node: ast.Call) -> Meaning:
    bind_arguments(context, node, "elect", ())
    return Elected(node.span)


def _step(context: Context, node: ast.Expression) -> int | tree.Expression:
    found = context.elaborate(node)
    if isinstance(found, tree.Constant) and found.type is I32:
        return int(found.value)
    # The trip count divides by the step: a zero step is undefined, and a negative one would count the other way.
    if not (isinstance(found, EXPRESSIONS) and found.type is I32):
        return known_int(context, node, "the step of a range")
    if _is_fixed(found) and _is_positive(context, found):
        return found
    return known_int(context, node, "the step of a range", _instead(found))


def _is_fixed(expression: tree.Expression) -> bool:
    """The same number in all threads and for the whole launch: it is computed again in each iteration."""
    match expression:
        case tree.Constant() | tree.ReadDimension() | tree.ReadParameter():
            return True
        case tree.Special(name):
            return name.startswith(_OF_GRID)
        case tree.Binary(_, left, right):
            return _is_fixed(left) and _is_fixed(right)
        case tree.Call(_, arguments):
            return all(map(_is_fixed, arguments))
        case _:
            return False


def _is_positive(context: Context, expression: tree.Expression) -> bool:
    """Positive for every launch: a grid has at least one block along each axis, and `assume` says what else is."""
    match expression:
        case tree.ReadDimension(name) | tree.ReadParameter(tree.ScalarParameter(name)):
            return assumed_positive(context, name)
        case tree.Call("min", arguments):
            return all(_is_positive(context, one) for one in arguments)
        case tree.Call("max", arguments):
            return any(_is_positive(context, one) for one in arguments)
        case _:
            return _counts_blocks(expression)


def _counts_blocks(expression: tree.Expression) -> bool:
    """A sum or a product of numbers of blocks, which fits in a register as the grid is launched; those of other sizes may wrap to 0."""
    match expression:
        case tree.Constant(value):
            return value > 0
        case tree.Special(name):
            return name.startswith(_OF_GRID)
        case tree.Binary("+" | "*", left, right):
            return _counts_blocks(left) and _counts_blocks(right)
        case _:
            return False


def _instead(step: tree.Expression) -> str:
    """What to write in place of a step that may be 0 or negative."""
    match step:
        case tree.ReadDimension(name) | tree.ReadParameter(tree.ScalarParameter(name)):
            return f"add `assume({name} > 0)` in front of the roles"
    if _is_fixed(step):
        return f"write `max(1, {step.span.text()})`, which is positive in every launch"
    return "count the turns, `for i in range(turns)`, and work on `start + i * step`"


def _range(context: Context, node: ast.Call) -> Meaning:
    """`range` with one to three arguments, as in Python; the step is a constant, or what is positive in every launch."""
    positional = [argument.value for argument in node.arguments if argument.name is None]
    if len(positional) != len(node.arguments) or not 1 <= len(positional) <= 3:
        context.fail(
            messages.WrongArguments(
                callee="range",
                problem=f"takes 1 to 3 arguments and was given {len(node.arguments)}",
                signature="range(start, stop, step)",
                at=node.span,
            )
        )
    step = _step(context, positional[2]) if len(positional) == 3 else 1
    if isinstance(step, int) and (not 0 < abs(step) <= _LONGEST_STEP):
        too_far = f", beyond {_LONGEST_STEP}" if step else ""
        context.fail(messages.BadRange(found=f"a range with step {step}{too_far}", at=positional[2].span))
    if len(positional) == 1:
        start = tree.Constant(0, I32, node.span)
        return Range(start, scalar(context, positional[0], I32, "the end of a range"), step, node.span)
    return Range(coordinate(context, positional[0]), scalar(context, positional[1], I32, "the end of a range"), step, node.span)


BUILT_IN_CALLS: dict[str, Callable[[Context, ast.Call], Meaning]] = {
    "select": select_call,
    "load": _load,
    "fill": _fill,
    "per_row": _vector(0),
    "per_column": _vector(1),
    "row_index": _position(0),
    "column_index": _position(1),
    "columns": _columns,
    "rows": _rows,
    "lane_id": _special("lane_id"),
    "role_thread": _special("role_thread"),
    "role_warp": _special("role_warp"),
    "elect": _elect,
    "range": _range,
    **dict.fromkeys(REDUCTIONS, row_reduction),
}
