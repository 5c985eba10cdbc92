"""The sign of a quotient by a size, such as the number of blocks: positive, 0 or negative, depending on the dividend.

That is told only of quotients of whose dividend something else is known. Of the number of tiles of a group, which is computed from numbers
in memory, nobody asks but the loop over these tiles: by its definition the quotient may have any sign, and to ask again in each situation
takes most of the time of a proof.
"""

from collections.abc import Collection, Iterator

from pipec.protocol.deduction.comparisons import Connective
from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row, one, plus
from pipec.protocol.forms.extents import range_of
from pipec.protocol.variables.variables import Variables
from pipec.verify.network import Network, Test, edges_of
from pipec.verify.terms import (
    RANGES,
    Apply,
    Both,
    Choose,
    Compare,
    Floor,
    Linear,
    Product,
    Symbol,
    add,
    atom,
    forms_of,
    is_quotient,
)


class Signs:
    """Of the quotients of registers, also of those that are named as the search goes on. `compared`: the functions whose values tests or
    requirements compare."""

    def __init__(self, network: Network, variables: Variables) -> None:
        self.variables = variables
        self.compared = {each.function for form in _compared(network) for each in _inside(form) if isinstance(each, Apply)}
        self.known = 0  # values that had a name when these were made
        self.found: list[tuple[int, Connective]] = []
        self.bounded: list[tuple[Row, Row]] = []  # quotients, and what is divided

    def all(self, premises: Premises) -> list[Connective]:
        """Of those that are not known to equal another one."""
        numbers = self.variables.number
        for each in [*numbers][self.known :]:
            if is_quotient(each) and numbers[each] in self.variables.derived and self._is_known_of(each.arguments[0]):
                self.found.append((numbers[each], self._cases(each)))
                self.bounded.append((one(numbers[each]), self.variables.row(each.arguments[0])))
        self.known = len(numbers)
        quotients = {number for number, _ in self.found}
        return [cases for number, cases in self.found if not _is_another(premises.solved.get(number), quotients)]

    def of_sizes(self) -> list[tuple[Row, Row]]:
        """Quotients of sizes, each with what is divided: that is not negative where the quotient is not."""
        made = [
            each for each in self.variables.number if is_quotient(each) and self.variables.is_size(self.variables.number[each])
        ]
        return [(self.variables.row(atom(each)), self.variables.row(each.arguments[0])) for each in made]

    def resolve(self, premises: Premises) -> None:
        """A quotient lies between 0 and what is divided, where that is not negative; so it is where the quotient is not."""
        for quotient, dividend in self.bounded:
            if premises.entails(dividend):
                premises.at_least(quotient)
            elif premises.entails(quotient):
                premises.at_least(dividend)
            else:
                continue
            premises.at_least(plus(dividend, quotient, -1))

    def _cases(self, quotient: Apply) -> Connective:
        form, divisor = quotient.arguments
        whole, last = Compare("ge", add(form, divisor, -1)), add(add(divisor, Linear(-1)), form, -1)
        upwards = Both((Compare("ge", add(atom(quotient), Linear(-1))), whole))
        within = Both((Compare("eq", atom(quotient)), Compare("ge", form), Compare("ge", last)))
        downwards = Both((Compare("ge", add(Linear(-1), atom(quotient), -1)), Compare("ge", add(Linear(-1), form, -1))))
        return Connective(False, tuple(map(self.variables.condition, (upwards, within, downwards))))

    def _is_known_of(self, dividend: Linear) -> bool:
        low, high = range_of(dividend, self.variables.between)
        parts = _inside(dividend)
        return low >= 0 or high < 0 or any(isinstance(each, Symbol) or each.function in self.compared for each in parts)


def _is_another(row: Row | None, quotients: Collection[int]) -> bool:
    """Whether what a quotient is known to be is another quotient, whose sign is asked for."""
    return row is not None and row[0] == 0 and len(row[1]) == 1 and row[1][0][1] == 1 and row[1][0][0] in quotients


def _compared(network: Network) -> Iterator[Linear]:
    for process in network.processes:
        for state in process.states:
            if isinstance(state.action, Test):
                yield from forms_of(state.action.condition)
            for edge in edges_of(state.action):
                for formula in edge.requires:
                    yield from forms_of(formula)


def _inside(form: Linear) -> Iterator[Symbol | Apply]:
    """What the value of a form is computed from, but not the arguments of functions of which nothing is known."""
    for each, _ in form.terms:
        match each:
            case Symbol():
                yield each
            case Floor(inner, _):
                yield from _inside(inner)
            case Choose(condition, yes, no):
                for part in (yes, no, *forms_of(condition)):
                    yield from _inside(part)
            case Product(factors):
                for factor in factors:
                    yield from _inside(atom(factor))
            case Apply(kind, (number,)) if kind in RANGES:
                yield from _inside(number)
            case Apply():
                yield each
