"""The smaller or larger of two numbers that are made of a counter: how far a loop reaches in a tile, say.

`min(ceildiv(K, 64), m + 1)` is `ceildiv(min(K, 64 * m + 64), 64)`, as rounding down keeps the order of numbers. Written so, a bound that is
counted in blocks and one that is counted in elements are made of the same number, as they are where the bound is a size.
"""

from pipec.verify.terms import (
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Symbol,
    add,
    choose,
    decided,
    floor,
    is_larger,
    is_smaller,
    scale,
    symbols_in,
    symbols_of,
)


def undivided(form: Linear) -> Linear:
    """The form; if it is the smaller or larger one of two numbers, of which one is a quotient of sizes and the other is made of a counter,
    as the quotient of such a number."""
    match form:
        case Linear(0, ((Choose(_, yes, no) as one, 1),)) if is_smaller(one) or is_larger(one):
            for quotient, other in ((yes, no), (no, yes)):
                if counts(other) and not counts(quotient) and (divided := _divided(quotient)) is not None:
                    number, more, divisor = divided
                    multiple = scale(other, divisor)
                    above = add(multiple, number, -1)
                    taken = decided(Compare("ge", above if is_smaller(one) else scale(above, -1)))
                    # (What is added is less than the divisor, so that it leaves the multiple what it is.)
                    return floor(add(choose(taken, number, multiple), Linear(more)), divisor)
        case _:
            pass
    return form


def _divided(form: Linear) -> tuple[Linear, int, int] | None:
    """What is divided, what was added to it, which is less than the divisor, and the divisor."""
    match form:
        case Linear(whole, ((Floor(inner, divisor), 1),)) if 0 <= inner.constant < divisor:
            return add(inner, Linear(whole * divisor - inner.constant)), inner.constant, divisor
        case _:
            return None


def counts(form: Linear) -> bool:
    """Whether a register is a part of it."""
    return _registers(symbols_of(form))


def counted_in(formula: Formula) -> bool:
    return _registers(symbols_in(formula))


def _registers(symbols: frozenset[Symbol]) -> bool:
    return any(":" in symbol.name and " " not in symbol.name for symbol in symbols)
