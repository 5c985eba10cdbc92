"""The range of a form's value, given the ranges of its symbols."""

from collections.abc import Mapping

from pipec.verify.terms import RANGES, Apply, Atom, Choose, Floor, Linear, Product, Symbol, bounds_by_choice

FAR = 1 << 62  # an unbounded value


def range_of(form: Linear, between: Mapping[Symbol, tuple[int, int]]) -> tuple[int, int]:
    low = high = form.constant
    for each, coefficient in form.terms:
        least, most = atom_range(each, between)
        if coefficient < 0:
            least, most = most, least
        low = low + coefficient * least if abs(least) < FAR and low > -FAR else -FAR
        high = high + coefficient * most if abs(most) < FAR and high < FAR else FAR
    return max(low, -FAR), min(high, FAR)


def atom_range(each: Atom, between: Mapping[Symbol, tuple[int, int]]) -> tuple[int, int]:
    match each:
        case Symbol():
            return between.get(each, (-FAR, FAR))
        case Floor(form, divisor):
            low, high = range_of(form, between)
            return (low // divisor if low > -FAR else low), (high // divisor if high < FAR else high)
        case Choose(_, yes, no):
            (a, b), (c, d) = range_of(yes, between), range_of(no, between)
            (e, f), (g, h) = bounds_by_choice(each)
            return int(max(-FAR, min(max(a, e), max(c, g)))), int(min(FAR, max(min(b, f), min(d, h))))
        case Product(factors):
            least = most = 1
            for low, high in (atom_range(factor, between) for factor in factors):
                corners = [left * right for left in (least, most) for right in (low, high)]
                least, most = max(min(corners), -FAR), min(max(corners), FAR)
            return least, most
        case Apply(function, _):
            return RANGES.get(function.rpartition(".")[2], (-FAR, FAR))
