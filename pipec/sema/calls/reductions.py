"""Reductions of a tile: of each row, an expression like any other, and of each column, for which the threads of the role meet."""

from pipec.diag.catalogue.language import types as messages
from pipec.isa.dtypes import DTYPES
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.functions import COLUMN_REDUCTIONS, REDUCTIONS
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import Meaning, describe
from pipec.sema.types import BOOL, TileType, dtype_of
from pipec.sema.values import arithmetic
from pipec.sema.values.arguments import Action, bind_arguments
from pipec.sema.values.expected import runtime
from pipec.sema.values.names import dotted
from pipec.syntax import ast


def row_reduction(context: Context, node: ast.Call) -> Meaning:
    name = dotted(context, node.callee) or ""
    operand, tile = _operand(context, node, name)
    return tree.RowReduce(REDUCTIONS[name], operand, TileType(tile.dtype, tile.rows, 1), node.span)


def _column_reduction(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    operand, tile = _operand(context, node, operation.name)
    if tile.rows == 1:
        return operand
    result = tree.ReducedColumns(operation.name, TileType(tile.dtype, 1, tile.columns), node.span)
    context.emit(tree.ReduceColumns(COLUMN_REDUCTIONS[operation.name], operand, result, node.span))
    return tree.ReadReducedColumns(result, node.span)


def _operand(context: Context, node: ast.Call, name: str) -> tuple[tree.Expression, TileType]:
    """What is reduced: numbers of 16 bits are added up in 32."""
    bound = bind_arguments(context, node, name, ("tile",))
    operand = runtime(context, bound["tile"], None, "what is reduced")
    tile = operand.type
    if not isinstance(tile, TileType):
        context.fail(messages.WrongType(what="what is reduced", expected="a tile", found=describe(operand), at=node.span))
    # Summing thousands of 16-bit floats loses precision that f32 keeps; the tensor cores accumulate in f32 as well.
    if tile.dtype.is_float and tile.dtype.bits == 16:
        operand = arithmetic.widen(operand, DTYPES["f32"]) or operand
    dtype = dtype_of(operand.type)
    if dtype is BOOL or not dtype.computes:
        context.fail(messages.BadOperand(operator=name, type=str(dtype), hint="convert it first: `cast[f32](...)`", at=node.span))
    return operand, TileType(dtype, tile.rows, tile.columns)


REDUCTION_ACTIONS: dict[ActionName, Action] = {"reduce_columns": _column_reduction}
