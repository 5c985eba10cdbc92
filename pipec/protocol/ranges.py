"""Ranges of forms, and outcomes of conditions, if some of the underlying values are unknown.

A run at some sizes that depends only on certain outcomes is a run of the machine: unknown memory contents have no influence. Exact if
all values are known; the scheduler's responses grant the chosen number of blocks, without saying which.
"""

from collections.abc import Callable, Iterable, Iterator

from pipec.protocol.sample import evaluated_function, known_function
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
    a form such as the number of tiles, or what is read at a place, is deep and recurs in most tests."""

    def __init__(self, known: Iterable[tuple[Symbol, Range]] | dict[Symbol, Range] = ()) -> None:
        super().__init__(known)
        self.evaluated: dict[Linear, Range] = {}
        self._with: dict[Symbol, set[Linear]] = {}

    def assign(self, values: Iterable[tuple[Symbol, Range]]) -> bool:
        """Whether one of them has changed. (Only so may a symbol change once a form has been evaluated.)"""
        changed = False
        for symbol, value in values:
            if self.get(symbol) != value:
                self[symbol] = value
                for form in self._with.pop(symbol, ()):
                    self.evaluated.pop(form, None)
                changed = True
        return changed

    def evaluate(self, form: Linear) -> Range:
        self.evaluated[form] = found = _range_of(form, self)
        for symbol in symbols_of(form):
            self._with.setdefault(symbol, set()).add(form)
        return found


class Contents(Ranges):
    """Ranges of a run that assumes what is in memory, too. `number`: the assumed one at each place, counted from the pointer through
    which it is read, and a bit further for each pointer; `read`: those that the run has asked for, by their addresses,
    each with its place."""

    def __init__(self, known: dict[Symbol, Range], pointers: Iterable[Symbol], number: Callable[[int], int]) -> None:
        super().__init__(known)
        self.number, self.read = number, dict[int, tuple[int, int]]()
        # So far from each other that what is read through one is never what is read through another.
        self.pointers = {count * _APART: pointer for count, pointer in enumerate(pointers, 1)}
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
    for one, _ in form.terms:
        if not isinstance(one, Symbol):
            return known.evaluated.get(form) or known.evaluate(form)
    return _range_of(form, known)


def _range_of(form: Linear, known: Ranges) -> Range:
    least = most = form.constant
    for one, coefficient in form.terms:
        low, high = _atom(one, known)
        least += coefficient * (low if coefficient > 0 else high)
        most += coefficient * (high if coefficient > 0 else low)
    return least, most


def _atom(one: Atom, known: Ranges) -> Range:
    match one:
        case Symbol():
            return known.get(one, ANYTHING)
        case Floor(form, divisor):
            low, high = range_of(form, known)
            return low // divisor, high // divisor
        case Choose(condition, yes, no):
            outcome = certain(condition, known)
            if outcome is not None:
                return range_of(yes if outcome else no, known)
            one_side, other = range_of(yes, known), range_of(no, known)
            return min(one_side[0], other[0]), max(one_side[1], other[1])
        case Apply(function, arguments):
            return _function(function, arguments, known)
        case Product(factors):
            least = most = 1
            for low, high in (_atom(factor, known) for factor in factors):
                corners = [one * other for one in (least, most) for other in (low, high)]
                least, most = min(corners), max(corners)
            return least, most


def _function(function: str, arguments: tuple[Linear, ...], known: Ranges) -> Range:
    if function == "is_canceled":
        return _handed_out(arguments[0], known)
    ranges = [range_of(argument, known) for argument in arguments]
    if function in LOADS and isinstance(known, Contents):
        low, high = ranges[0]
        number = known.loaded(low, function) if low == high else None
        if number is not None:
            return number, number
    operation, _, kind = function.rpartition(".")
    divides = operation in ("div", "rem") and ranges[1] == (0, 0)  # undefined on the machine
    if known_function(function) and not divides and all(low == high for low, high in ranges):
        value = evaluated_function(function, tuple(low for low, _ in ranges))
        return value, value
    least, most = RANGES.get(kind, ANYTHING)
    if not operation and kind in RANGES and least <= ranges[0][0] and ranges[0][1] <= most:
        return ranges[0]  # nothing is cut off
    return least, most


def _handed_out(answer: Linear, known: Ranges) -> Range:
    """Whether the scheduler's response grants another block: the first responses do, later ones report that none is left."""
    if len(answer.terms) == 1 and isinstance(answer.terms[0][0], Apply):
        (low, high), (blocks, same) = range_of(answer.terms[0][0].arguments[0], known), known.get(TILES, ANYTHING)
        if blocks == same and low == high:
            return (1, 1) if low < blocks - 1 else (0, 0)
    return 0, 1


def certain(formula: Formula, known: Ranges) -> bool | None:
    """The outcome of the condition; None if it depends on unknown values."""
    match formula:
        case Compare(relation, form):
            low, high = range_of(form, known)
            if relation == "ge":
                return True if low >= 0 else False if high < 0 else None
            equal = False if low > 0 or high < 0 else True if low == high else None
            return equal if equal is None or relation == "eq" else not equal
        case Both(parts):
            outcomes = [certain(part, known) for part in parts]
            return False if False in outcomes else None if None in outcomes else True
        case Either(parts):
            outcomes = [certain(part, known) for part in parts]
            return True if True in outcomes else None if None in outcomes else False
