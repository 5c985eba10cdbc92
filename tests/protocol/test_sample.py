"""The numbers with which runs look for a deadlock: what the machine computes, as the tests of the checker compute it."""

import pytest
from verify.interpret import value

from pipec.protocol.forms.sample import evaluate
from pipec.verify import terms
from pipec.verify.terms import Apply, Linear, Symbol, atom

X, Y = (atom(Symbol(name)) for name in "xy")


@pytest.mark.parametrize("function", [terms.QUOTIENT, terms.REMAINDER, "mul.lo.s32", "mul.lo.u8"])
def test_numbers_are_computed_as_elsewhere(function: str) -> None:
    """A divisor may be 0: a run with such sizes is one of those that are tried."""
    form: Linear = atom(Apply(function, (X, Y)))
    for left in (-9, -1, 0, 1, 7, 300, 2**31 - 1):
        for right in (-3, 0, 1, 2, 200, 2**31 - 1):
            found = evaluate(form, {Symbol("x"): left, Symbol("y"): right})
            if right > 0 or function != terms.QUOTIENT:  # which is any number there
                assert found == value(form, {"x": left, "y": right}), (left, right)
