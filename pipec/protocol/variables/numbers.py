"""The values of variables at one point of a run at some sizes."""

from collections.abc import Mapping

from pipec.protocol.deduction.premises import combined
from pipec.protocol.deduction.rows import Row, evaluated
from pipec.protocol.forms.sample import UNIT, evaluate, function_of
from pipec.protocol.variables.variables import Variables
from pipec.verify.terms import Linear, Symbol, symbols_of

_WORKED_OUT = 3  # cost of evaluating a value, in row combinations


class Numbers(dict[int, int]):
    """Values of variables; derived ones are evaluated on demand. `launch`: the sizes."""

    def __init__(self, variables: Variables, launch: Mapping[Symbol, int], known: Mapping[int, int] | None = None) -> None:
        super().__init__(known or {})
        self.variables = variables
        # (Of blocks that are counted in several loops, no multiples: then each of them has a turn.)
        self.launch = launch if variables.unit == 1 else {**launch, UNIT: max(1, variables.unit * 5 // 8)}

    def __missing__(self, variable: int) -> int:
        combined.value += _WORKED_OUT
        form = self.variables.forms[variable]
        inside = self.variables.derived.get(variable)
        if inside is not None:
            registers = {symbol: self[each] for each in inside for symbol in symbols_of(self.variables.forms[each])}
            value = evaluate(form, {**self.launch, **registers}) * self.variables.spread.get(function_of(form), 1)
        # An arbitrary number, but the same one for each query of the value.
        elif form.terms and isinstance(form.terms[0][0], Symbol) and form.terms[0][0].name.startswith("unknown"):
            value = variable * 7919 % 5
        else:
            value = self.of_launch(form)
        self[variable] = value
        return value

    def of_launch(self, form: Linear) -> int:
        """What the sizes make of a form without registers."""
        return evaluate(form, self.launch) * self.variables.spread.get(function_of(form), 1)

    def after(self, values: Mapping[int, Row]) -> "Numbers":
        if not values:
            return self
        made = self.copy()
        made.assign(values)
        return made

    def copy(self) -> "Numbers":
        made = Numbers.__new__(Numbers)
        made.update(self)
        made.variables, made.launch = self.variables, self.launch
        return made

    def assign(self, values: Mapping[int, Row]) -> None:
        """At the same time; the values are in terms of those before."""
        derived, of = self.variables.derived, self.variables.derived_from
        now = [(variable, evaluated(row, self)) for variable, row in values.items() if variable not in derived]
        # Values derived from unchanged registers are kept: evaluating them takes most of a run's time.
        for register in of.keys() & values:
            for each in of[register]:
                self.pop(each, None)
        self.update(now)
