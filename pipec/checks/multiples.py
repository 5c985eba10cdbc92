"""Which residues a number of the kernel can take: is a coordinate always a multiple of what TMA asks for?

Loop variables, block indices and remainders take every value of their step; launch values (sizes, scalar parameters) are taken to be
fitting, since only the launch can tell.
"""

from math import gcd

from pipec.checks.facts import RoleFacts
from pipec.isa.dtypes import DType
from pipec.sema import tree

# (step, rest): the values rest, rest + step, rest + 2 * step ...; step 0 is the single value `rest`.
Residue = tuple[int, int]
_ANY: Residue = (1, 0)


class Multiples:
    """Of one role: `unit` is what launch values count as multiples of."""

    def __init__(self, role: RoleFacts, unit: int) -> None:
        self._unit = unit
        self._known: dict[tree.Variable, Residue] = {}
        assignments = [
            (operation.variable, operation.value)
            for block in role.role.blocks
            for operation in block.operations
            if isinstance(operation, tree.Assign)
            and isinstance(operation.variable.type, DType)
            and operation.variable.type.is_integer
        ]
        changed = True
        while changed:  # steps only ever shrink to a divisor
            changed = False
            for variable, value in assignments:
                joined = _either(self._known.get(variable), self.residue(value))
                changed |= joined != self._known.get(variable)
                if joined is not None:
                    self._known[variable] = joined

    def breaks(self, expression: tree.Expression) -> bool:
        """Whether the value is not always a multiple of the unit."""
        residue = self.residue(expression)
        return residue is not None and (residue[0] % self._unit != 0 or residue[1] % self._unit != 0)

    def residue(self, expression: tree.Expression) -> Residue | None:
        """None: no value yet."""
        match expression:
            case tree.Constant(value):
                return 0, int(value)
            case tree.ReadVariable(variable):
                return self._known.get(variable)
            case tree.Convert(operand) if isinstance(operand.type, DType) and operand.type.is_integer:
                return self.residue(operand)
            case tree.ReadDimension() | tree.ReadParameter() | tree.Call() | tree.Convert():
                return self._unit, 0
            case tree.Select():
                return _either(self.residue(expression.when_true), self.residue(expression.when_false))
            case tree.Unary("-", operand):
                return _product(self.residue(operand), (0, -1))
            case tree.Binary("+", left, right):
                return _sum(self.residue(left), self.residue(right))
            case tree.Binary("-", left, right):
                return _sum(self.residue(left), _product(self.residue(right), (0, -1)))
            case tree.Binary("*", left, right):
                return _product(self.residue(left), self.residue(right))
            case tree.Binary("%", left, right):
                return _remainder(self.residue(left), self.residue(right))
            case _:
                return _ANY


def _either(one: Residue | None, two: Residue | None) -> Residue | None:
    if one is None or two is None:
        return one or two
    return _residue(gcd(one[0], two[0], one[1] - two[1]), one[1])


def _sum(one: Residue | None, two: Residue | None) -> Residue | None:
    if one is None or two is None:
        return None
    return _residue(gcd(one[0], two[0]), one[1] + two[1])


def _product(one: Residue | None, two: Residue | None) -> Residue | None:
    if one is None or two is None:
        return None
    (step, rest), (other, offset) = one, two
    return _residue(gcd(step * other, step * offset, rest * other), rest * offset)


def _remainder(one: Residue | None, two: Residue | None) -> Residue | None:
    """a % b is a less a multiple of b."""
    if one is None or two is None:
        return None
    return _residue(gcd(one[0], *two), one[1])


def _residue(step: int, rest: int) -> Residue:
    return step, rest % step if step else rest
