"""Integer values of a PTX kernel, as linear forms over symbols, and conditions on them.

A symbol is a name of the PTX itself: a parameter, a special register, or `P:%r12`, register %r12 of process number P, or `P:cursorN`,
the number of uses of a ring behind cursor N of process P. A form is canonical (sorted, no zero coefficient), so that equal forms are
equal values. Forms are unbounded integers; where a machine operation could wrap at 32 bits, the reader adds a requirement (see
network.Edge.requires) or uses an uninterpreted function.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from math import inf, prod
from typing import Any, Literal, Self, TypeGuard

from pipec.record import record

_SYMBOLS: "dict[str, Symbol]" = {}


@record(eq=False)
class Symbol:
    """An integer with a fixed value: a parameter, a special register, a register of a process. Symbols are interned, so that the most
    frequent operations, comparison and table lookup, are cheap."""

    name: str

    def __new__(cls, name: str) -> Self:
        found: Any = _SYMBOLS.get(name) or _SYMBOLS.setdefault(name, object.__new__(cls))
        return found  # type: ignore[no-any-return]


@record(remember=True)
class Floor:
    """`floor(form / divisor)`, divisor > 0."""

    form: "Linear"
    divisor: int


@record(remember=True)
class Choose:
    """`yes` if the condition holds, else `no`: selp, min, max, and conditions used as numbers."""

    condition: "Formula"
    yes: "Linear"
    no: "Linear"


@record(remember=True)
class Apply:
    """An uninterpreted function: equal arguments give equal values (wrapping products, division by a variable, a load of memory that is
    not written while the kernel runs)."""

    function: str
    arguments: tuple["Linear", ...]


@record(remember=True)
class Product:
    """The exact product of its factors: two or more, sorted by their text, none of them a product."""

    factors: tuple["Atom", ...]


Atom = Symbol | Floor | Choose | Apply | Product
# Symbols and numbers of which a value may be made after others are put into it. Without an end, of `x = x * x`, `x = min(x + y, z)`
# and the like each turn would put a value into itself at every place where it stands: terms would grow with the power of the turns.
MOST_WRITTEN = 4_096
MOST_FACTORS = 3  # of a product: replacing a factor by a sum creates as many products as the sum has terms


@record(remember=True)
class Linear:
    """`constant + sum of coefficient * atom`; `terms` are sorted by the atoms' text, without zero coefficients or duplicates."""

    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()


Relation = Literal["ge", "eq", "ne"]


@record(remember=True)
class Compare:
    """`form >= 0`, `form == 0` or `form != 0`."""

    relation: Relation
    form: Linear


@record(remember=True)
class Both:
    """All parts hold; no parts: true."""

    parts: tuple["Formula", ...]


@record(remember=True)
class Either:
    """Some part holds; no parts: false."""

    parts: tuple["Formula", ...]


Formula = Compare | Both | Either
# The range of a function whose name ends in the type of its result, like the machine's operations.
RANGES: dict[str, tuple[int, int]] = {f"s{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (*range(1, 33), 64)}
RANGES |= {f"u{bits}": (0, (1 << bits) - 1) for bits in (*range(1, 33), 64)}
RANGES["ctaid"] = 0, (1 << 31) - 2  # the place of a block that the scheduler hands out

# Floor division of the first number by the second, which is at least 1.
QUOTIENT = "floor"
# Of two numbers: what is left of the first divided by the second and rounded down; 0 where the second is not at least 1.
REMAINDER = "rest"
_MOST_STEPS = 2  # to the remainder of a number from that of one that is less

TRUE: Formula = Both(())
FALSE: Formula = Either(())


def number(value: int) -> Linear:
    return Linear(value)


@lru_cache(65_536)  # so that equal atoms are almost always the same object, and comparing two need not traverse both
def atom(one: Atom) -> Linear:
    return Linear(0, ((one, 1),))


def add(left: Linear, right: Linear, times: int = 1) -> Linear:
    """`left + times * right`."""
    if not right.terms:
        return Linear(left.constant + times * right.constant, left.terms)
    if not left.terms:
        return scale(right, times, left.constant)
    found = dict(left.terms)
    for one, coefficient in right.terms:
        found[one] = found.get(one, 0) + times * coefficient
    # (Sorting dominates the cost; without new atoms the terms are already sorted.)
    ordered = found.items() if len(found) == len(left.terms) else sorted(found.items(), key=_place)
    return Linear(left.constant + times * right.constant, tuple([term for term in ordered if term[1]]))


def summed(constant: int, parts: Iterable[tuple[Linear, int]]) -> Linear:
    """The sum of `constant` and each form times its number."""
    found: dict[Atom, int] = {}
    for form, times in parts:
        constant += times * form.constant
        for one, coefficient in form.terms:
            found[one] = found.get(one, 0) + times * coefficient
    return Linear(constant, tuple(sorted([term for term in found.items() if term[1]], key=_place)))


def scale(form: Linear, times: int, more: int = 0) -> Linear:
    """`times * form + more`."""
    return Linear(
        more + times * form.constant, tuple([(one, times * coefficient) for one, coefficient in form.terms]) if times else ()
    )


def _place(term: tuple[Atom, int]) -> str:
    return text_of(term[0])


text_of = lru_cache(65_536)(repr)


def negate(formula: Formula) -> Formula:
    match formula:
        case Compare("ge", form):
            return Compare("ge", add(Linear(-1), form, -1))
        case Compare("eq", form):
            return Compare("ne", form)
        case Compare(_, form):
            return Compare("eq", form)
        case Both(parts):
            return Either(tuple(negate(part) for part in parts))
        case Either(parts):
            return Both(tuple(negate(part) for part in parts))


def substitute(form: Linear, values: Mapping[Symbol, Linear]) -> Linear:
    """The form with symbols replaced simultaneously, also inside atoms."""
    if values.keys().isdisjoint(symbols_of(form)):
        return form
    return summed(form.constant, [(_atom(one, values), times) for one, times in form.terms])


def _atom(one: Atom, values: Mapping[Symbol, Linear]) -> Linear:
    match one:
        case Symbol():
            return values.get(one) or atom(one)
        case Floor(form, divisor):
            return floor(substitute(form, values), divisor)
        case Choose(condition, yes, no):
            return choose(substituted(condition, values), substitute(yes, values), substitute(no, values))
        case Apply(function, arguments):
            return applied(function, tuple(substitute(argument, values) for argument in arguments))
        case Product(factors):
            made = Linear(1)
            for factor in factors:
                made = product(made, substitute(atom(factor), values))
            return made


def replaced(form: Linear, values: Mapping[Atom, Linear]) -> Linear:
    """The form with atoms replaced simultaneously, also inside others; what a replaced one is made of is not looked at."""
    return summed(form.constant, [(_replaced_atom(one, values), times) for one, times in form.terms])


def _replaced_atom(one: Atom, values: Mapping[Atom, Linear]) -> Linear:
    found = values.get(one)
    if found is not None:
        return found
    match one:
        case Floor(form, divisor):
            return floor(replaced(form, values), divisor)
        case Choose(condition, yes, no):
            return choose(_replaced_in(condition, values), replaced(yes, values), replaced(no, values))
        case Apply(function, arguments):
            return applied(function, tuple(replaced(argument, values) for argument in arguments))
        case Product(factors):
            made = Linear(1)
            for factor in factors:
                made = product(made, _replaced_atom(factor, values))
            return made
        case Symbol():
            return atom(one)


def _replaced_in(formula: Formula, values: Mapping[Atom, Linear]) -> Formula:
    match formula:
        case Compare(relation, form):
            return decided(Compare(relation, replaced(form, values)))
        case Both(parts):
            return both(*(_replaced_in(part, values) for part in parts))
        case Either(parts):
            return either(*(_replaced_in(part, values) for part in parts))


def substituted(formula: Formula, values: Mapping[Symbol, Linear]) -> Formula:
    match formula:
        case Compare(relation, form):
            return decided(Compare(relation, substitute(form, values)))
        case Both(parts):
            return both(*(substituted(part, values) for part in parts))
        case Either(parts):
            return either(*(substituted(part, values) for part in parts))


def floor(form: Linear, divisor: int) -> Linear:
    """`floor(form / divisor)`: multiples of the divisor are factored out, and `(x // a + c) // b` is `(x + a * c) // (a * b)`."""
    whole = Linear(form.constant // divisor, tuple((one, c // divisor) for one, c in form.terms if c % divisor == 0))
    rest = Linear(form.constant % divisor, tuple((one, c) for one, c in form.terms if c % divisor))
    match rest.terms:
        case ():
            return whole
        case ((Floor(inner, first), 1),):
            return add(whole, floor(add(inner, Linear(first * rest.constant)), first * divisor))
    return add(whole, atom(Floor(rest, divisor)))


def quotient(form: Linear, divisor: Linear) -> Linear:
    """`floor(form / divisor)` for a divisor known to be at least 1; multiples of the divisor are factored out."""
    if not divisor.terms:
        return floor(form, divisor.constant)
    one, times = divisor.terms[0]
    whole, part = divmod(dict(form.terms).get(one, 0), times)
    if part:
        return atom(Apply(QUOTIENT, (form, divisor)))
    return Linear(whole, ((Apply(QUOTIENT, (add(form, divisor, -whole), divisor)), 1),))


def times_in(form: Linear, divisor: Linear) -> int | None:
    """What the divisor is multiplied by, if the form is a multiple of it."""
    one, unit = divisor.terms[0] if divisor.terms else (None, divisor.constant)
    times = (form.constant if one is None else dict(form.terms).get(one, 0)) // unit if unit else 0
    return times if scale(divisor, times) == form else None


def divided_further(fine: Apply, coarse: Apply) -> tuple[Linear, int] | None:
    """A number that lies between 0 and the other, of two quotients by g and by a multiple of it: `(x + m * g) // (n * g)` is
    `(x // g + m) // n`, so that `x // g + m` exceeds n times that by 0 to n - 1."""
    times = times_in(coarse.arguments[1], fine.arguments[1])
    more = times_in(add(coarse.arguments[0], fine.arguments[0], -1), fine.arguments[1])
    if times is None or times < 2 or more is None:
        return None
    return add(add(atom(fine), Linear(more)), atom(coarse), -times), times - 1


def remainder(form: Linear, divisor: Linear) -> Linear:
    """What is left of the form: multiples of the divisor are taken out, and remainders by it are what they remain of. That of one more is
    one more, or 0. (All this holds also where the divisor is less than 1, and so each remainder 0.)"""
    if not divisor.terms:
        whole = divisor.constant
        return add(form, floor(form, whole), -whole) if whole > 0 else Linear(0)
    for one, times in form.terms:
        match one:
            case Apply(function, (inner, by)) if function == REMAINDER and by == divisor:
                form = add(add(form, atom(one), -times), inner, times)
    one, times = divisor.terms[0]
    whole, part = divmod(dict(form.terms).get(one, 0), times)
    if not part:
        form = add(form, divisor, -whole)
    if form == Linear(0):
        return form
    if not 0 < form.constant <= _MOST_STEPS:
        return atom(Apply(REMAINDER, (form, divisor)))
    before = remainder(add(form, Linear(-1)), divisor)
    last = decided(Compare("ge", add(add(before, divisor, -1), Linear(1))))
    return choose(last, Linear(0), add(before, Linear(1)))


def is_remainder(one: Atom) -> TypeGuard[Apply]:
    return isinstance(one, Apply) and one.function == REMAINDER and len(one.arguments) == 2


def is_quotient(one: Atom) -> TypeGuard[Apply]:
    return isinstance(one, Apply) and one.function == QUOTIENT and len(one.arguments) == 2


def applied(function: str, arguments: tuple[Linear, ...]) -> Linear:
    """The value of a function, in the one way in which it is written."""
    return remainder(*arguments) if function == REMAINDER and len(arguments) == 2 else atom(Apply(function, arguments))


def product(left: Linear, right: Linear) -> Linear:
    """`left * right`, expanded."""
    made = add(scale(left, right.constant), Linear(0, right.terms), left.constant)
    for one, times in left.terms:
        for other, more in right.terms:
            factors = tuple(sorted((*_factors(one), *_factors(other)), key=text_of))
            if len(factors) > MOST_FACTORS:
                return atom(Apply("product", (left, right)))
            made = add(made, atom(Product(factors)), times * more)
    return made


def _factors(one: Atom) -> tuple[Atom, ...]:
    return one.factors if isinstance(one, Product) else (one,)


def choose(condition: Formula, yes: Linear, no: Linear) -> Linear:
    if condition == TRUE or yes == no:
        return yes
    if condition == FALSE:
        return no
    match condition:
        case Compare("ge", form) if form.terms:
            # Canonical form of minimum and maximum, however the comparison is written.
            larger = add(yes, no, -1)
            for times in (1, -1):
                if form.terms == scale(larger, times).terms and form.constant - times * larger.constant in (0, -1):
                    first, second = sorted((yes, no), key=text_of)
                    return atom(Choose(Compare("ge", scale(add(first, second, -1), times)), first, second))
        case Compare("eq" | "ne" as relation, form) if not add(yes, no, -1).terms:
            # A machine division rounded up: plus one if there is a remainder.
            more = _remains(form)
            if more is not None:
                some, none = (yes, no) if relation == "ne" else (no, yes)
                return add(none, more, some.constant - none.constant)
        case _:
            pass
    return atom(Choose(condition, yes, no))


def _remains(form: Linear) -> Linear | None:
    """1 if the form is not 0, else 0, if it is a remainder or the negation of one."""
    for one, times in form.terms:
        if isinstance(one, Floor) and abs(times) > 1:
            divided = add(scale(form, -1 if times > 0 else 1), atom(one), abs(times))
            # (The dividend may be a quotient itself: both divisions are one, by the product of the divisors.)
            if floor(divided, abs(times)) == atom(one):
                return add(floor(add(divided, Linear(abs(times) - 1)), abs(times)), atom(one), -1)
    return None


def factors_of(one: Product) -> frozenset[Atom]:
    """Its factors, and the products of some of them."""
    fewer = {Product(some) for count in range(2, len(one.factors)) for some in combinations(one.factors, count)}
    return frozenset((*one.factors, *fewer))


def decided(comparison: Compare) -> Formula:
    """TRUE or FALSE if the form is a number."""
    if comparison.form.terms:
        return comparison
    value = comparison.form.constant
    holds = {"ge": value >= 0, "eq": value == 0, "ne": value != 0}[comparison.relation]
    return TRUE if holds else FALSE


def both(*parts: Formula) -> Formula:
    return _joined(parts, Both, TRUE, FALSE)


def either(*parts: Formula) -> Formula:
    return _joined(parts, Either, FALSE, TRUE)


def _joined(
    parts: tuple[Formula, ...], kind: Callable[[tuple[Formula, ...]], Both | Either], unit: Formula, zero: Formula
) -> Formula:
    found: list[Formula] = []
    for part in parts:
        if part == zero:
            return zero
        inner = part.parts if isinstance(part, (Both, Either)) and isinstance(part, type(unit)) else (part,)
        found += [one for one in inner if one not in found]
    return found[0] if len(found) == 1 else kind(tuple(found))


@lru_cache(65_536)
def symbols_of(form: Linear) -> frozenset[Symbol]:
    found: set[Symbol] = set()
    for one, _ in form.terms:
        match one:
            case Symbol():
                found.add(one)
            case Floor(inner, _):
                found |= symbols_of(inner)
            case Choose(condition, yes, no):
                found |= symbols_in(condition) | symbols_of(yes) | symbols_of(no)
            case Apply(_, arguments):
                found.update(*(symbols_of(argument) for argument in arguments))
            case Product(factors):
                found.update(*(symbols_of(atom(factor)) for factor in factors))
    return frozenset(found)


def is_computed(one: Atom) -> TypeGuard[Apply]:
    """Whether it is a number that the machine reduces to a type, or multiplies in one: it may be exact."""
    if not isinstance(one, Apply):
        return False
    operation, _, kind = one.function.rpartition(".")
    return kind in RANGES and (operation, len(one.arguments)) in (("", 1), ("mul.lo", 2))


@lru_cache(65_536)
def computed_in(form: Linear) -> frozenset[Apply]:
    """What the machine computes inside of a form, at any depth."""
    found: set[Apply] = set()
    for one, _ in form.terms:
        if is_computed(one):
            found.add(one)
        match one:
            case Floor(inner, _):
                found |= computed_in(inner)
            case Choose(condition, yes, no):
                found |= _computed_of(condition) | computed_in(yes) | computed_in(no)
            case Apply(_, arguments):
                found.update(*map(computed_in, arguments))
            case Product(factors):
                found.update(*(computed_in(atom(factor)) for factor in factors))
            case Symbol():
                pass
    return frozenset(found)


def _computed_of(formula: Formula) -> frozenset[Apply]:
    match formula:
        case Compare(_, form):
            return computed_in(form)
        case Both(parts) | Either(parts):
            return frozenset().union(*map(_computed_of, parts))


@lru_cache(65_536)
def size_of(form: Linear) -> int:
    """Of how many symbols and numbers it consists, counted at each place where they stand."""
    return 1 + sum(_size_of(one) for one, _ in form.terms)


def _size_of(one: Atom) -> int:
    match one:
        case Symbol():
            return 1
        case Floor(form, _):
            return 1 + size_of(form)
        case Choose(condition, yes, no):
            return _size_in(condition) + size_of(yes) + size_of(no)
        case Apply(_, arguments):
            return 1 + sum(map(size_of, arguments))
        case Product(factors):
            return sum(map(_size_of, factors))


def _size_in(formula: Formula) -> int:
    match formula:
        case Compare(_, form):
            return size_of(form)
        case Both(parts) | Either(parts):
            return 1 + sum(map(_size_in, parts))


def size_with(form: Linear, sizes: Mapping[Symbol, int]) -> int:
    """About how large it is with symbols replaced by forms of these sizes."""
    if sizes.keys().isdisjoint(symbols_of(form)):
        return size_of(form)
    return 1 + sum(_size_with(one, sizes) for one, _ in form.terms)


def _size_with(one: Atom, sizes: Mapping[Symbol, int]) -> int:
    match one:
        case Symbol():
            return sizes.get(one, 1)
        case Floor(form, _):
            return 1 + size_with(form, sizes)
        case Choose(condition, yes, no):
            return size_in(condition, sizes) + size_with(yes, sizes) + size_with(no, sizes)
        case Apply(_, arguments):
            return 1 + sum(size_with(argument, sizes) for argument in arguments)
        case Product(factors):
            return prod(_size_with(factor, sizes) for factor in factors)  # it is multiplied out


def size_in(formula: Formula, sizes: Mapping[Symbol, int]) -> int:
    match formula:
        case Compare(_, form):
            return size_with(form, sizes)
        case Both(parts) | Either(parts):
            return 1 + sum(size_in(part, sizes) for part in parts)


def forms_of(formula: Formula) -> Iterator[Linear]:
    """The forms that the formula compares with 0."""
    match formula:
        case Compare(_, form):
            yield form
        case Both(parts) | Either(parts):
            for part in parts:
                yield from forms_of(part)


def symbols_in(formula: Formula) -> frozenset[Symbol]:
    match formula:
        case Compare(_, form):
            return symbols_of(form)
        case Both(parts) | Either(parts):
            return frozenset().union(*(symbols_in(part) for part in parts))


def is_larger(chosen: Choose) -> bool:
    """Whether it is the maximum of its two numbers."""
    return chosen.condition == Compare("ge", add(chosen.yes, chosen.no, -1))


def is_smaller(chosen: Choose) -> bool:
    return chosen.condition == Compare("ge", add(chosen.no, chosen.yes, -1))


def bounds_by_choice(chosen: Choose) -> tuple[tuple[float, float], tuple[float, float]]:
    """The bounds of `yes` and `no` that follow from the condition."""
    yes, no = (-inf, inf), (-inf, inf)
    match chosen.condition:
        case Compare("ge", form):
            yes, no = _bounds_above(chosen.yes, form), _bounds_above(chosen.no, add(Linear(-1), form, -1))
        case _:
            pass
    return yes, no


def _bounds_above(value: Linear, form: Linear) -> tuple[float, float]:
    """The bounds of the value if the form is non-negative."""
    if not (add(value, form, -1)).terms:
        return value.constant - form.constant, inf
    if not (add(value, form)).terms:
        return -inf, value.constant + form.constant
    return -inf, inf
