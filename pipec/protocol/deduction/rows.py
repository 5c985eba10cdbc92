"""Linear forms over numbered variables: a row is a constant and (variable, coefficient) pairs, sorted by variable."""

from collections.abc import Mapping
from math import gcd

Terms = tuple[tuple[int, int], ...]
Row = tuple[int, Terms]

ZERO: Row = (0, ())


def plus(left: Row, right: Row, times: int = 1) -> Row:
    """`left + times * right`."""
    if not right[1]:
        return left[0] + times * right[0], left[1]
    found = dict(left[1])
    for variable, coefficient in right[1]:
        found[variable] = found.get(variable, 0) + times * coefficient
    return left[0] + times * right[0], _terms(found)


def _terms(found: Mapping[int, int]) -> Terms:
    return tuple(sorted([row for row in found.items() if row[1]]))


def negative(row: Row) -> Row:
    """`row < 0`, in the form "at least 0"."""
    return -1 - row[0], tuple([(variable, -coefficient) for variable, coefficient in row[1]])


def scaled(row: Row, times: int) -> Row:
    return row[0] * times, tuple([(variable, coefficient * times) for variable, coefficient in row[1]])


def one(variable: int) -> Row:
    return 0, ((variable, 1),)


def replaced(row: Row, values: Mapping[int, Row]) -> Row:
    """Substitutes values for variables simultaneously."""
    # Most rows need no replacement, and are returned unchanged.
    for variable, _ in row[1]:
        if variable in values:
            break
    else:
        return row
    constant, found = row[0], dict[int, int]()
    for variable, coefficient in row[1]:
        value = values.get(variable)
        if value is None:
            found[variable] = found.get(variable, 0) + coefficient
            continue
        constant += coefficient * value[0]
        for other, factor in value[1]:
            found[other] = found.get(other, 0) + coefficient * factor
    return constant, _terms(found)


def evaluated(row: Row, numbers: Mapping[int, int]) -> int:
    total = row[0]
    for variable, coefficient in row[1]:
        total += coefficient * numbers[variable]
    return total


def tight(row: Row) -> Row:
    """`row >= 0` divided by the gcd of its coefficients, with the constant rounded down."""
    divisor = gcd(*[coefficient for _, coefficient in row[1]])
    if divisor <= 1:
        return row
    return row[0] // divisor, tuple([(variable, coefficient // divisor) for variable, coefficient in row[1]])


def primitive(row: Row) -> Row:
    """`row == 0` divided by the gcd."""
    divisor = gcd(row[0], *[coefficient for _, coefficient in row[1]])
    if divisor <= 1:
        return row
    return row[0] // divisor, tuple([(variable, coefficient // divisor) for variable, coefficient in row[1]])
