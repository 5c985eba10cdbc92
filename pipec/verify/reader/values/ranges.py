"""The range of the result of a function: that of its type, or less if its arguments are bounded."""

from collections.abc import Callable, Sequence
from math import inf

from pipec.verify.terms import QUOTIENT, RANGES, REMAINDER

Bounds = tuple[float, float]
ANYTHING: Bounds = (-inf, inf)


def range_of(function: str, arguments: Sequence[Bounds]) -> Bounds:
    """`function`: its name ends in the type of its result. `arguments`: the bounds of each."""
    operation, _, kind = function.rpartition(".") if function not in (QUOTIENT, REMAINDER) else (function, "", "")
    of_type = RANGES.get(kind, ANYTHING)
    rule = _RULES.get(operation)
    # A remainder is less than the divisor, whatever the dividend.
    bounded = arguments if operation != REMAINDER else arguments[1:]
    if rule is None or any(abs(end) == inf for one in bounded for end in one):
        return (0, inf) if operation == REMAINDER else of_type
    return rule(arguments, of_type) or of_type


def _of_a_product(factors: Sequence[Bounds], of_type: Bounds) -> Bounds | None:
    """If no product of the factors is reduced by the machine. (Factors that were reduced themselves then have a congruent, equal
    product.)"""
    (a, b), (c, d) = factors
    corners = [one * other for one in (a, b) for other in (c, d)]
    return (min(corners), max(corners)) if of_type[0] <= min(corners) and max(corners) <= of_type[1] else None


def _of_a_quotient(operands: Sequence[Bounds], of_type: Bounds) -> Bounds | None:
    (least, most), (smallest, largest) = operands
    return (least // largest, most // smallest) if _are_plain(operands, of_type) else None


def _of_a_whole_quotient(operands: Sequence[Bounds], of_type: Bounds) -> Bounds | None:
    (least, most), (smallest, largest) = operands
    return (min(least // smallest, least // largest), max(most // smallest, most // largest)) if smallest >= 1 else None


def _of_a_remainder(operands: Sequence[Bounds], of_type: Bounds) -> Bounds | None:
    (_, most), (_, largest) = operands
    return (0, min(most, largest - 1)) if _are_plain(operands, of_type) else None


def _of_a_whole_remainder(operands: Sequence[Bounds], of_type: Bounds) -> Bounds | None:
    return 0, max(operands[1][1] - 1, 0)


def _are_plain(operands: Sequence[Bounds], of_type: Bounds) -> bool:
    """Whether all are non-negative and within the type, and the divisor is not 0."""
    (least, most), (smallest, largest) = operands
    return least >= 0 and smallest >= 1 and max(most, largest) <= of_type[1]


_RULES: dict[str, Callable[[Sequence[Bounds], Bounds], Bounds | None]] = {
    "mul.lo": _of_a_product,
    "div": _of_a_quotient,
    QUOTIENT: _of_a_whole_quotient,
    "rem": _of_a_remainder,
    REMAINDER: _of_a_whole_remainder,
}
