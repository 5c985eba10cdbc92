"""Counters that no loop bounds, of which others see only what is left over: how many tiles of all groups a block has come to, `seen % 3`.

A loop over groups whose numbers of tiles are in memory may count more of them than a register holds, and then the counter comes round. That
it does not can neither be asked of a launch nor taken for granted; but roles that count alike come round alike.
"""

from collections.abc import Iterator
from fractions import Fraction

from pipec.verify.network import Network, Process, Test, edges_of
from pipec.verify.terms import Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol, symbols_in


def unbounded(network: Network) -> frozenset[str]:
    """The names of registers that are required to fit, though no test tells how large they are."""
    return frozenset(name for process in network.processes for name in _unbounded(process))


def _unbounded(process: Process) -> set[str]:
    edges = [edge for state in process.states for edge in edges_of(state.action)]
    registers = {register for edge in edges for register, _ in edge.values}
    required = {one for edge in edges for each in edge.requires for one in symbols_in(each) & registers}
    tests = [state.action.condition for state in process.states if isinstance(state.action, Test)]
    told = {one for test in tests for form in _telling(test, registers) for one in required if _slope(form, one)}
    return {one.name for one in required - told}


def _telling(condition: Formula, registers: set[Symbol]) -> Iterator[Linear]:
    """The forms of which a condition tells how large they are: not, whether two counters are the same."""
    match condition:
        case Compare(relation, form):
            if relation == "ge" or not symbols_in(condition) <= registers:
                yield form
        case Both(parts) | Either(parts):
            for part in parts:
                yield from _telling(part, registers)


def _slope(form: Linear, register: Symbol) -> Fraction:
    """How fast the form grows with the register, in the long run: what is left over by a division does not."""
    return sum((times * _slope_of(one, register) for one, times in form.terms), Fraction(0))


def _slope_of(one: Atom, register: Symbol) -> Fraction:
    match one:
        case Symbol():
            return Fraction(one == register)
        case Floor(form, divisor):
            return _slope(form, register) / divisor
        case Choose(_, yes, no):
            return _slope(yes, register) or _slope(no, register)
        case _:
            return Fraction(0)
