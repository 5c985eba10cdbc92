"""The meaning of variables that stand for a choice between two numbers, a quotient of one, or a number reduced to a machine type.

Opaque variables would imply nothing: each is replaced by the value it equals if that is known, and until then has the bounds that follow
from its meaning.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from pipec.protocol.deduction.comparisons import Comparison, Condition, Connective, opposite
from pipec.protocol.deduction.rows import Row, one, plus, scaled
from pipec.protocol.forms.rewriting import is_machine_product
from pipec.record import record
from pipec.verify.terms import (
    RANGES,
    Apply,
    Atom,
    Choose,
    Compare,
    Floor,
    Formula,
    Linear,
    add,
    floor,
    forms_of,
    is_larger,
    is_smaller,
    product,
    scale,
)


@record
class Meaning:
    """`unless`: conditions, with the row that the variable equals where the condition cannot hold. `bounds`: rows that are not negative.
    `chosen`: it equals one of the rows, and involves registers."""

    variable: int
    unless: tuple[tuple[Condition, Row], ...]
    bounds: tuple[Row, ...] = ()
    chosen: bool = False


class Rows(Protocol):
    """Converts forms to rows of variables (see `Variables`)."""

    @property
    def number(self) -> dict[Atom, int]: ...

    @property
    def derived(self) -> dict[int, tuple[int, ...]]: ...

    def row(self, form: Linear) -> Row: ...

    def condition(self, formula: Formula) -> Condition: ...


def name_parts(rows: Rows, values: Iterable[Atom]) -> None:
    """Numbers the operands of choices that involve registers."""
    looked_at = set[Atom]()
    new = [*values]
    while new := [each for each in new if rows.number[each] in rows.derived and each not in looked_at]:
        looked_at.update(new)
        known = len(rows.number)
        for form in (form for each in new for form in _parts(each)):
            rows.row(form)
        new = [*rows.number][known:]


def meanings_of(rows: Rows, values: Iterable[Atom]) -> Iterator[Meaning]:
    """The meanings of variables whose operands are variables."""
    for each in values:
        forms = [product(*each.arguments)] if is_machine_product(each) else _parts(each)
        if all(part in rows.number for form in forms for part, _ in form.terms):
            yield from _of_atom(rows, each, rows.number[each])


def _of_atom(rows: Rows, each: Atom, variable: int) -> Iterator[Meaning]:
    match each:
        case Choose(condition, yes, no):
            when = rows.condition(condition)
            made = (rows.condition(_unequal(each)), rows.row(no)), (opposite(when), rows.row(yes))
            derived = variable in rows.derived
            yield Meaning(variable, made, _bounds(rows, each, variable) if derived else (), derived)
        case Floor() if variable in rows.derived and (divided := _divided(each)) is not None:
            sign, parts = divided
            first, second = map(rows.row, parts)
            apart = scaled(plus(second, first, -1), sign)
            made = (Comparison("ge", plus(apart, (-1, ()))), second), (Comparison("ge", scaled(apart, -1)), first)
            yield Meaning(variable, made, tuple(scaled(plus(part, one(variable), -1), sign) for part in (first, second)), True)
        case Apply(kind, (form,)) if kind in RANGES:
            outside = Connective(False, tuple(map(rows.condition, _outside(form, *RANGES[kind]))))
            yield Meaning(variable, ((outside, rows.row(form)),))
        case Apply(function, factors) if is_machine_product(each):
            form = product(*factors)
            outside = Connective(False, tuple(map(rows.condition, _outside(form, *RANGES[function.rpartition(".")[2]]))))
            yield Meaning(variable, ((outside, rows.row(form)),))


def _divided(each: Atom) -> tuple[int, tuple[Linear, Linear]] | None:
    """Of a quotient of the smaller (1) or larger one (-1) of two numbers: the quotients of these, of which it is that one, as rounding
    keeps the order of numbers. A loop over a chunk compares with one, and the loop over chunks with the other."""
    match each:
        case Floor(Linear(constant, ((Choose() as chosen, times),)), divisor) if is_smaller(chosen) or is_larger(chosen):
            first, second = (floor(scale(part, times, constant), divisor) for part in (chosen.yes, chosen.no))
            return (1 if is_smaller(chosen) == (times > 0) else -1), (first, second)
        case _:
            return None


def _unequal(one: Choose) -> Formula:
    """When the choice has not the value of its second number. Of two equal numbers that is the smaller or larger one as well."""
    match one.condition:
        case Compare("ge", form) if is_smaller(one) or is_larger(one):
            return Compare("ge", add(form, Linear(-1)))
        case _:
            return one.condition


def _parts(each: Atom) -> Iterable[Linear]:
    match each:
        case Choose(condition, yes, no):
            return yes, no, *forms_of(condition)
        case Floor():
            divided = _divided(each)
            return () if divided is None else divided[1]
        case Apply(kind, (form,)) if kind in RANGES:
            return (form,)
        case _:
            return ()


def _outside(form: Linear, least: int, most: int) -> Iterator[Formula]:
    """The disjunction that the form is outside the range."""
    below, above = [form], [form]
    match form:
        case Linear(0, ((Choose() as chosen, 1),)):
            # A lower bound of a minimum may only be known for both operands.
            below = [chosen.yes, chosen.no] if is_smaller(chosen) else below
            above = [chosen.yes, chosen.no] if is_larger(chosen) else above
        case _:
            pass
    yield from (Compare("ge", add(Linear(least - 1), each, -1)) for each in below)
    yield from (Compare("ge", add(each, Linear(-most - 1))) for each in above)


def _bounds(rows: Rows, each: Choose, variable: int) -> tuple[Row, ...]:
    """A minimum is at most each operand, a maximum at least."""
    sign = 1 if is_larger(each) else -1 if is_smaller(each) else 0
    return tuple(scaled(plus(one(variable), rows.row(part), -1), sign) for part in (each.yes, each.no)) if sign else ()
