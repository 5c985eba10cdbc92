"""What a loaded number is made of, in one form.

A size that may be 0 is divided by as a 1: in different words the same remainder is another one where the size is 0. Where a role asks for
that, it is required that the size is at least 1, and so that what the machine computes of counters fits its type.
"""

from collections.abc import Iterable, Iterator

from pipec.protocol.forms.extents import Between, range_of
from pipec.protocol.forms.rewriting import Rewriting, is_machine_product
from pipec.verify.reader.values.parts import PLACES, is_row, of_places
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
    atom,
    choose,
    decided,
    forms_of,
    is_larger,
    is_quotient,
    is_remainder,
    is_smaller,
    negate,
)

_REDUCED = ("s32", "u32")


def loads(one: Atom) -> bool:
    """Whether a part of it is loaded."""
    if isinstance(one, Apply) and one.function.startswith("ld."):
        return True
    return any(loads(each) for form in parts_of(one) for each, _ in form.terms)


def parts_of(one: Atom) -> tuple[Linear, ...]:
    match one:
        case Floor(form, _):
            return (form,)
        case Apply(_, arguments):
            return arguments
        case Choose(condition, yes, no):
            return (*forms_of(condition), yes, no)
        case Product(factors):
            return tuple(map(atom, factors))
        case Symbol():
            return ()


def has(form: Linear, one: Atom) -> bool:
    return any(each == one or any(has(part, one) for part in parts_of(each)) for each, _ in form.terms)


def asked_to_divide(one: Atom) -> Iterator[Linear]:
    """Divisors of which it is asked whether they are at least 1, as they are divided by as a 1 if not."""
    if isinstance(one, Choose) and (divisor := _divisor(one)) is not None and one != _larger_than_nothing(divisor):
        yield divisor
    for form in parts_of(one):
        for each, _ in form.terms:
            yield from asked_to_divide(each)


def _divisor(one: Choose) -> Linear | None:
    match one:
        case Choose(Compare("ge", Linear(more, terms)), yes, no) if terms and any(
            by == _max(Linear(more + 1, terms)) for form in (yes, no) for by in _divisors(form)
        ):
            return Linear(more + 1, terms)
        case _:
            return None


def _divisors(form: Linear) -> Iterator[Linear]:
    for one, _ in form.terms:
        if is_remainder(one) or is_quotient(one):
            yield one.arguments[1]


def _max(size: Linear) -> Linear:
    return choose(decided(Compare("ge", add(size, Linear(-1)))), size, Linear(1))


def _larger_than_nothing(size: Linear) -> Atom | None:
    match _max(size):
        case Linear(0, ((one, 1),)):
            return one
        case _:
            return None


class Worded:
    """A number in one form. `required`: of sizes and registers, so that it is that."""

    def __init__(self, divisors: Iterable[Linear], between: Between) -> None:
        self.required: dict[Formula, None] = {}
        self.between = between
        divisors = [*divisors]
        self._known = {Compare("ge", add(one, Linear(-1))) for one in divisors}
        self._larger = {_max(one) for one in divisors}  # by which is divided, whether or not they are at least 1
        self._rewriting = Rewriting(self._rule)

    def form(self, form: Linear) -> Linear:
        return self._rewriting.form(form)

    def _rule(self, one: Atom) -> Linear | None:
        match one:
            case Choose(_, yes, no) if is_smaller(one) and (made := self._within(yes, no) or self._within(no, yes)) is not None:
                return self.form(made)
            case Choose(condition, yes, no) if atom(one) not in self._larger:
                for asked, taken in ((condition, yes), (negate(condition), no)):
                    if asked in self._known:
                        self.required[asked] = None
                        return self.form(taken)
            case Apply(kind, (inner,)) if kind in _REDUCED:
                form = self.form(inner)
                least, most = RANGES[kind]
                between = _range(form, self.between)
                if between is not None and least <= between[0] and between[1] <= most:
                    return form
                if of_places(form) or is_row(form) or _is_first_row(form):
                    self.required[Compare("ge", add(form, Linear(-least)))] = None
                    self.required[Compare("ge", add(Linear(most), form, -1))] = None
                    return form
            case Apply(_, (left, right)) if is_machine_product(one) and not (left.terms and right.terms):
                left, right = self.form(left), self.form(right)
                return Linear(0) if Linear(0) in (left, right) else None
            case _:
                return None
        return None

    def _within(self, larger: Linear, most: Linear) -> Linear | None:
        """A number between a constant and what is never less than that: `min(max(x, 0), n)` is `max(min(x, n), 0)`."""
        found = _max_of(larger)
        if found is None or range_of(most, self.between)[0] < found[1]:
            return None
        x, least = found
        smaller = choose(decided(Compare("ge", add(most, x, -1))), x, most)
        return choose(decided(Compare("ge", add(smaller, Linear(-least)))), smaller, Linear(least))


def _max_of(form: Linear) -> tuple[Linear, int] | None:
    """A number, and a constant that it is replaced by where it is less."""
    match form:
        case Linear(0, ((Choose(_, yes, no) as one, 1),)) if is_larger(one) and bool(yes.terms) != bool(no.terms):
            return (yes, no.constant) if yes.terms else (no, yes.constant)
        case _:
            return None


def _is_first_row(form: Linear) -> bool:
    """Whether it is made of the row of a block's first tile, as that of the next one is made of rows."""
    return bool(form.terms) and all(
        times > 0
        and is_quotient(one)
        and all(isinstance(each, Symbol) and each.name.startswith(PLACES) for each, _ in one.arguments[0].terms)
        for one, times in form.terms
    )


def _range(form: Linear, between: Between) -> tuple[int, int] | None:
    """Between which numbers a sum, or what a division of a number that is not negative makes or leaves, lies; None if it is none."""
    match form:
        case Linear(0, ((one, 1),)) if is_remainder(one):
            return 0, max(range_of(one.arguments[1], between)[1] - 1, 0)
        case Linear(0, ((one, 1),)) if is_quotient(one):
            low, high = range_of(one.arguments[0], between)
            return (0, high) if low >= 0 else None
        case _:
            return range_of(form, between) if all(isinstance(one, Symbol) for one, _ in form.terms) else None
