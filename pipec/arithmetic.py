"""What the language's operators and whole-number functions mean on Python's numbers: one table for whoever has the numbers at hand.

That is the folding of compile-time values, the host before a launch, and the models of one launch. The meaning in registers, which wrap
around, is in pipec.terms.machine: it is asked of all launches at once, so it works on terms.
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
}
