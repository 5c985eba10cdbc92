"""What a launch promises of a scalar holds of the register with its bits, whatever the types of the parameter and of the source."""

import pytest
from verify.interpret import holds

from pipec.verify.reader.text.interface import Interface, facts_of, signed_as_declared
from pipec.verify.terms import Compare, Linear, Symbol, add, atom

TYPES = [f"{sign}{bits}" for sign in "iu" for bits in (8, 16, 32, 64)]


def as_type(bits: int, width: int, *, signed: bool) -> int:
    return bits - (1 << width) if signed and bits >> width - 1 else bits


@pytest.mark.parametrize("sign", "sub")
@pytest.mark.parametrize("dtype", TYPES)
def test_a_promise_holds_of_the_bits(dtype: str, sign: str) -> None:
    width, kind = int(dtype[1:]), f"{sign}{dtype[1:]}"
    least = Symbol("n")
    for bits in (0, 1, 2, (1 << width - 1) - 1, 1 << width - 1, (1 << width - 1) + 1, (1 << width) - 2, (1 << width) - 1):
        number = as_type(bits, width, signed=dtype[0] == "i")
        promised = Compare("eq", add(atom(least), Linear(-number)))
        (fact,) = facts_of(Interface(scalars={"n": ("p0", dtype)}, conditions=(promised,)), {"p0": kind})
        symbol = as_type(bits, width, signed=sign in "sb" or signed_as_declared(dtype, kind))
        assert holds(fact, {"p0": symbol}), (dtype, kind, bits)
        assert not holds(fact, {"p0": symbol ^ 1})


def test_a_scalar_of_another_width_is_promised_nothing() -> None:
    promised = Compare("ge", atom(Symbol("n")))
    assert not facts_of(Interface(scalars={"n": ("p0", "i32")}, conditions=(promised,)), {"p0": "u64"})
