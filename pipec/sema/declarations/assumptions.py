"""`assume(K > 0)`: conditions on sizes that the proof may use and every launch must satisfy."""

from pipec.diag.catalogue.language import assumptions as messages
from pipec.diag.catalogue.language import constants as names
from pipec.isa.dtypes import DType
from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.declarations.launch_values import found_in, launch_uniform
from pipec.sema.types import BOOL, ValueType
from pipec.sema.values.arguments import bind_arguments
from pipec.sema.values.expected import scalar
from pipec.syntax import ast
from pipec.verify.logic import System
from pipec.verify.terms import (
    FALSE,
    TRUE,
    Apply,
    Compare,
    Formula,
    Linear,
    Symbol,
    add,
    atom,
    both,
    choose,
    either,
    floor,
    negate,
    number,
    scale,
)
from pipec.vocabulary import BinaryOperator

_WHAT = "an assumption"


def assumption(context: Context, condition: tree.Expression) -> Formula:
    """The condition as a formula of the proof. Rejects conditions that the host cannot compute before the launch."""
    match condition:
        case tree.Constant(bool(value)):
            return TRUE if value else FALSE
        case tree.Unary("not", operand):
            return negate(assumption(context, operand))
        case tree.Binary("and", left, right):
            return both(assumption(context, left), assumption(context, right))
        case tree.Binary("or", left, right):
            return either(assumption(context, left), assumption(context, right))
        case tree.Binary("==" | "!=" | "<" | "<=" | ">" | ">=" as operator, left, right):
            return _comparison(operator, _value(context, left), _value(context, right))
        case _:
            context.fail(names.NotLaunchUniform(what=_WHAT, found=found_in(condition), at=condition.span))


def _comparison(operator: BinaryOperator, left: Linear, right: Linear) -> Formula:
    more = add(left, right, -1)
    match operator:
        case "==" | "!=":
            return both(Compare("eq" if operator == "==" else "ne", more))
        # The proof's inequalities are all of the form `x >= 0`. Sizes are integers, so `a > b` is exactly `a - b - 1 >= 0`.
        case ">=" | ">":
            return both(Compare("ge", add(more, number(1), -1 if operator == ">" else 0)))
        case _:
            return both(Compare("ge", add(scale(more, -1), number(1), -1 if operator == "<" else 0)))


def _value(context: Context, expression: tree.Expression) -> Linear:
    match expression:
        case tree.Constant(int(value)):
            return number(value)
        case tree.ReadDimension(name):
            return atom(Symbol(name))
        case tree.ReadParameter(parameter) if parameter.type.is_integer:
            return atom(Symbol(parameter.name))
        case tree.Convert(operand):
            return _value(context, operand)
        case tree.Unary("-", operand):
            return scale(_value(context, operand), -1)
        case tree.Binary("+" | "-" as operator, left, right):
            return add(_value(context, left), _value(context, right), 1 if operator == "+" else -1)
        case tree.Binary("*", left, right):
            return _product(_value(context, left), _value(context, right), expression.type)
        case tree.Binary("//" | "%" as operator, left, right):
            dividend, divisor = _value(context, left), _divisor(context, right)
            quotient = floor(dividend, divisor)
            return quotient if operator == "//" else add(dividend, quotient, -divisor)
        case tree.Call("ceildiv", (left, right)):
            divisor = _divisor(context, right)
            return floor(add(_value(context, left), number(divisor - 1)), divisor)
        case tree.Call("min" | "max" as function, (left, right)):
            one, other = _value(context, left), _value(context, right)
            least, most = (one, other) if function == "min" else (other, one)
            return choose(Compare("ge", add(other, one, -1)), least, most)
        case _:
            launch_uniform(context, expression, _WHAT)
            context.fail(names.NotLaunchUniform(what=_WHAT, found=found_in(expression), at=expression.span))


def _product(left: Linear, right: Linear, kind: ValueType) -> Linear:
    if not left.terms or not right.terms:
        return scale(left, right.constant) if not right.terms else scale(right, left.constant)
    # A product of two sizes is not linear: it becomes a term for the register that this multiplication defines, named as the PTX reader
    # names it.
    assert isinstance(kind, DType)
    return atom(Apply(f"mul.lo.{'s' if kind.family == 'signed' else 'u'}{kind.bits}", (left, right)))


def _divisor(context: Context, expression: tree.Expression) -> int:
    value = _value(context, expression)
    # The proof bounds a quotient by multiples of its divisor, which is linear only if the divisor is a constant.
    if value.terms or value.constant <= 0:
        context.fail(messages.AssumedDivisor(at=expression.span))
    return value.constant


def read_assumption(context: Context, node: ast.Expression) -> tree.Assumption:
    """It must be consistent with the preceding ones."""
    assert isinstance(node, ast.Call)
    bound = bind_arguments(context, node, "assume", ("condition",))
    condition = scalar(context, bound["condition"], BOOL, _WHAT)
    formula = assumption(context, condition)
    # Contradictory assumptions imply everything: a kernel that hangs would be proved, but for no launch at all.
    sizes = [Compare("ge", atom(Symbol(name))) for name in sorted(context.dimensions)]
    if System([*sizes, *_stated(context), formula]).impossible():
        others = tuple(one.span for one in context.assumptions)
        context.fail(messages.NeverHolds(at=condition.span, others=others))
    return tree.Assumption(formula, node.span)


def assumed_positive(context: Context, name: str) -> bool:
    """Whether no launch that the kernel's assumptions so far admit has a number below 1 for this size or parameter."""
    return bool(context.assumptions) and System([*_stated(context), Compare("ge", scale(atom(Symbol(name)), -1))]).impossible()


def _stated(context: Context) -> tuple[Formula, ...]:
    return tuple(one.formula for one in context.assumptions)
