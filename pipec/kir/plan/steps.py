"""The steps of ranges that are multiples of a number of blocks: what a register holds of one may wrap to 0, or below it.

Such a step is positive where it fits in its register, which every launch checks.
"""

from collections.abc import Iterator

from pipec.isa.specials import AXES
from pipec.kir.ir import Kernel
from pipec.sema import tree
from pipec.sema.types import dtype_of
from pipec.terms.machine import range_of
from pipec.verify.terms import Apply, Compare, Formula, Linear, Symbol, add, atom, decided, floor, number, scale

_CLUSTERS = "clusters."


def steps_in_range(kernel: Kernel) -> tuple[Formula, ...]:
    """Conditions on the grid that a launch must satisfy."""
    forms = [(_blocks(kernel, one), range_of(dtype_of(one.type))[1]) for one in _unsure(kernel)]
    return tuple(dict.fromkeys(decided(Compare("ge", add(number(most), form, -1))) for form, most in forms if form is not None))


def _unsure(kernel: Kernel) -> Iterator[tree.Expression]:
    """The sums and products of steps that may be less than 1."""
    for role in kernel.roles:
        unseen = [loop.statement.walk.step for loop in role.loops if isinstance(loop.statement, tree.For) and loop.statement.walk]
        while unseen:
            step = unseen.pop()
            if role.values.of(step).least >= 1:
                continue
            if isinstance(step, tree.Call):
                unseen += step.arguments
            elif isinstance(step, tree.Binary):
                yield step


def _blocks(kernel: Kernel, expression: tree.Expression) -> Linear | None:
    """A sum or a product of numbers of blocks; None if it is something else, which a launch checks by itself."""
    match expression:
        case tree.Constant(int(value)):
            return number(value)
        case tree.Special(name) if name.startswith(_CLUSTERS):
            axis = name.removeprefix(_CLUSTERS)
            return floor(atom(Symbol(f"grid.{axis}")), kernel.cluster.shape[AXES.index(axis)])
        case tree.Special(name):
            return atom(Symbol(name))
        case tree.Binary("+" | "*" as operator, left, right):
            first, second = _blocks(kernel, left), _blocks(kernel, right)
            if first is None or second is None:
                return None
            if operator == "+":
                return add(first, second)
            constant, other = (first, second) if not first.terms else (second, first)
            return scale(other, constant.constant) if not constant.terms else atom(Apply("mul.lo.s32", (first, second)))
        case _:
            return None
