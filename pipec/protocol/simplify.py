"""A network for some sizes: quotients and choices of sizes that are decided there are replaced by what they are."""

from pipec.protocol.naming import Names, renamed
from pipec.protocol.program import registers_of
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
        # A register changes; what is decided of it holds at one moment only.
        if isinstance(one, Symbol) or not self.registers.isdisjoint(symbols_of(made)):
            return made
        value = self._value(made.terms[0][0]) if len(made.terms) == 1 else None
        if value is not None:
            made = add(Linear(made.constant), value, made.terms[0][1])
        # The checker reads the network as it is, and has to be told what follows of it here.
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
    """And what has been replaced by what, in an order in which one follows from those before it."""
    into = _Decided(network, sizes)
    made = renamed(network, into)
    return made, tuple(into.found)
