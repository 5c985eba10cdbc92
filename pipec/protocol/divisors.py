"""Sizes and parameters by which a kernel divides: launches in which they are not positive may be left out of a proof.

What `i // H` is where `H` is 0 or negative hardly anybody asks, and nothing is proved of it. If a kernel is not decided, it is therefore
judged again under the condition that such numbers are at least 1, which the launch then checks like any other that a proof has found.
"""

from collections.abc import Iterator

from pipec.checks.grid.signs import divisors
from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter
from pipec.kir.ir import Kernel
from pipec.protocol.forms.conditions import with_conditions
from pipec.sema import tree
from pipec.verify.data import formula_of
from pipec.verify.logic import System
from pipec.verify.terms import Compare, Linear, Symbol, add, atom, scale

ENOUGH = 50_000  # steps of a reading: what is proved so takes few


def with_positive_divisors(kernel: Kernel, interface: KernelInterface) -> KernelInterface | None:
    """The interface under these conditions; None if it states them already, or there are none."""
    stated = System(map(formula_of, interface.conditions))
    named = [
        name
        for name in dict.fromkeys(one for divisor, term in divisors(kernel) if term.least < 1 for one in _named(divisor))
        if not stated.extended([Compare("ge", scale(atom(Symbol(name)), -1))]).impossible()
    ]
    symbols = [
        row.symbol
        for row in interface.parameters
        if isinstance(row, DimensionParameter)
        and row.dimension in named
        or isinstance(row, ScalarParameter)
        and row.scalar in named
    ]
    if not symbols:
        return None
    return with_conditions(interface, [Compare("ge", add(atom(Symbol(one)), Linear(-1))) for one in symbols])


def _named(divisor: tree.Expression) -> Iterator[str]:
    """Of what is at least 1 where the size or parameter is."""
    match divisor:
        case tree.ReadDimension(name) | tree.ReadParameter(tree.ScalarParameter(name)):
            yield name
        case _:
            pass
