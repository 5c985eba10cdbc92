"""Scalar expressions."""

from typing import assert_never

from pipec.isa.dtypes import DTYPES, DType
from pipec.kir import ir
from pipec.kir.plan.roles import operations
from pipec.kir.plan.scales import kind_of
from pipec.kir.walk import subexpressions
from pipec.lower.context import RoleContext
from pipec.lower.emit.arithmetic import binary, ceil_divide, constant, convert, divide_by_few, floor_divide, negate
from pipec.lower.emit.functions import call_function
from pipec.lower.emit.value import TRUE, Value, integer
from pipec.lower.global_memory import global_row, load_element
from pipec.lower.synchronisation import clusters
from pipec.lower.synchronisation.launch_control import read_response
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.types import dtype_of
from pipec.terms.machine import is_distance, range_of
from pipec.terms.term import LAUNCH
from pipec.terms.walk import leaves
from pipec.vocabulary import UnaryOperator

_F32 = DTYPES["f32"]
_MOST_SCALES = 4  # factors per row and MMA
_FEW = 4  # a number up to which to divide is to choose among constants
_LARGEST = range_of(DTYPES["i32"])[1]


def scalar(role: RoleContext, expression: tree.Expression) -> Value:
    builder = role.builder
    match expression:
        case _ if expression in role.numbers:
            return role.numbers[expression]
        case _ if expression in role.invariants:
            return role.invariants[expression]
        case tree.Constant(value, type_):
            return scalar_constant(role, value, type_)
        case tree.ReadVariable(variable):
            return role.variables[variable].read()
        case tree.ReadDimension(name):
            return Value("i32", role.kernel.parameter("dimension", name))
        case tree.ReadParameter(parameter):
            return Value(parameter.type.llvm, role.kernel.parameter("scalar", parameter.name))
        case tree.Special(name):
            return _special(role, name)
        case tree.StageIndex(handle):
            return role.stage(handle)
        case tree.ReadResponse(handle):
            return read_response(role, handle)
        case tree.ReadElement(source):
            return _element(role, source)
        case tree.Unary(operator, operand, type_):
            return unary(role, operator, dtype_of(type_), scalar(role, operand))
        case tree.Binary("//" | "%", left, right) | tree.Call("ceildiv", (left, right)) if not dtype_of(left.type).is_float:
            return _divided(role, expression, left, right)
        case tree.Binary(operator, left, right):
            return binary(builder, operator, dtype_of(left.type), scalar(role, left), scalar(role, right))
        case tree.Convert(operand, type_):
            return convert(builder, [scalar(role, operand)], dtype_of(operand.type), dtype_of(type_))[0]
        case tree.Bitcast(operand, type_):
            return builder.cast("bitcast", scalar(role, operand), dtype_of(type_).llvm)
        case tree.Select(condition, when_true, when_false):
            return builder.select(scalar(role, condition), scalar(role, when_true), scalar(role, when_false))
        case tree.Call("distance", (start, stop)):
            return _distance(role, start, stop)
        case tree.Call(function, arguments):
            values = [scalar(role, argument) for argument in arguments]
            return call_function(builder, function, dtype_of(arguments[0].type), values)
        case (
            tree.Splat() | tree.ReadBuffer() | tree.ReadTensor() | tree.Position() | tree.Columns() | tree.RowReduce()
            | tree.Scattered() | tree.ReadAccumulator() | tree.ReadReducedColumns()
        ):  # fmt: skip
            raise AssertionError("a register tile where a scalar is expected")
        case _:
            assert_never(expression)


def _divided(role: RoleContext, expression: tree.Binary | tree.Call, left: tree.Expression, right: tree.Expression) -> Value:
    """Rounded down or up, or the remainder: of integers."""
    builder, dtype, natural = role.builder, dtype_of(left.type), _natural(role, left, right)
    if isinstance(left, tree.Call) and left.function == "distance" and role.plan.role.values.of(left).largest > _LARGEST:
        dtype, natural = DTYPES["u32"], False
    dividend, divisor = scalar(role, left), scalar(role, right)
    if isinstance(expression, tree.Binary) and isinstance(right, tree.ReadVariable) and right.variable in role.usual:
        return _divided_as_usual(role, expression, right.variable, dividend, divisor)
    if isinstance(expression, tree.Call):
        if isinstance(right, tree.Constant) and right.value > 0 and dtype.name == "i32":
            natural = _is_natural(role, left) and not role.kernel.crowded
        return ceil_divide(builder, dtype, dividend, divisor, natural=natural)
    return _quotient(role, expression, natural, dividend, divisor)


def _quotient(role: RoleContext, expression: tree.Binary, natural: bool, dividend: Value, divisor: Value) -> Value:
    """Or the remainder."""
    builder, left, right = role.builder, expression.left, expression.right
    remainder, dtype = expression.operator == "%", dtype_of(left.type)
    most = role.plan.role.values.of(right).largest
    if (natural or dtype.name == "u32") and not isinstance(right, tree.Constant) and most <= _FEW and not role.kernel.crowded:
        return divide_by_few(builder, dividend, divisor, int(most), remainder=remainder)
    return floor_divide(builder, dtype, dividend, divisor, remainder=remainder, natural=natural)


def note_usual(role: RoleContext, operation: tree.Assign) -> None:
    """Computes whether a variable has its usual value, if that is the largest one that it can have."""
    match operation:
        case tree.Assign(tree.Variable(usual=int(usual)) as variable, tree.Call("min", (value, tree.Constant(largest)))) if (
            usual == largest and not role.kernel.counts_by_place
        ):
            role.usual[variable] = role.builder.compare("uge", scalar(role, value), integer(usual))
            role.quotients = {}
        case _:
            pass


def _divided_as_usual(
    role: RoleContext, expression: tree.Binary, variable: tree.Variable, dividend: Value, divisor: Value
) -> Value:
    """By a variable that nearly always is the same power of two: a branch leads around the general division. Quotient and remainder are
    computed together, since a tile has two coordinates."""
    builder, usual = role.builder, variable.usual
    assert usual is not None
    if dividend not in role.quotients:
        quotient, rest = (builder.variable("i32", f"{role.prefix}.{variable.name}.{hint}") for hint in ("quotient", "rest"))
        as_usual, other, done = (builder.label(f"{role.prefix}.{variable.name}.{hint}") for hint in ("usual", "other", "divided"))
        builder.branch(role.usual[variable], as_usual, other)
        builder.place(as_usual)
        quotient.write(builder.bits("lshr", dividend, usual.bit_length() - 1))
        rest.write(builder.bits("and", dividend, usual - 1))
        builder.jump(done)
        builder.place(other)
        for slot, operator in ((quotient, "//"), (rest, "%")):
            slot.write(_quotient(role, replace(expression, operator=operator), False, dividend, divisor))
        builder.jump(done)
        builder.place(done)
        role.quotients[dividend] = quotient, rest
    return role.quotients[dividend][expression.operator == "%"].read()


def _distance(role: RoleContext, start: tree.Expression, stop: tree.Expression) -> Value:
    """From a start to a stop. Where the difference may wrap, it is 0 unless the stop comes behind the start, and else a number without a
    sign."""
    builder, values = role.builder, role.plan.role.values
    first, last = scalar(role, start), scalar(role, stop)
    apart = builder.binary("sub", last, first)
    if is_distance(values.of(start), values.of(stop)):
        return apart
    return builder.select(builder.compare("slt", first, last), apart, integer(0))


def _natural(role: RoleContext, left: tree.Expression, right: tree.Expression) -> bool:
    """Whether neither number is ever negative: their division is then half as long. (That by a constant is short in any case.) The checker,
    which reads the emitted text, knows that of sizes and of what is computed of them, but of no counter of a loop."""
    return not isinstance(right, tree.Constant) and all(_is_natural(role, one) for one in (left, right))


def crowded(kernel: ir.Kernel) -> bool:
    """Whether a loop needs nearly all registers of the warp: with a scale factor for every 16 elements. ptxas then takes those that choices
    and short divisions need from the loop (73 in place of 58 instructions in gemm_nvfp4_2cta)."""
    multiplying = (one for role in kernel.roles for one in operations(role) if isinstance(one, tree.Mma))
    return any(kind is not None and kind.scales == _MOST_SCALES for kind in map(kind_of, multiplying))


def counts_by_place(kernel: ir.Kernel) -> bool:
    """Whether a loop inside another one, such as over the keys of a tile of queries, may depend on where a tile lies: with a branch for the
    place, fewer of such kernels are proved."""
    inner = ((role, loop.statement) for role in kernel.roles for loop in role.loops if loop.parent is not None)
    terms = (term for role, statement in inner for term in role.values.controls[statement])
    return any(atom.operator not in LAUNCH for term in terms for atom in leaves(term))


def _is_natural(role: RoleContext, one: tree.Expression) -> bool:
    if dtype_of(one.type).is_float:
        return False
    if isinstance(one, tree.ReadVariable) and one.variable.natural:
        return True
    if role.plan.role.values.of(one).least < 0:
        return False
    counters = {loop.variable for loop in role.plan.role.loops}
    return not any(isinstance(part, tree.ReadVariable) and part.variable in counters for part in subexpressions(one))


def _element(role: RoleContext, source: tree.TensorSlice) -> Value:
    row = global_row(role, source.tensor, [scalar(role, coordinate) for coordinate in source.coordinates], None)
    return load_element(role, row, integer(0), source.tensor.dtype)


def scalar_constant(role: RoleContext, value: float | bool, dtype: DType) -> Value:
    if dtype.is_float and dtype.bits == 8:
        return convert(role.builder, [constant(value, _F32)], _F32, dtype)[0]
    return constant(value, dtype)


def unary(role: RoleContext, operator: UnaryOperator, dtype: DType, value: Value) -> Value:
    match operator:
        case "-":
            return negate(role.builder, dtype, value)
        case "not":
            return role.builder.binary("xor", value, TRUE)
        case "~":
            return role.builder.binary("xor", value, TRUE if dtype.family == "bool" else integer(-1, value.type))
        case _:
            raise AssertionError(operator)


def _special(role: RoleContext, name: str) -> Value:
    match name:
        case "lane_id":
            return role.lane
        case "role_thread":
            return role.role_thread
        case "role_warp":
            return role.role_warp
        case "cta.x" | "cta.y" | "cta.z":
            return clusters.coordinate(role, name[-1])
        case "cluster.x" | "cluster.y" | "cluster.z" | "clusters.x" | "clusters.y" | "clusters.z":
            return clusters.of_grid(role, name)
        case _:
            return role.builder.call(name)
