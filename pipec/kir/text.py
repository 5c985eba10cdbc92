"""Kernel IR as text, for `--emit kir`, messages of the verifier and tests. Read by people only; there is no parser for it."""

from collections.abc import Callable, Iterator
from typing import assert_never

from pipec.kir import ir
from pipec.sema import tree
from pipec.sema.types import TileType, ValueType
from pipec.vocabulary import SIDES

_PRECEDENCE = {
    "or": 1, "and": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "|": 4, "^": 5, "&": 6, "<<": 7, ">>": 7,
    "+": 8, "-": 8, "*": 9, "/": 9, "//": 9, "%": 9,
}  # fmt: skip
_ATOM = 11
_UNARY = 10
_LONGEST = 10_000  # characters of an expression


def kernel_text(kernel: ir.Kernel) -> str:
    return "\n".join(_kernel_lines(kernel)) + "\n"


def _kernel_lines(kernel: ir.Kernel) -> Iterator[str]:
    parameters = [f"{tensor.name}: {tensor_type(tensor)}" for tensor in kernel.tensors]
    parameters += [f"{scalar.name}: {scalar.type}" for scalar in kernel.scalars]
    yield f"kernel {kernel.name}({', '.join(parameters)})"
    if kernel.constants:
        yield "  constants " + ", ".join(f"{name} = {value}" for name, value in kernel.constants.items())
    yield "  grid " + ", ".join(expression_text(size) for size in kernel.grid)
    if kernel.schedule is not None:
        yield f"  {_schedule_text(kernel.schedule)}"
    for pipeline in kernel.pipelines:
        group = f" k_group_size={pipeline.k_group_size}" if pipeline.k_group_size != 1 else ""
        for side in SIDES:
            group += f" {side}_sub_stages={pipeline.sub_stages(side)}" if pipeline.sub_stages(side) != 1 else ""
        yield f"  pipeline {pipeline.name}: {pipeline.kind} stages={pipeline.stages}{group}"
    for buffer in kernel.buffers:
        tile = TileType(buffer.dtype, buffer.rows, buffer.columns)
        yield f"  buffer {buffer.label}: {buffer.space} {tile} x {buffer.count}"
    for role in kernel.roles:
        yield ""
        yield from _role_lines(role)


def _schedule_text(schedule: tree.Schedule) -> str:
    options = [f"{name}={value}" for name, value in (("blocks", schedule.blocks), ("group", schedule.group)) if value is not None]
    extents = ", ".join(expression_text(extent) for extent in schedule.extents)
    return " ".join((f"tiles {schedule.name}: {extents} {schedule.mode}", *options))


def _role_lines(role: ir.Role) -> Iterator[str]:
    yield f"  role {role.name}: {_role_properties(role)}"
    headers = {loop.header: loop for loop in role.loops}
    for number, block in enumerate(role.blocks):
        yield f"    {number}:{_participation(block.participation)}{_loop_note(headers.get(number))}"
        for operation in block.operations:
            yield f"      {operation_text(operation)}"
        yield f"      {terminator_text(block.terminator)}"


def _role_properties(role: ir.Role) -> str:
    parts = [f"warps={role.warps}"]
    if role.registers is not None:
        parts.append(f"registers={role.registers}")
    if role.produces:
        parts.append("produces " + ", ".join(pipeline.name for pipeline in role.produces))
    if role.consumes:
        parts.append("consumes " + ", ".join(pipeline.name for pipeline in role.consumes))
    return " ".join(parts)


def _participation(participation: ir.Participation) -> str:
    match participation.threads:
        case "all":
            return ""
        case "one":
            return "  # one thread"
        case "lanes":
            return f"  # lanes below {participation.lanes}"
        case _:
            return "  # unknown threads"


def _loop_note(loop: ir.Loop | None) -> str:
    if loop is None:
        return ""
    if loop.variable is None or loop.start is None or loop.stop is None:
        return "  # while"
    return f"  # for {loop.variable.name} in range({expression_text(loop.start)}, {expression_text(loop.stop)}, {loop.step})"


def terminator_text(terminator: ir.Terminator) -> str:
    match terminator:
        case ir.Jump(target):
            return f"jump {target}"
        case ir.Branch():
            return f"branch {expression_text(terminator.condition)} ? {terminator.then} : {terminator.otherwise}"
        case ir.ElectBranch():
            return f"elect ? {terminator.then} : {terminator.otherwise}"
        case ir.Exit():
            return "exit"
        case _:
            assert_never(terminator)


# C901: a case for each kind of node and nothing else; `assert_never` holds it complete.
def operation_text(operation: tree.Operation) -> str:  # noqa: C901
    match operation:
        case tree.Assign():
            value = expression_text(operation.value)
            if operation.variable.kept:
                return f"{operation.variable.name} = registers({value})"
            return f"{operation.variable.name} {':=' if operation.variable.is_lazy else '='} {value}"
        case tree.Acquire():
            handle = operation.handle
            if not operation.first:
                return f"wait for {handle.name} sub-stage {operation.sub_stage}"
            how = handle.form + (f", peeked {operation.token.name}" if operation.token else "")
            return f"{handle.name} = acquire {handle.pipeline.name} as {handle.side} ({how}){_sub_stage(operation)}"
        case tree.Peek():
            token = operation.token
            return f"{operation.ready.name} = peek {token.pipeline.name} as {token.side}"
        case tree.Signal():
            return f"signal {operation.handle.name}{_sub_stage(operation)} by {operation.how}"
        case tree.Release():
            return f"release {operation.handle.name}" + ("" if operation.signals else " without signal")
        case tree.Drain():
            return f"drain {operation.pipeline.name}"
        case tree.ExpectBytes():
            return f"expect {operation.handle.name} {operation.bytes} bytes"
        case tree.RequestTile(handle):
            return f"request a tile into {handle.name}"
        case tree.TmaLoad():
            return f"tma.load {reference_text(operation.destination)} <- {slice_text(operation.source)}"
        case tree.CopyAsync():
            return f"cp.async {reference_text(operation.destination)} <- {slice_text(operation.source)}"
        case tree.TmaStore():
            return f"tma.store {slice_text(operation.destination)} {_arrow(operation)} {reference_text(operation.source)}"
        case tree.Mma():
            accumulate = "" if operation.accumulate is None else f" accumulate={expression_text(operation.accumulate)}"
            tiles = ", ".join(
                reference_text(tile) for tile in (operation.accumulator, operation.a, operation.b, *operation.scales)
            )
            row = "" if operation.scale_b_row is None else f" sfb_row={expression_text(operation.scale_b_row)}"
            return f"mma {tiles}{row}{accumulate}"
        case tree.ClearAccumulator(accumulator):
            return f"{accumulator.name} = accumulator {accumulator.type}"
        case tree.RegisterMma(accumulator):
            accumulate = "" if operation.accumulate is None else f" accumulate={expression_text(operation.accumulate)}"
            a = expression_text(operation.a) if isinstance(operation.a, tree.ReadVariable) else reference_text(operation.a)
            return f"mma {accumulator.name}, {a}, {reference_text(operation.b)}{accumulate}"
        case tree.WriteAccumulator():
            return f"write {operation.accumulator.name} <- {expression_text(operation.value)}"
        case tree.Store():
            value = expression_text(operation.value) + _rows(operation)
            return f"store.{operation.path} {slice_text(operation.destination)} {_arrow(operation)} {value}"
        case tree.AwaitTurn():
            return f"await {slice_text(operation.counter)} == {expression_text(operation.turn)}"
        case tree.AwaitGrids():
            return "griddepcontrol.wait"
        case tree.LaunchDependents():
            return "griddepcontrol.launch_dependents"
        case tree.PassTurn():
            return f"pass {slice_text(operation.counter)} <- {expression_text(operation.turn)}"
        case tree.Write():
            return f"write {reference_text(operation.destination)} <- {expression_text(operation.value)}"
        case _:
            assert_never(operation)


def _rows(operation: tree.Store) -> str:
    return "" if operation.rows is None else f", {expression_text(operation.rows)} rows"


def _arrow(operation: tree.Store | tree.TmaStore) -> str:
    return "<-" if operation.reduce is None else f"<-{operation.reduce}-"


def _sub_stage(operation: tree.Acquire | tree.Signal) -> str:
    side = operation.handle.side
    if isinstance(operation, tree.Acquire):
        side = "consumer" if side == "producer" else "producer"
    return f" sub-stage {operation.sub_stage}" if operation.handle.pipeline.sub_stages(side) != 1 else ""


def tensor_type(tensor: tree.TensorParameter) -> str:
    return f"tensor[{', '.join(str(part) for part in (tensor.dtype, *tensor.shape))}]"


def reference_text(reference: tree.BufferRef) -> str:
    handle = reference.handle
    name = handle.name if reference.buffer.space == "tensor" else f"{handle.name}.{reference.buffer.name}"
    where = "" if reference.cta is None else f".of({expression_text(reference.cta)})"
    return name + where + (".T" if reference.transposed else "")


def slice_text(tile: tree.TensorSlice) -> str:
    return f"{tile.tensor.name}[{', '.join(expression_text(coordinate) for coordinate in tile.coordinates)}]"


def expression_text(expression: tree.Expression) -> str:
    return _Writer().write(expression, 0)


class _Writer:
    """Writes one expression. Each node is written once: expressions share parts, so that their text may double at each of them; what
    gets too long is cut."""

    def __init__(self) -> None:
        self._written: dict[tree.Expression, tuple[str, int]] = {}

    def write(self, expression: tree.Expression, outer: int) -> str:
        """In parentheses when it binds less tightly than `outer` asks."""
        if expression not in self._written:
            text, precedence = _parts(expression, self.write)
            self._written[expression] = (text, precedence) if len(text) <= _LONGEST else (f"{text[:_LONGEST]} ...", _ATOM)
        text, precedence = self._written[expression]
        return f"({text})" if precedence < outer else text


# C901: a case for each kind of node and nothing else; `assert_never` holds it complete.
def _parts(expression: tree.Expression, write: Callable[[tree.Expression, int], str]) -> tuple[str, int]:  # noqa: C901
    match expression:
        case tree.Constant():
            return str(expression.value), _ATOM
        case tree.ReadVariable():
            return expression.variable.name, _ATOM
        case tree.ReadDimension():
            return expression.name, _ATOM
        case tree.ReadParameter():
            return expression.parameter.name, _ATOM
        case tree.Special():
            return expression.name + ("" if "." in expression.name else "()"), _ATOM
        case tree.StageIndex():
            return f"{expression.handle.name}.index()", _ATOM
        case tree.ReadResponse():
            return f"the tile granted in {expression.handle.name}", _ATOM
        case tree.Unary():
            gap = " " if expression.operator == "not" else ""
            return f"{expression.operator}{gap}{write(expression.operand, _UNARY)}", _UNARY
        case tree.Binary():
            strength = _PRECEDENCE[expression.operator]
            left, right = write(expression.left, strength), write(expression.right, strength + 1)
            return f"{left} {expression.operator} {right}", strength
        case tree.Convert():
            return f"cast[{_dtype(expression.type)}]({write(expression.operand, 0)})", _ATOM
        case tree.Select():
            parts = (expression.condition, expression.when_true, expression.when_false)
            return f"select({_list(parts, write)})", _ATOM
        case tree.Call():
            return f"{expression.function}({_list(expression.arguments, write)})", _ATOM
        case tree.Splat():
            return f"splat[{expression.type.rows}, {expression.type.columns}]({write(expression.operand, 0)})", _ATOM
        case tree.ReadBuffer():
            read = f"read({reference_text(expression.source)})"
            if expression.first_column is None:
                return read, _ATOM
            return f"columns({read}, {write(expression.first_column, 0)}, {expression.type.columns})", _ATOM
        case tree.ReadTensor():
            return f"read({slice_text(expression.source)})", _ATOM
        case tree.ReadElement():
            return f"load({slice_text(expression.source)})", _ATOM
        case tree.Position():
            axis, size = ("row", expression.type.rows) if expression.axis == 0 else ("column", expression.type.columns)
            return f"{axis}_index({size})", _ATOM
        case tree.ReadAccumulator():
            return f"read({expression.accumulator.name})", _ATOM
        case tree.Columns(operand, first, type_):
            return f"columns({write(operand, 0)}, {first}, {type_.columns})", _ATOM
        case tree.RowReduce():
            return f"row_{expression.function}({write(expression.operand, 0)})", _ATOM
        case _:
            assert_never(expression)


def _dtype(value_type: ValueType) -> str:
    return str(value_type.dtype if isinstance(value_type, TileType) else value_type)


def _list(expressions: tuple[tree.Expression, ...], write: Callable[[tree.Expression, int], str]) -> str:
    return ", ".join(write(one, 0) for one in expressions)
