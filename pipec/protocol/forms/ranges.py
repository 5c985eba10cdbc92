"""Ranges of forms, and outcomes of conditions, if some of the underlying values are unknown.

A run at some sizes that depends only on certain outcomes is a run of the machine: unknown memory contents have no influence. Exact if
all values are known; the scheduler's responses grant the chosen number of blocks, without saying which.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import count

from pipec.protocol.forms.sample import evaluated_function, known_function
from pipec.verify.terms import (
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
    Symbol,
    symbols_of,
)

_FAR = 1 << 64  # beyond the range of any register
TILES = Symbol("tiles per block")  # the number of tiles that a scheduler hands to a block, including its own
# What the reader knows of memory that the kernel does not write: the bytes of each number.
LOADS = {f"ld.global.{sign}{bits}": bits // 8 for sign in "su" for bits in (8, 16, 32)}
_APART = 1 << 40  # bytes between pointers

Range = tuple[int, int]  # the minimum and the maximum
ANYTHING: Range = (-_FAR, _FAR)


class Ranges(dict[Symbol, Range]):
    """Ranges of the symbols of a run, and of the forms that have been evaluated since a symbol in them changed: a step changes few, while
    a form such as the number of tiles, or what is read at a place, is deep and recurs in most tests. `evaluated`: by the forms' numbers."""

    def __init__(self, known: Iterable[tuple[Symbol, Range]] | dict[Symbol, Range] = ()) -> None:
        super().__init__(known)
        self.evaluated: dict[int, Range] = {}
        self._with: dict[Symbol, list[int]] = {}
        self._met = set[int]()

    def assign(self, values: Iterable[tuple[Symbol, Range]]) -> bool:
        """Whether one of them has changed. (Only so may a symbol change once a form has been evaluated.)"""
        changed = False
        for symbol, value in values:
            if self.get(symbol) != value:
                self[symbol] = value
                for number in self._with.get(symbol, ()):
                    self.evaluated.pop(number, None)
                changed = True
        return changed

    def keep(self, number: int, symbols: Iterable[Symbol], found: Range) -> Range:
        """Until one of the symbols changes."""
        self.evaluated[number] = found
        if number not in self._met:
            self._met.add(number)
            for symbol in symbols:
                self._with.setdefault(symbol, []).append(number)
        return found


class Contents(Ranges):
    """Ranges of a run that assumes what is in memory, too. `number`: the assumed one at each place, counted from the pointer through
    which it is read, and a bit further for each pointer; `read`: those that the run has asked for, by their addresses,
    each with its place."""

    def __init__(self, known: dict[Symbol, Range], pointers: Iterable[Symbol], number: Callable[[int], int]) -> None:
        super().__init__(known)
        self.number, self.read = number, dict[int, tuple[int, int]]()
        # So far from each other that what is read through one is never what is read through another.
        self.pointers = {place * _APART: pointer for place, pointer in enumerate(pointers, 1)}
        self.update({pointer: (address, address) for address, pointer in self.pointers.items()})

    def loaded(self, address: int, function: str) -> int | None:
        """None where nothing is assumed: in front of all pointers, or across two numbers."""
        pointer, offset = self._place(address)
        place, rest = divmod(offset, LOADS[function])
        if pointer not in self.pointers or place < 0 or rest:
            return None
        least, most = RANGES[function.rpartition(".")[2]]
        # (Also what is read through two pointers at the same place differs.)
        number = (self.number(place + pointer // _APART - 1) - least) % (most - least + 1) + least
        return self.read.setdefault(address, (number, place))[0]

    def numbers(self) -> Iterator[tuple[Symbol, int, int]]:
        """The pointers, the places behind them, and the numbers there."""
        for address, (number, place) in sorted(self.read.items()):
            yield self.pointers[self._place(address)[0]], place, number

    @staticmethod
    def _place(address: int) -> tuple[int, int]:
        """The nearest pointer, and the distance from it."""
        pointer = (address + _APART // 2) // _APART * _APART
        return pointer, address - pointer


def range_of(form: Linear, known: Ranges) -> Range:
    return ranged(form)(known)


def certain(formula: Formula, known: Ranges) -> bool | None:
    """The outcome of the condition; None if it depends on unknown values."""
    return decided(formula)(known)


# What a run asks at each step is made once: to look again at what a form consists of takes longer than to compute it.
Ranged = Callable[[Ranges], Range]
Decided = Callable[[Ranges], bool | None]
_numbers = count()


@lru_cache(4096)
def ranged(form: Linear) -> Ranged:
    """What computes the range of the form."""
    compute = _sum(form.constant, [(coefficient, _atom(one)) for one, coefficient in form.terms])
    if all(isinstance(one, Symbol) for one, _ in form.terms):
        return compute
    number, symbols = next(_numbers), tuple(symbols_of(form))
    return lambda known: known.evaluated.get(number) or known.keep(number, symbols, compute(known))


def _sum(constant: int, terms: list[tuple[int, Ranged]]) -> Ranged:
    if len(terms) == 1 and terms[0][0] == 1:
        only = terms[0][1]

        def moved(known: Ranges) -> Range:
            low, high = only(known)
            return constant + low, constant + high

        return moved if constant else only

    def added(known: Ranges) -> Range:
        least = most = constant
        for coefficient, value in terms:
            low, high = value(known)
            least += coefficient * (low if coefficient > 0 else high)
            most += coefficient * (high if coefficient > 0 else low)
        return least, most

    return added


def _atom(one: Atom) -> Ranged:
    match one:
        case Symbol():
            return lambda known: known.get(one, ANYTHING)
        case Floor(form, divisor):
            return _quotient(ranged(form), divisor)
        case Choose(condition, yes, no):
            return _choice(decided(condition), ranged(yes), ranged(no))
        case Apply(function, arguments):
            return _function(function, arguments)
        case Product(factors):
            return _product([_atom(factor) for factor in factors])


def _quotient(divided: Ranged, divisor: int) -> Ranged:
    def rounded(known: Ranges) -> Range:
        low, high = divided(known)
        return low // divisor, high // divisor

    return rounded


def _choice(condition: Decided, yes: Ranged, no: Ranged) -> Ranged:
    def chosen(known: Ranges) -> Range:
        outcome = condition(known)
        if outcome is not None:
            return yes(known) if outcome else no(known)
        one_side, other = yes(known), no(known)
        return min(one_side[0], other[0]), max(one_side[1], other[1])

    return chosen


def _product(factors: list[Ranged]) -> Ranged:
    def multiplied(known: Ranges) -> Range:
        least = most = 1
        for factor in factors:
            corners = [one * other for one in (least, most) for other in factor(known)]
            least, most = min(corners), max(corners)
        return least, most

    return multiplied


def _function(function: str, arguments: tuple[Linear, ...]) -> Ranged:
    if function == "is_canceled":
        return _handed_out(arguments[0])
    inside = [ranged(argument) for argument in arguments]
    operation, _, kind = function.rpartition(".")
    loads, divides, computable = function in LOADS, operation in ("div", "rem"), known_function(function)
    least, most = RANGES.get(kind, ANYTHING)
    reduces = not operation and kind in RANGES

    def value(known: Ranges) -> Range:
        ranges = [argument(known) for argument in inside]
        if loads and isinstance(known, Contents):
            low, high = ranges[0]
            number = known.loaded(low, function) if low == high else None
            if number is not None:
                return number, number
        undefined = divides and ranges[1] == (0, 0)  # on the machine
        if computable and not undefined and all(low == high for low, high in ranges):
            found = evaluated_function(function, tuple([low for low, _ in ranges]))
            return found, found
        if reduces and least <= ranges[0][0] and ranges[0][1] <= most:
            return ranges[0]  # nothing is cut off
        return least, most

    return value


def _handed_out(answer: Linear) -> Ranged:
    """Whether the scheduler's response grants another block: the first responses do, later ones report that none is left."""
    match answer.terms:
        case ((Apply(_, (use, *_)), _),):
            taken = ranged(use)
        case _:
            return lambda known: (0, 1)

    def granted(known: Ranges) -> Range:
        (low, high), (blocks, same) = taken(known), known.get(TILES, ANYTHING)
        if blocks == same and low == high:
            return (1, 1) if low < blocks - 1 else (0, 0)
        return 0, 1

    return granted


@lru_cache(4096)
def decided(formula: Formula) -> Decided:
    """What computes the outcome of the condition."""
    match formula:
        case Compare("ge", form):
            return _at_least(ranged(form))
        case Compare(relation, form):
            return _equal(ranged(form), negated=relation == "ne")
        case Both(parts) | Either(parts):
            return _joined([decided(part) for part in parts], decisive=isinstance(formula, Either))


def _at_least(value: Ranged) -> Decided:
    def answer(known: Ranges) -> bool | None:
        low, high = value(known)
        return True if low >= 0 else False if high < 0 else None

    return answer


def _equal(value: Ranged, *, negated: bool) -> Decided:
    def answer(known: Ranges) -> bool | None:
        low, high = value(known)
        if low > 0 or high < 0:
            return negated
        return None if low != high else not negated

    return answer


def _joined(parts: list[Decided], *, decisive: bool) -> Decided:
    """`decisive`: the outcome of a part that is that of the whole."""

    def answer(known: Ranges) -> bool | None:
        outcomes = [part(known) for part in parts]
        return decisive if decisive in outcomes else None if None in outcomes else not decisive

    return answer
