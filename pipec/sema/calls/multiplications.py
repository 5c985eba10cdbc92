"""Matrix multiplications, their accumulators, and the commit that signals their completion."""

from pipec.diag.catalogue.language import types as messages
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.language.operation import ActionName, Operation
from pipec.sema.meanings import EXPRESSIONS, Barrier, Meaning, NewAccumulator, NewRegisterTile, Void, describe
from pipec.sema.types import BOOL, I32, TileType
from pipec.sema.values.arguments import Action, bind_arguments
from pipec.sema.values.expected import as_buffer_ref, as_runtime, as_value, known_dtype, known_int, reference, runtime, scalar
from pipec.syntax import ast

MOST_ACCUMULATOR_ROWS = 65_536  # far beyond what registers hold, which the checks report; keeps later numbers in range


def _both_scales(
    context: Context,
    node: ast.Call,
    operation: Operation,
    accumulator: tree.BufferRef | tree.Accumulator,
    bound: dict[str, ast.Expression],
) -> None:
    given = [name for name in ("sfa", "sfb", "sfb_row") if name in bound]
    if given and isinstance(accumulator, tree.Accumulator):
        problem = "takes no scale factors with an accumulator in registers"
    elif given and len(given) < 2 or given[:1] == ["sfb"]:
        problem = f"scales both operands or none: {'`sfb`' if given == ['sfa'] else '`sfa`'} is missing"
    else:
        return
    context.fail(messages.WrongArguments(callee="mma", problem=problem, signature=operation.signature, at=node.span))


def _instead_of(operand: Meaning) -> str | None:
    """What to write where a value that threads hold is no operand."""
    if isinstance(operand, tree.Columns) and isinstance(operand.operand, tree.ReadBuffer):
        return "pass the whole tile; to use a part of it at a time, give the payload a tile for each part"
    if isinstance(operand, EXPRESSIONS) and isinstance(operand.type, TileType):
        return "`write(stage.tile, value)` in a role that produces a pipeline puts it into a tile, which another role can use"
    return None


def _mma(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    names, optional = ("accumulator", "a", "b"), ("sfa", "sfb", "accumulate", "sfb_row")
    bound = bind_arguments(context, node, operation.name, names, optional, signature=operation.signature)
    accumulator = _target(context, bound["accumulator"])
    _both_scales(context, node, operation, accumulator, bound)
    operands: dict[str, tree.BufferRef] = {}
    in_registers: tree.ReadVariable | None = None
    for name in ("a", "b", "sfa", "sfb"):
        if name not in bound:
            continue
        meaning = context.elaborate(bound[name])
        if name == "a" and isinstance(accumulator, tree.Accumulator):
            in_registers = _operand_in_registers(context, meaning, bound[name])
            if in_registers is not None:
                continue
        operand = as_buffer_ref(context, meaning, bound[name].span, f"operand `{name}`", _instead_of(meaning))
        in_tensor = operand.buffer.space == "tensor"
        # tcgen05.mma takes only operand A from tensor memory, and requires it there row by row, K innermost (hardware.md 3.5).
        shared = name != "a" or "sfa" in bound
        if in_tensor and (shared or operand.transposed):
            expected = "a tile in shared memory" if shared else "untransposed where it stands in tensor memory"
            context.fail(
                messages.WrongType(what=f"operand `{name}`", expected=expected, found=describe(operand), at=bound[name].span)
            )
        operands[name] = operand
    accumulate = row = None
    if "accumulate" in bound:
        accumulate = runtime(context, bound["accumulate"], None, "`accumulate`")
        if accumulate.type is not BOOL:
            context.fail(
                messages.WrongType(
                    what="`accumulate`", expected="a condition", found=describe(accumulate), at=bound["accumulate"].span
                )
            )
    if isinstance(accumulator, tree.Accumulator):
        context.emit(tree.RegisterMma(accumulator, in_registers or operands["a"], operands["b"], accumulate, node.span))
        return Void()
    if "sfb_row" in bound:
        row = scalar(context, bound["sfb_row"], I32, "`sfb_row`")
    scales = operands.get("sfa"), operands.get("sfb"), row
    context.emit(tree.Mma(accumulator, operands["a"], operands["b"], accumulate, node.span, *scales))
    return Void()


def _operand_in_registers(context: Context, meaning: Meaning, node: ast.Expression) -> tree.ReadVariable | None:
    """A register tile as operand `a`: an existing register-resident tile, or the current values in a new variable. None for stages."""
    if isinstance(meaning, tree.ReadVariable) and meaning.variable.in_registers:
        return meaning
    if not isinstance(meaning, (NewRegisterTile, tree.Accumulator, *EXPRESSIONS)):
        return None
    found = (
        meaning.value
        if isinstance(meaning, NewRegisterTile)
        else as_runtime(context, as_value(context, meaning, node.span, "a"), None, "a")
    )
    if not isinstance(found.type, TileType) or found.type.rows == 1:
        context.fail(messages.WrongType(what="operand `a`", expected="a tile with rows", found=describe(found), at=node.span))
    # wgmma reads its registers asynchronously, so the operand needs registers that no other computation reuses.
    variable = tree.Variable(node.span.text(), found.type, node.span, in_registers=True)
    context.emit(tree.Assign(variable, found, node.span))
    return tree.ReadVariable(variable, node.span)


def _target(context: Context, node: ast.Expression) -> tree.Accumulator | tree.BufferRef:
    """The destination of an MMA: an accumulator in registers or in tensor memory."""
    meaning = context.elaborate(node)
    if isinstance(meaning, tree.Accumulator):
        return meaning
    if isinstance(meaning, tree.Handle):
        meaning = reference(context, meaning, node.span)
    if not isinstance(meaning, tree.BufferRef) or meaning.buffer.space != "tensor" or meaning.transposed:
        expected = "an accumulator: a tile in tensor memory, or `accumulator(...)` in registers"
        context.fail(messages.WrongType(what="the accumulator", expected=expected, found=describe(meaning), at=node.span))
    return meaning


def _register_accumulator(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("dtype", "rows", "columns"), signature=operation.signature)
    dtype = known_dtype(context, bound["dtype"])
    rows, columns = (known_int(context, bound[name], "an accumulator's size") for name in ("rows", "columns"))
    for size, name in ((rows, "rows"), (columns, "columns")):
        if not 1 <= size <= MOST_ACCUMULATOR_ROWS:
            expected = f"between 1 and {MOST_ACCUMULATOR_ROWS}"
            context.fail(
                messages.WrongType(what="an accumulator's size", expected=expected, found=str(size), at=bound[name].span)
            )
    return NewAccumulator(dtype, rows, columns, node.span)


def _commit(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("barrier",), signature=operation.signature)
    barrier = context.elaborate(bound["barrier"])
    if not isinstance(barrier, Barrier):
        context.fail(
            messages.WrongType(what="the barrier", expected="`stage.mbar()`", found=describe(barrier), at=bound["barrier"].span)
        )
    context.emit(tree.Signal(barrier.handle, "commit", node.span, barrier.sub_stage))
    return Void()


MMA_ACTIONS: dict[ActionName, Action] = {
    "mma": _mma,
    "register_accumulator": _register_accumulator,
    "commit": _commit,
}
