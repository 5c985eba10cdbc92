"""The integers of a role at given sizes in one block, as far as a launch determines them.

An expression is made into nested functions once; runs at many sizes, in many blocks and iterations only call them.
"""

from collections.abc import Callable, Mapping

from pipec.arithmetic import MEANINGS
from pipec.isa.dtypes import DType
from pipec.record import record
from pipec.sema import tree
from pipec.terms import machine

_MOST_WORK = 40_000  # expressions of one run
_DEEPEST = 150
_UNITS, _MOST_UNITS = 8, 64  # in a float 1, and in one that every type of floats has exactly
_NO_TILE = -1  # the response of a scheduler without further tiles


class Unknown(Exception):
    """A value that is unknown to a run."""


Rule = Callable[["Scalars"], int]


@record(eq=False)
class Compiled:
    """`work`: the expressions that the rule evaluates, apart from choices, which count what they choose; `height`: how deeply they are
    nested."""

    rule: Rule
    work: int
    height: int


Rules = dict[tree.Expression, Compiled]


class Scalars:
    """`launch`: sizes, scalar parameters and hardware values by name. `rules`: those of the expressions met so far, which runs of a role
    share."""

    def __init__(self, launch: Mapping[str, int], rules: Rules | None = None, times: int = 1) -> None:
        self.launch = launch
        self._rules = {} if rules is None else rules
        self.variables: dict[tree.Variable, int] = {}
        self.work = 0
        self._most_work = _MOST_WORK * times

    def named(self, name: str) -> int:
        return known(self.launch.get(name))

    def value(self, expression: tree.Expression) -> int:
        compiled = self._rules.get(expression) or _compiled(expression, self._rules)
        self.spend(compiled.work)
        return compiled.rule(self)

    def spend(self, work: int) -> None:
        # Helpers that use their argument twice create expression trees exponentially larger than the source.
        self.work += work
        if self.work >= self._most_work:
            raise Unknown


def known(value: int | None) -> int:
    if value is None:
        raise Unknown
    return value


def _compiled(expression: tree.Expression, rules: Rules) -> Compiled:
    """The rule of an expression. Operands come first, without recursion: they may be nested deeply, and shared."""
    work = [expression]
    while work:
        operands = _operands(work[-1])
        missing = [one for one in operands if one not in rules]
        if missing:
            work += missing
            continue
        one = work.pop()
        if one not in rules:
            rules[one] = _of_operands(one, [rules[operand] for operand in operands])
    return rules[expression]


def _is_integer(expression: tree.Expression) -> bool:
    return isinstance(expression.type, DType) and not expression.type.is_float


def _is_float(expression: tree.Expression) -> bool:
    return isinstance(expression.type, DType) and expression.type.is_float


def _operands(expression: tree.Expression) -> tuple[tree.Expression, ...]:
    if _is_float(expression):
        match expression:
            case tree.Unary(operator="-", operand=operand) | tree.Convert(operand=operand) if _is_float(operand):
                return (operand,)
        return ()
    if not _is_integer(expression):
        return ()
    match expression:
        case tree.Unary(operand=operand) | tree.Convert(operand=operand) | tree.Call(function="abs", arguments=(operand,)):
            return (operand,)
        case tree.Binary(left=left, right=right):
            return left, right
        case tree.Select(condition=condition, when_true=yes, when_false=no):
            return condition, yes, no
        case tree.Call(function=function, arguments=arguments) if function in MEANINGS and len(arguments) == 2:
            return arguments
        case _:
            return ()


def _of_operands(expression: tree.Expression, operands: list[Compiled]) -> Compiled:
    evaluated = operands[:1] if isinstance(expression, tree.Select) else operands
    work, height = 1 + sum(one.work for one in evaluated), 1 + max((one.height for one in operands), default=0)
    if _is_float(expression) and height <= _DEEPEST:
        return Compiled(_float_rule(expression, operands), work, height)
    if not _is_integer(expression) or height > _DEEPEST:
        return Compiled(_unknown, work, height)
    assert isinstance(expression.type, DType)
    return Compiled(_rule(expression, operands, *machine.range_of(expression.type)), work, height)


def _float_rule(expression: tree.Expression, operands: list[Compiled]) -> Rule:
    """A float that a condition compares, in units so small that numbers which every type has exactly are integers: parameters and
    constants."""
    match expression:
        case tree.Constant(value=value):
            units = value * _UNITS
            return _number(int(units), -_MOST_UNITS, _MOST_UNITS) if units in range(-_MOST_UNITS, _MOST_UNITS + 1) else _unknown
        case tree.ReadParameter(parameter=parameter):
            return lambda run: run.named(parameter.name) * _UNITS
        case tree.Unary():
            return lambda run: -operands[0].rule(run)
        case tree.Convert() if operands:
            return operands[0].rule
        case _:
            return _unknown


def _unknown(run: Scalars) -> int:
    raise Unknown


def _rule(expression: tree.Expression, operands: list[Compiled], least: int, most: int) -> Rule:
    """A value that wraps around differs on the machine; such runs are of no interest."""
    match expression:
        case tree.Constant(value=value):
            return _number(int(value), least, most)
        case tree.ReadResponse():
            return _number(_NO_TILE, least, most)
        case tree.ReadVariable(variable=variable):
            return _variable(variable, least, most)
        case tree.ReadDimension(name=name) | tree.Special(name=name):
            return lambda run: _within(run.launch.get(name), least, most)
        case tree.ReadParameter(parameter=parameter):
            return lambda run: _within(run.launch.get(parameter.name), least, most)
        case tree.Unary(operator=operator):
            return _unary(operator, operands[0].rule, least, most)
        case tree.Binary(operator=operator):
            return _binary(operator, operands[0].rule, operands[1].rule, least, most)
        case tree.Convert():
            # What does not fit is cut off, as is meant; only a truth is no number modulo 2.
            rule, count = operands[0].rule, most - least + 1
            if count == 2:
                return lambda run: _within(rule(run), least, most)
            return lambda run: (rule(run) - least) % count + least
        case tree.Call(function="abs"):
            rule = operands[0].rule
            return lambda run: _within(abs(rule(run)), least, most)
        case tree.Select():
            condition, yes, no = operands
            return _choice(condition, yes, no, least, most)
        case tree.Call(function=function) if operands:
            return _binary(function, operands[0].rule, operands[1].rule, least, most)
        case _:
            return _unknown


def _within(value: int | None, least: int, most: int) -> int:
    if value is None or not least <= value <= most:
        raise Unknown
    return value


def _number(value: int, least: int, most: int) -> Rule:
    return (lambda run: value) if least <= value <= most else _unknown


def _variable(variable: tree.Variable, least: int, most: int) -> Rule:
    def read(run: Scalars) -> int:
        value = run.variables.get(variable)
        if value is not None and least <= value <= most:
            return value
        raise Unknown

    return read


def _unary(operator: str, rule: Rule, least: int, most: int) -> Rule:
    if operator == "-":
        return lambda run: _within(-rule(run), least, most)
    if operator == "not":
        return lambda run: _within(int(not rule(run)), least, most)
    return lambda run: _within(~rule(run), least, most)


def _binary(operator: str, left: Rule, right: Rule, least: int, most: int) -> Rule:
    meaning, defined = MEANINGS[operator], _DEFINED.get(operator)

    def compute(run: Scalars) -> int:
        value = meaning(left(run), right(run))
        if least <= value <= most:
            return int(value)
        raise Unknown

    def compute_if_defined(run: Scalars) -> int:
        first, second = left(run), right(run)
        if defined is not None and not defined(second):
            raise Unknown
        return _within(int(meaning(first, second)), least, most)

    return compute if defined is None else compute_if_defined


def _choice(condition: Compiled, yes: Compiled, no: Compiled, least: int, most: int) -> Rule:
    def choose(run: Scalars) -> int:
        chosen = yes if condition.rule(run) else no
        run.spend(chosen.work)
        return _within(chosen.rule(run), least, most)

    return choose


# Whether a result is defined with a right operand.
_DEFINED: Mapping[str, Callable[[int], bool]] = {
    **dict.fromkeys(("//", "%", "ceildiv"), bool),
    **dict.fromkeys(("<<", ">>"), range(32).__contains__),
}
