"""What forms are made of: counters, sizes, numbers without a meaning of their own."""

from collections.abc import Container
from functools import lru_cache
from typing import TypeGuard

from pipec.verify.terms import (
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Symbol,
    is_larger,
    is_quotient,
    is_smaller,
)

PLACES = ("%ctaid.", "%clusterid.", "%nctaid.")  # of blocks, and how many there are


def has_counter(form: Linear) -> bool:
    """Whether a symbolic register is a term of the form."""
    return any(map(_counts, form.terms))


def only_counters(form: Linear) -> bool:
    return all(map(_counts, form.terms))


def _counts(term: tuple[Atom, int]) -> bool:
    match term[0]:
        case Symbol(name):
            return ":" in name and " " not in name
        case Floor(form, _):
            return only_counters(form)
        case Choose(_, yes, no):
            return any(has_counter(each) or is_row(each) for each in (yes, no))
    return False


def is_row(form: Linear) -> bool:
    """Whether the form is made of the rows of tiles that are counted: of quotients of a counter by a size. (A difference of a size and of a
    row would be required not to be negative, which follows from no inequality.)"""
    return bool(form.terms) and all(times > 0 and is_quotient(one) and of_places(one.arguments[0]) for one, times in form.terms)


def of_places(form: Linear) -> bool:
    """Whether the form is made of counters, or is a multiple of one beyond the place of a block: the next tile of its share. (A block's
    place in front of what a counter sums up is no such thing: nothing bounds that sum.)"""
    counted = [(one, times) for one, times in form.terms if not (isinstance(one, Symbol) and one.name.startswith(PLACES))]
    beyond = len(counted) == len(form.terms) or all(times > 0 for _, times in form.terms)
    return beyond and bool(counted) and only_counters(Linear(0, tuple(counted)))


def is_loaded(one: Atom) -> TypeGuard[Apply]:
    """Whether it is a number in memory, as a function of its address."""
    return isinstance(one, Apply) and one.function.startswith("ld.")


def has_loaded(form: Linear) -> bool:
    """Whether it is computed from a number in memory."""
    return bool(loaded_in(form))


def loaded_in(form: Linear) -> list[Apply]:
    """The numbers in memory that it is computed from."""
    return [one for one in operands_in(form) if is_loaded(one)]


@lru_cache(4096)
def operands_in(form: Linear) -> frozenset[Symbol | Apply]:
    """The symbols and the numbers in memory that the form is computed from; not those that say where in memory, or which of two numbers."""
    found: set[Symbol | Apply] = set()
    for one, _ in form.terms:
        match one:
            case Symbol():
                found.add(one)
            case Apply() if is_loaded(one):
                found.add(one)
            case _:
                found.update(*map(operands_in, _computed_from(one)))
    return frozenset(found)


def _computed_from(one: Atom) -> tuple[Linear, ...]:
    match one:
        case Floor(form, _):
            return (form,)
        case Choose(_, yes, no):
            return yes, no
        case Apply(_, arguments):
            return arguments
        case _:
            return ()


def exact(form: Linear, *, products: bool = False) -> bool:
    """Whether the meaning of each part is known, but for sizes and registers. `products`: also if it is one."""

    def known(one: Atom) -> bool:
        match one:
            case Symbol():
                return True
            case Floor(inner, _):
                return exact(inner, products=products)
            case Choose(_, yes, no):
                return exact(yes, products=products) and exact(no, products=products)
            case Apply("mul.lo.s32", factors) if products:
                return all(exact(factor, products=True) for factor in factors)
            case _:
                return False

    return all(known(one) for one, _ in form.terms)


def size_of(value: Linear | Formula, most: int, folds: Container[str]) -> int:
    """How many parts a form has, counted as often as they appear; large forms are only counted so far."""
    found, work = 0, [value]
    while work and found <= most:
        one = work.pop()
        found += 1
        if isinstance(one, Compare):
            work.append(one.form)
        elif isinstance(one, (Both, Either)):
            work += one.parts
        else:
            for term, _ in one.terms:
                found += 1
                if isinstance(term, Floor):
                    work.append(term.form)
                elif isinstance(term, Choose):
                    # (The condition of a smaller or larger number says nothing more than the two.)
                    work += [term.yes, term.no] if is_smaller(term) or is_larger(term) else [term.condition, term.yes, term.no]
                # (What was folded is one part.)
                elif isinstance(term, Apply) and term.function.partition(".")[0] not in folds:
                    work += term.arguments
    return found
