"""The range of a form's value, given the ranges of its symbols."""

from collections.abc import Collection, Iterable, Mapping

from pipec.verify.terms import (
    RANGES,
    Apply,
    Atom,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    Product,
    Symbol,
    add,
    bounds_by_choice,
    floor,
    is_larger,
    is_smaller,
    symbols_of,
)

FAR = 1 << 62  # an unbounded value

Between = dict[Symbol, tuple[int, int]]


def ranges_in(facts: Iterable[Formula]) -> Between:
    """The range of each symbol of which a fact is a bound, or what it is."""
    between: Between = {}
    for fact in facts:
        match fact:
            case Compare("ge", Linear(constant, ((Symbol() as symbol, coefficient),))):
                low, high = between.get(symbol, (-FAR, FAR))
                if coefficient > 0:
                    low = max(low, -(constant // coefficient))
                else:
                    high = min(high, constant // -coefficient)
                between[symbol] = low, high
            case Compare("eq", Linear(constant, ((Symbol() as symbol, (1 | -1) as coefficient),))):
                between[symbol] = -coefficient * constant, -coefficient * constant
            case _:
                pass
    return between


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
            if is_smaller(each):
                return min(a, c), min(b, d)
            if is_larger(each):
                return max(a, c), max(b, d)
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


def sizes_beyond(
    form: Linear, sign: int, registers: Collection[Symbol], between: Mapping[Symbol, tuple[int, int]]
) -> list[Linear]:
    """Forms of sizes that the form is at most, with sign 1, or at least, with -1."""
    if _plain(form) and symbols_of(form).isdisjoint(registers):
        return [form]
    match form:
        case Linear(more, ((Choose(_, yes, no) as one, 1),)) if is_smaller(one) or is_larger(one):
            found = [each for part in (yes, no) for each in sizes_beyond(part, sign, registers, between)]
            if is_smaller(one) != (sign > 0):
                # (What bounds one of them bounds both where the other one is a number beyond which it never lies.)
                numbers = [each.constant for each in (yes, no) if not each.terms]
                found = [each for each in found if each.terms and numbers and _beyond(range_of(each, between), sign, numbers[0])]
            return [add(each, Linear(more)) for each in found]
        case Linear(more, ((Floor(inner, divisor), 1),)):
            return [add(floor(each, divisor), Linear(more)) for each in sizes_beyond(inner, sign, registers, between)]
        case _:
            return []


def _plain(form: Linear) -> bool:
    """Whether it is made of sums and of quotients by numbers alone."""
    return all(isinstance(one, Symbol) or isinstance(one, Floor) and _plain(one.form) for one, _ in form.terms)


def _beyond(between: tuple[int, int], sign: int, number: int) -> bool:
    return between[0] >= number if sign > 0 else between[1] <= number
