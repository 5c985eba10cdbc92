"""What is made of equal values is equal: atoms, with what they are made of replaced by what the equations say of it."""

from functools import lru_cache
from math import prod

from pipec.verify.inequalities import Inequalities, combined, parts_of
from pipec.verify.terms import (
    MOST_WRITTEN,
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
    forms_of,
    is_computed,
    product,
    replaced,
    size_of,
    text_of,
)

_LOOKED_AT = 3  # to see whether an atom has parts to replace
_RENAMED = 10  # what it costs to replace parts of a value, in combinations of inequalities
_WRITTEN = 16  # symbols and numbers of a term that take as long to write as a combination of inequalities


class Renaming(Inequalities):
    """Inequalities, with equations between values that are made of equal ones."""

    def __init__(self) -> None:
        super().__init__()
        self._renamed = 0  # atoms whose parts have been replaced by what was known when `_changed` was empty

    def assume(self, formula: Formula) -> None:
        raise NotImplementedError

    def _rename(self, first: int, changed: frozenset[Atom]) -> None:
        """What is made of equal values is equal: each atom is equal to the one whose parts the equations have replaced. Those before
        `first` have been renamed, and of them only those have another name now that are made of what has changed. What this brings in is
        not renamed again, as that could go on for ever."""
        again = [one for one in self._atoms[:first] if not changed.isdisjoint(parts_of(one))]
        combined.value += len(self._atoms) + _LOOKED_AT * (len(self._atoms) - first + len(again))
        for one in (*again, *self._atoms[first:]):
            parts = parts_of(one)
            if any(self._numbers.get(part) in self._solved for part in parts):
                # (In an order of their own: values are numbered as they are met.)
                known = {part: self.solved(atom(part)) for part in sorted(parts, key=text_of) if self._is_replaced(part, one)}
                combined.value += _RENAMED
                # (A quotient of a product is a factor like others.)
                grows = _sums_products if isinstance(one, Product) else _multiplies
                grown = _is_product(one) and any(grows(form) for part, form in known.items() if not _machines(part, form))
                if grown and not isinstance(one, Product):
                    continue  # products in products would grow with each turn
                if _most_written(one, known) <= MOST_WRITTEN:
                    made = self._remade(one, known)
                    combined.value += size_of(made) // _WRITTEN
                    # (Not if it consists of what there is: `i * K` where `i` is `M * N - 1`, beside `M * N * K`.)
                    if not grown or all(part in self._numbers for part, _ in made.terms):
                        self.assume(Compare("eq", add(atom(one), made, -1)))

    def _is_replaced(self, part: Atom, one: Atom) -> bool:
        """Of what the machine computes inside of an atom that is of interest which is known to be exact; not inside of products, which
        would grow."""
        if not is_computed(part) or isinstance(one, Product) and part in one.factors:
            return True
        return self._numbers.get(part) in self._solved and not _is_product(one)

    def _remade(self, one: Atom, known: dict[Atom, Linear]) -> Linear:
        """The atom with what it is made of replaced. A factor is replaced as a whole where it is known so: a quotient that is 0, say."""
        inside: dict[Atom, Linear] = {part: form for part, form in known.items() if isinstance(part, Symbol) or is_computed(part)}
        if not isinstance(one, Product):
            return replaced(atom(one), inside)
        made = Linear(1)
        for factor in one.factors:
            whole = self._numbers.get(factor) in self._solved
            made = product(made, known[factor] if whole else replaced(atom(factor), inside))
        return made


def _most_written(one: Atom, known: dict[Atom, Linear]) -> int:
    """Of so many symbols and numbers it consists at most with what it is made of replaced."""
    if isinstance(one, Product):
        return prod(size_of(known[factor]) for factor in one.factors)
    return size_of(atom(one)) * max(map(size_of, known.values()))


def _machines(part: Atom, form: Linear) -> bool:
    """Whether it is what the machine computes, and the one product that this is: it has no more parts than before."""
    return isinstance(part, Apply) and len(form.terms) == 1 and isinstance(form.terms[0][0], Product) and not form.constant


def _sums_products(form: Linear) -> bool:
    return any(isinstance(one, Product) or isinstance(one, Apply) and one.function == "product" for one, _ in form.terms)


def _multiplies(form: Linear) -> bool:
    """Whether there is a product in it."""
    return any(_is_product(one) for one, _ in form.terms)


@lru_cache(4096)
def _is_product(one: Atom) -> bool:
    match one:
        case Product() | Apply("product", _):
            return True
        case Floor(form, _):
            return _multiplies(form)
        case Choose(condition, yes, no):
            return _multiplies(yes) or _multiplies(no) or any(map(_multiplies, forms_of(condition)))
        case Apply(_, arguments):
            return any(map(_multiplies, arguments))
        case _:
            return False
