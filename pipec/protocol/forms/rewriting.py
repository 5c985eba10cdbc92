"""Terms with some of the values in them replaced by others."""

from collections.abc import Callable, Iterator
from typing import TypeGuard

from pipec.record import replace
from pipec.verify.checker.certificate import Case, Certificate
from pipec.verify.terms import (
    QUOTIENT,
    RANGES,
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Product,
    add,
    applied,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    forms_of,
    product,
    quotient,
)

_PRODUCTS = tuple(f"mul.lo.{kind}" for kind in RANGES)


class Rewriting:
    """`rule`: what a value is replaced by; None if it stays, and only what it is made of is replaced."""

    def __init__(self, rule: Callable[[Atom], Linear | None]) -> None:
        self.rule = rule

    def form(self, form: Linear) -> Linear:
        made = Linear(form.constant)
        for one, times in form.terms:
            made = add(made, self.atom(one), times)
        return made

    def atom(self, one: Atom) -> Linear:
        found = self.rule(one)
        if found is not None:
            return found
        match one:
            case Apply(name, (upper, lower)) if name == QUOTIENT:
                return quotient(self.form(upper), self.form(lower))
            case Apply(name, arguments):
                return applied(name, tuple(map(self.form, arguments)))
            case Floor(inner, divisor):
                return floor(self.form(inner), divisor)
            case Choose(condition, yes, no):
                return choose(self.formula(condition), self.form(yes), self.form(no))
            case Product(factors):
                made = Linear(1)
                for factor in factors:
                    made = product(made, self.atom(factor))
                return made
            case _:
                return atom(one)

    def formula(self, formula: Formula) -> Formula:
        match formula:
            case Compare(relation, form):
                return decided(Compare(relation, self.form(form)))
            case Both(parts):
                return both(*map(self.formula, parts))
            case Either(parts):
                return either(*map(self.formula, parts))


def in_terms_of(certificate: Certificate, rewriting: Rewriting) -> Certificate:
    def formulas(given: tuple[Formula, ...]) -> tuple[Formula, ...]:
        return tuple(map(rewriting.formula, given))

    cases = tuple(
        Case(formulas(case.when), case.begin, tuple(replace(one, facts=formulas(one.facts)) for one in case.nodes))
        for case in certificate.cases
    )
    return replace(certificate, cases=cases, assumes=formulas(certificate.assumes))


def is_machine_product(one: Atom) -> TypeGuard[Apply]:
    return isinstance(one, Apply) and one.function in _PRODUCTS and len(one.arguments) == 2


def computed_in(one: Atom) -> Iterator[Apply]:
    """What the machine reduces to a type or multiplies in one, at any depth; the innermost come first."""
    match one:
        case Apply(kind, arguments):
            for form in arguments:
                yield from computed_inside(form)
            if is_machine_product(one) or kind in RANGES and len(arguments) == 1:
                yield one
        case Floor(form, _):
            yield from computed_inside(form)
        case Choose(condition, yes, no):
            for form in (*forms_of(condition), yes, no):
                yield from computed_inside(form)
        case Product(factors):
            for factor in factors:
                yield from computed_in(factor)
        case _:
            pass


def computed_inside(form: Linear) -> Iterator[Apply]:
    for one, _ in form.terms:
        yield from computed_in(one)
