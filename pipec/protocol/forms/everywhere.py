"""Strengthens a bound to a condition on sizes that a launch can check, for all of its blocks and any memory contents.

A launch has many blocks, and the host does not know what they load. So a block index in a bound is replaced by its minimum or maximum,
and the smaller of a size and a loaded value by the size: the result is stronger, and about sizes only.
"""

from collections.abc import Iterable, Iterator
from functools import partial, reduce

from pipec.protocol.forms.conditions import narrow
from pipec.verify.logic import System
from pipec.verify.terms import (
    QUOTIENT,
    RANGES,
    REMAINDER,
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
    floor,
    is_larger,
    is_smaller,
    negate,
    scale,
    summed,
    symbols_of,
)

_FAR = 1 << 30  # far above any allocation
_WIDE = "mul.lo.s64"  # the type in which a launch computes products, which must not wrap
_MULTIPLIED = frozenset(f"mul.lo.{kind}" for kind in RANGES)


class Everywhere:
    """`facts`: known facts about sizes and block indices. `sized`: bounds of block indices by sizes are preferred to constant ones."""

    def __init__(self, facts: Iterable[Formula], *, sized: bool = False) -> None:
        facts = tuple(facts)
        self.system = System(facts)
        self.least: dict[Symbol, Linear] = {}
        self.most: dict[Symbol, Linear] = {}
        for symbol, sign, bound in _bounds(facts):
            known = self.least if sign > 0 else self.most
            # Constant bounds imply more, but do not always suffice: a grid that may be large is asked to be smaller.
            if symbol not in known or self._suits(bound, sized) > self._suits(known[symbol], sized):
                known[symbol] = bound
        self.sized = None if sized else Everywhere(facts, sized=True)

    @staticmethod
    def _suits(bound: Linear, sized: bool) -> tuple[bool, bool]:
        """(What the number of blocks is made of says more than that number: other values are made of the same sizes.)"""
        return bool(bound.terms) == sized, not any(symbol.name.startswith("%") for symbol in symbols_of(bound))

    def bound(self, form: Linear) -> Linear | None:
        """A form in sizes only that is a lower bound of this one in every block; None unless it is non-negative for almost all sizes."""
        found = form if askable(form) else self._form(form, 1)
        found = found if found is not None and found.terms and found.constant > _FAR else None
        if self.sized is None or found is not None and not narrow(Compare("ge", found)):
            return found
        return self.sized.bound(form) or found

    def beside(self, form: Linear) -> Iterator[Formula]:
        """What else a bound of the form rests on: that the products of a size and of a block's place in it, which the machine reduces, are
        not too small either, where the size may be negative."""
        for one, _ in form.terms:
            match one:
                case Apply("mul.lo.s32", factors):
                    for place, size in (factors, factors[::-1]):
                        most = self._form(place, -1) if not askable(place) and askable(size) else None
                        if most is not None and not most.terms and not self.system.entails(Compare("ge", size)):
                            yield Compare("ge", scale(size, most.constant, -RANGES["s32"][0]))
                case _:
                    pass

    def condition(self, formula: Formula) -> Formula:
        """A condition that implies this one and that a launch can check; unchanged if there is none."""
        bound = self.bound(formula.form) if isinstance(formula, Compare) and formula.relation == "ge" else None
        return formula if bound is None else Compare("ge", bound)

    def _form(self, form: Linear, sign: int) -> Linear | None:
        """A lower bound of the form for sign 1, an upper bound for -1."""
        parts = [(self._times(one, times, sign), 1) for one, times in form.terms]
        return (
            None if any(part is None for part, _ in parts) else summed(form.constant, [(p, 1) for p, _ in parts if p is not None])
        )

    def _times(self, one: Atom, times: int, sign: int) -> Linear | None:
        if askable(atom(one)):
            return Linear(0, ((one, times),))
        sign = sign if times > 0 else -sign
        if isinstance(one, Floor) and times % one.divisor == 0:
            # Without the division: the error of rounding before multiplying is less than the divisor.
            inner = self._form(one.form, sign)
            return (
                None if inner is None else scale(add(inner, Linear(one.divisor - 1), -1 if sign > 0 else 0), times // one.divisor)
            )
        found = self._atom(one, sign)
        return None if found is None else scale(found, times)

    def _atom(self, one: Atom, sign: int) -> Linear | None:
        match one:
            case Symbol():
                return (self.least if sign > 0 else self.most).get(one)
            case Floor(form, divisor):
                inner = self._form(form, sign)
                return None if inner is None else floor(inner, divisor)
            case Choose():
                return self._chosen(one, sign)
            case Apply(name, (form, divisor)) if name == QUOTIENT:
                return self._divided(form, divisor, sign)
            case Apply(name, (_, divisor)) if name == REMAINDER and self.system.entails(Compare("ge", add(divisor, Linear(-1)))):
                return Linear(0) if sign > 0 else self._form(add(divisor, Linear(-1)), sign)
            case Apply(function, (left, right)) if function in _MULTIPLIED:
                factors = self._factors((left, right), sign)
                return None if factors is None else _multiplied(function, *factors)
            case Product(parts):
                factors = self._factors(map(atom, parts), sign)
                return None if factors is None else reduce(partial(_multiplied, _WIDE), factors)
            case Apply():
                # Only the type of a value in memory is known: a bound from that would only allow sizes at which nothing is read.
                return None

    def _chosen(self, one: Choose, sign: int) -> Linear | None:
        yes, no = self._form(one.yes, sign), self._form(one.no, sign)
        # A minimum is at most either operand, a maximum at least; so the operand with a known bound suffices.
        within = is_smaller(one) if sign < 0 else is_larger(one)
        if yes is None or no is None:
            return yes or no if within else None
        if askable_formula(one.condition):
            return choose(one.condition, yes, no)
        nearer = sign if within else -sign
        first = Compare("ge", add(yes, no, -1) if nearer > 0 else add(no, yes, -1))
        for asked, bound in ((first, yes), (negate(first), no)):
            if self.system.entails(asked):
                return bound
        return choose(decided(first), yes, no)

    def _divided(self, form: Linear, divisor: Linear, sign: int) -> Linear | None:
        """Without the division: a quotient is between 0 and the dividend, and at most 0 if the dividend is negative."""
        inner = self._form(form, sign)
        if inner is None or not self.system.entails(Compare("ge", add(divisor, Linear(-1)))):
            return None
        # A block index is less than the number of blocks.
        if sign > 0 and self.system.entails(Compare("ge", add(form, divisor))):
            return Linear(0 if self.system.entails(Compare("ge", form)) else -1)
        for more in (0, 1) if sign < 0 else (0,):
            if self.system.entails(Compare("ge", add(inner, Linear(more)))):
                return add(inner, Linear(more)) if sign < 0 else Linear(0)
        return choose(decided(Compare("ge", inner if sign < 0 else scale(inner, -1))), inner, Linear(0))

    def _factors(self, factors: Iterable[Linear], sign: int) -> list[Linear] | None:
        """Bounds of factors that are all non-negative; in an upper bound of a product, one may be negative."""
        made, negative = [], 0
        for factor in factors:
            bound = self._form(factor, sign)
            least = bound if sign > 0 else self._form(factor, 1)
            if bound is None or least is None:
                return None
            if not self.system.entails(Compare("ge", bound)):
                if sign > 0:
                    return None
                bound = choose(decided(Compare("ge", bound)), bound, Linear(0))
            negative += sign < 0 and not self.system.entails(Compare("ge", least))
            made.append(bound)
        return made if negative < 2 else None


def _multiplied(function: str, left: Linear, right: Linear) -> Linear:
    """The product, which is exact where a factor is a number: a launch computes it so, and as such it bounds what the machine reduces."""
    for factor, other in ((left, right), (right, left)):
        if not factor.terms:
            return scale(other, factor.constant)
    # One block less than there are, times a size, is the product less that size: simpler, and what is added often makes up for it.
    one, other = Linear(0, left.terms), Linear(0, right.terms)
    beside = add(add(scale(one, right.constant), scale(other, left.constant)), Linear(left.constant * right.constant))
    return add(atom(Apply(function, (one, other))), beside)


def _of_a_launch(symbol: Symbol) -> bool:
    """Except the indices of blocks and clusters, which vary within a launch, registers, and what the search calls "unknown 7"."""
    name = symbol.name
    return name.startswith(("%nctaid.", "%nclusterid.")) or not name.startswith(("%", "unknown ")) and ":" not in name


def askable(form: Linear) -> bool:
    """Whether a launch can evaluate it."""
    return all(map(_of_a_launch, symbols_of(form))) and all(_known(one) for one, _ in form.terms)


def askable_formula(formula: Formula) -> bool:
    return askable(formula.form) if isinstance(formula, Compare) else all(map(askable_formula, formula.parts))


def _known(one: Atom) -> bool:
    match one:
        case Symbol():
            return True
        case Floor(form, _):
            return askable(form)
        case Choose(condition, yes, no):
            return askable_formula(condition) and askable(yes) and askable(no)
        case Product():
            return False
        case Apply(function, arguments):
            return function in _MULTIPLIED and all(map(askable, arguments))


def _bounds(facts: Iterable[Formula]) -> Iterator[tuple[Symbol, int, Linear]]:
    """Block indices with their lower (1) or upper (-1) bounds."""
    for fact in facts:
        if not isinstance(fact, Compare) or fact.relation != "ge":
            continue
        for one, times in fact.form.terms:
            rest = add(fact.form, Linear(0, ((one, -times),)))
            if isinstance(one, Symbol) and not _of_a_launch(one) and abs(times) == 1 and askable(rest):
                yield one, times, scale(rest, -times)
