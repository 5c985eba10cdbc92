"""An expression read as its context expects: a value, a compile-time number, a tile, a place in a tensor."""

from typing import TypeVar

from pipec.diag.catalogue.grid import clusters as cluster_messages
from pipec.diag.catalogue.language import constants as constants_messages
from pipec.diag.catalogue.language import types as types_messages
from pipec.diag.catalogue.tiles import scaling as scaling_messages
from pipec.isa.dtypes import DType
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import EXPRESSIONS, EpilogueStage, Known, Meaning, Token, advice, describe
from pipec.sema.types import I32, TileType
from pipec.sema.values import arithmetic
from pipec.source import Span
from pipec.syntax import ast

Value = Known | tree.Expression
Kind = TypeVar("Kind")


def value(context: Context, node: ast.Expression, what: str = "the value") -> Value:
    """A number or tile, at compile time or run time."""
    meaning = context.elaborate(node)
    return as_value(context, meaning, node.span, what)


def as_value(context: Context, meaning: Meaning, span: Span, what: str) -> Value:
    """The value of a meaning; a stage or tile stands for its elements."""
    if isinstance(meaning, Known) and not isinstance(meaning.value, str | DType):
        return meaning
    if isinstance(meaning, EXPRESSIONS):
        return meaning
    if isinstance(meaning, tree.Accumulator):
        return tree.ReadAccumulator(meaning, span)
    if isinstance(meaning, EpilogueStage):
        meaning = meaning.output
    if isinstance(meaning, Token):
        # A program may branch on a peek, in addition to the wait that consumes it.
        return tree.ReadVariable(meaning.ready, span)
    # A stage with several tiles is ambiguous, and is reported below as not being a value.
    if isinstance(meaning, tree.Handle) and len(context.buffers.get(meaning.pipeline, ())) == 1:
        meaning = reference(context, meaning, span)
    if isinstance(meaning, tree.BufferRef):
        _need_whole(context, meaning, what, span)
        buffer = meaning.buffer
        rows, columns = (buffer.columns, buffer.rows) if meaning.transposed else (buffer.rows, buffer.columns)
        if meaning.transposed and (rows == 1 or columns > 1 or buffer.space == "tensor"):
            found = "a transposed view, which only `mma` takes; values are read so from tiles of one row"
            context.fail(types_messages.WrongType(what=what, expected="a tile in its stored order", found=found, at=span))
        need_values(context, buffer.dtype, "read as a tile of values", span)
        return tree.ReadBuffer(meaning, TileType(buffer.dtype, rows, columns), span)
    hint = advice(meaning)
    context.fail(types_messages.WrongType(what=what, expected="a number or a tile", found=describe(meaning), at=span, hint=hint))


def need_values(context: Context, dtype: DType, use: str, span: Span) -> None:
    """Rejects element types that only MMAs can read: they have no values in registers."""
    if dtype.is_opaque:
        context.fail(scaling_messages.MmaOnly(dtype=dtype.name, use=use, at=span))


def runtime(context: Context, node: ast.Expression, dtype: DType | None = None, what: str = "the value") -> tree.Expression:
    """A run-time value; compile-time ones become constants of `dtype` (or of their natural type)."""
    return as_runtime(context, value(context, node, what), dtype, what)


def as_runtime(context: Context, found: Value, dtype: DType | None, what: str = "the value") -> tree.Expression:
    if isinstance(found, Known):
        wanted = dtype or arithmetic.default_dtype(found)
        assert wanted is not None, "`as_value` lets neither text nor element types through"
        return context.accept(arithmetic.constant(found, wanted))
    if dtype is None:
        return found
    widened = arithmetic.widen(found, dtype)
    if widened is None:
        context.fail(types_messages.WrongType(what=what, expected=str(dtype), found=describe(found), at=found.span))
    return widened


def scalar(context: Context, node: ast.Expression, dtype: DType, what: str) -> tree.Expression:
    """A run-time scalar of exactly this element type."""
    found = runtime(context, node, dtype, what)
    if isinstance(found.type, TileType):
        context.fail(types_messages.WrongType(what=what, expected=f"one {dtype} value", found=describe(found), at=node.span))
    return found


def coordinate(context: Context, node: ast.Expression) -> tree.Expression:
    return scalar(context, node, I32, "a coordinate")


def known(
    context: Context,
    node: ast.Expression,
    kind: type[Kind] | tuple[type[Kind], ...],
    what: str,
    expected: str,
    hint: str | None = None,
) -> Kind:
    """A compile-time value of a Python type. `hint`: what else to write where it is known only when the kernel runs."""
    meaning = context.elaborate(node)
    if not isinstance(meaning, Known):
        if isinstance(meaning, EXPRESSIONS):
            context.fail(constants_messages.NotComptime(what=what, at=node.span, hint=hint))
        context.fail(types_messages.WrongType(what=what, expected=expected, found=describe(meaning), at=node.span))
    found = meaning.value
    # Python's bool is an int; a tile with `True` rows is an error nevertheless.
    if not isinstance(found, kind) or (isinstance(found, bool) and kind is int):
        context.fail(types_messages.WrongType(what=what, expected=expected, found=describe(meaning), at=node.span))
    return found


def known_int(context: Context, node: ast.Expression, what: str, hint: str | None = None) -> int:
    return known(context, node, int, what, "a whole number", hint)


def known_dtype(context: Context, node: ast.Expression) -> DType:
    return known(context, node, DType, "the element type", "an element type such as bf16 or f32")


def as_buffer_ref(
    context: Context, meaning: Meaning, span: Span, what: str, hint: str | None = None, *, parts: bool = False
) -> tree.BufferRef:
    """A stage's tile: `s.a`, an accumulator stage, or `buffer[s.index()]`.

    `hint` says what to write instead of what is none; `parts`: whether some rows of one will do.
    """
    if isinstance(meaning, tree.Handle):
        meaning = reference(context, meaning, span)
    if not isinstance(meaning, tree.BufferRef):
        context.fail(
            types_messages.WrongType(what=what, expected="a tile of a stage", found=describe(meaning), at=span, hint=hint)
        )
    if not parts:
        _need_whole(context, meaning, what, span)
    # The address of another CTA's tile is of no use to a copy or an MMA of this CTA; threads read it as values.
    if meaning.cta is not None:
        context.fail(cluster_messages.RemoteOperand(what=what, at=span))
    return meaning


def _need_whole(context: Context, tile: tree.BufferRef, what: str, span: Span) -> None:
    if tile.part is not None:
        found = "some rows of one, which `tma.load` may fill"
        context.fail(types_messages.WrongType(what=what, expected="a whole tile", found=found, at=span))


def tensor_slice(context: Context, node: ast.Expression, what: str) -> tree.TensorSlice:
    meaning = context.elaborate(node)
    if not isinstance(meaning, tree.TensorSlice):
        context.fail(
            types_messages.WrongType(
                what=what, expected="a place in a tensor, such as `a[i, j]`", found=describe(meaning), at=node.span
            )
        )
    return meaning


def reference(context: Context, handle: tree.Handle, span: Span) -> tree.BufferRef:
    """The only tile of a stage (an accumulator, say)."""
    buffers = context.buffers.get(handle.pipeline, ())
    if len(buffers) != 1:
        names = ", ".join(f"`{handle.name}.{buffer.name}`" for buffer in buffers)
        context.fail(
            types_messages.WrongType(
                what="the tile",
                expected=f"one of {names}" if names else "a tile",
                found=f"the stage `{handle.name}`, which holds {len(buffers)} tiles",
                at=span,
            )
        )
    return tree.BufferRef(buffers[0], handle, False, span)


# Far more than fits any memory, which the checks report; this keeps the numbers of their messages in range.
_MOST_ROWS_OR_COLUMNS = 65_536


def tile_size(context: Context, node: ast.Expression) -> int:
    """A number of rows or columns, known at compile time; reports one that no tile has."""
    hint = "take the tensor in tiles of a size that is known, such as a compile-time parameter: `kernel name[BN: int = 128](...)`"
    size = known_int(context, node, "a tile size", hint)
    if not 1 <= size <= _MOST_ROWS_OR_COLUMNS:
        expected = f"between 1 and {_MOST_ROWS_OR_COLUMNS}"
        context.fail(types_messages.WrongType(what="a tile size", expected=expected, found=str(size), at=node.span))
    return size
