"""Specialises a network to some sizes: quotients and choices of sizes that are decided there are replaced by their values."""

from pipec.protocol.program.naming import Names, renamed
from pipec.protocol.program.program import registers_of
from pipec.verify.logic import System
from pipec.verify.network import Network
from pipec.verify.terms import Atom, Choose, Compare, Floor, Formula, Linear, Symbol, add, atom, negate, symbols_of


class _Decided(Names):
    def __init__(self, network: Network, sizes: System) -> None:
        super().__init__()
        self.registers, self.sizes = registers_of(network), sizes
        self.found: dict[Formula, None] = {}

    def _atom(self, one: Atom) -> Linear:
        made = super()._atom(one)
        # A register changes; facts about it hold at one point only.
        if isinstance(one, Symbol) or not self.registers.isdisjoint(symbols_of(atom(one))):
            return made
        value = self._value(made.terms[0][0]) if len(made.terms) == 1 else None
        if value is not None:
            made = add(Linear(made.constant), value, made.terms[0][1])
        # The checker reads the original network, and needs the replacements as facts.
        if made != atom(one):
            self.found[Compare("eq", add(atom(one), made, -1))] = None
        return made

    def _value(self, one: Atom) -> Linear | None:
        match one:
            case Choose(condition, yes, no):
                if self.sizes.entails(condition):
                    return yes
                return no if self.sizes.entails(negate(condition)) else None
            case Floor(form, divisor):
                rest = Compare("ge", form), Compare("ge", add(Linear(divisor - 1), form, -1))
                return Linear(0) if all(map(self.sizes.entails, rest)) else None
            case _:
                return None


def simplified(network: Network, sizes: System) -> tuple[Network, tuple[Formula, ...]]:
    """Also returns the replacements, in an order in which each follows from earlier ones."""
    into = _Decided(network, sizes)
    made = renamed(network, into)
    return made, tuple(into.found)
