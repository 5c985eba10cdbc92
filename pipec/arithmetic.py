"""The meaning of the language's operators and integer functions on Python numbers: one table for all uses.

Used for folding compile-time values, by the host before a launch, and by the models of one launch. The meaning in registers, which wrap,
is in pipec.terms.machine: it covers all launches at once, and thus works on terms.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

MEANINGS: Final[Mapping[str, Callable[..., Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: -(-a // b),
    # From a start to a stop, of a loop whose step is known only at launch: 0, or less, where the stop does not come behind it.
    "distance": lambda a, b: max(b - a, 0),
}
