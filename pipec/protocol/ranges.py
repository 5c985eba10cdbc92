"""What values forms may have, and how conditions may come out, where some of the numbers that they are made of are not known.

A run at some sizes that only asks what is certain so is a run of the machine: what memory holds may be anything, and nothing follows
from it. Exact where all numbers are known; the scheduler's answers say as many blocks as are chosen, and nothing of which ones.
"""

from collections.abc import Mapping

from pipec.protocol.sample import evaluated_function, known_function
from pipec.verify.terms import RANGES, Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Product, Symbol

_FAR = 1 << 64  # no register holds as much
TILES = Symbol("tiles per block")  # of a block that a scheduler hands one tile after the other, its own included
_PLACES = (0, 2**31 - 1)  # of blocks in the grid

Range = tuple[int, int]  # the least and the largest value
ANYTHING: Range = (-_FAR, _FAR)
Ranges = Mapping[Symbol, Range]


def range_of(form: Linear, known: Ranges) -> Range:
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
    if function.endswith(".ctaid"):
        return _PLACES
    ranges = [range_of(argument, known) for argument in arguments]
    operation, _, kind = function.rpartition(".")
    divides = operation in ("div", "rem") and ranges[1] == (0, 0)  # of which the machine says nothing
    if known_function(function) and not divides and all(low == high for low, high in ranges):
        value = evaluated_function(function, tuple(low for low, _ in ranges))
        return value, value
    least, most = RANGES.get(kind, ANYTHING)
    if not operation and kind in RANGES and least <= ranges[0][0] and ranges[0][1] <= most:
        return ranges[0]  # nothing is cut off
    return least, most


def _handed_out(answer: Linear, known: Ranges) -> Range:
    """Whether the scheduler's answer is one more block: the first answers are, the others say that there is none left."""
    if len(answer.terms) == 1 and isinstance(answer.terms[0][0], Apply):
        (low, high), (blocks, same) = range_of(answer.terms[0][0].arguments[0], known), known.get(TILES, ANYTHING)
        if blocks == same and low == high:
            return (1, 1) if low < blocks - 1 else (0, 0)
    return 0, 1


def certain(formula: Formula, known: Ranges) -> bool | None:
    """How the condition comes out; None where that depends on what is not known."""
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
