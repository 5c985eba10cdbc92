"""Which residues a number of the kernel can take: is a coordinate always a multiple of what TMA asks for?

Loop variables, block indices and remainders take every value of their step; launch values (sizes, scalar parameters) are taken to be
fitting, since only the launch can tell.
"""

from math import gcd

from pipec.checks.facts import RoleFacts
from pipec.sema import tree

# (step, rest): the values rest, rest + step, rest + 2 * step ...; step 0 is the single value `rest`.
Residue = tuple[int, int]
_ANY: Residue = (1, 0)


class Multiples:
    """Of one role: `unit` is what launch values count as multiples of."""

    def __init__(self, role: RoleFacts, unit: int) -> None:
        self._unit = unit
        self._loops = {loop.variable: loop for loop in role.role.loops if loop.variable is not None}
        self._assigned: dict[tree.Variable, list[tree.Expression]] = {}
        for block in role.role.blocks:
            for operation in block.operations:
                if isinstance(operation, tree.Assign):
                    self._assigned.setdefault(operation.variable, []).append(operation.value)
        self._known: dict[tree.Variable, Residue] = {}

    def breaks(self, expression: tree.Expression) -> bool:
        """Whether the value is not always a multiple of the unit."""
        step, rest = self.residue(expression)
        return step % self._unit != 0 or rest % self._unit != 0

    def residue(self, expression: tree.Expression) -> Residue:
        match expression:
            case tree.Constant(value):
                return 0, int(value)
            case tree.ReadVariable(variable):
                return self._variable(variable)
            case tree.ReadDimension() | tree.ReadParameter() | tree.Call() | tree.Select() | tree.Convert():
                return self._unit, 0
            case tree.Unary("-", operand):
                step, rest = self.residue(operand)
                return step, -rest
            case tree.Binary("+" | "-" as operator, left, right):
                (step, rest), (other, offset) = self.residue(left), self.residue(right)
                return gcd(step, other), rest + (offset if operator == "+" else -offset)
            case tree.Binary("*", left, right):
                (step, rest), (other, offset) = self.residue(left), self.residue(right)
                return gcd(step * other, step * offset, rest * other), rest * offset
            case _:
                return _ANY

    def _variable(self, variable: tree.Variable) -> Residue:
        if variable not in self._known:
            self._known[variable] = self._unit, 0  # while it is looked at: a value made of itself
            self._known[variable] = self._look(variable)
        return self._known[variable]

    def _look(self, variable: tree.Variable) -> Residue:
        loop = self._loops.get(variable)
        if loop is not None and loop.start is not None and loop.step is not None:
            step, rest = self.residue(loop.start)
            return gcd(step, loop.step), rest
        values = self._assigned.get(variable, [])
        return self.residue(values[0]) if len(values) == 1 else (self._unit, 0)
