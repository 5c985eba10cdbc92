"""Numbers of tiles as functions of the tile.

Where loops count what is left of a tile (counted.py), it matters that roles in the same tile have the same number, not how that is
computed. So what the register is given is replaced by a function of what it is made of; the certificate is then put in terms of the
network.
"""

from collections.abc import Collection, Iterator

from pipec.protocol.forms.rewriting import Rewriting, in_terms_of
from pipec.protocol.forms.sample import number_below
from pipec.protocol.program.naming import Names
from pipec.protocol.program.program import registers_of
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.network import Edge, Network, Test
from pipec.verify.reader.processes.tidy import with_edges
from pipec.verify.reader.values.parts import PLACES
from pipec.verify.terms import Apply, Atom, Compare, Linear, Symbol, add, applied, atom, substitute


class Opaque:
    """`network`: with functions in place of what the registers `left` are given; `meaning`: of each, of the symbols in place of its
    arguments."""

    def __init__(self, network: Network, left: Collection[Symbol]) -> None:
        self.left, self.registers = left, registers_of(network)
        self.names: dict[Linear, str] = {}
        self.meaning: dict[str, Linear] = {}
        self.below = 2 * max(_least(network, left), default=1) + 3
        processes = []
        for process in network.processes:
            states = [replace(state, action=with_edges(state.action, self._edge)) for state in process.states]
            processes.append(replace(process, states=tuple(states)))
        self.network = replace(network, processes=tuple(processes))

    def _edge(self, edge: Edge) -> Edge:
        if all(symbol not in self.left for symbol, _ in edge.values):
            return edge
        return replace(edge, values=tuple([(symbol, self._value(symbol, value)) for symbol, value in edge.values]))

    def _value(self, symbol: Symbol, value: Linear | None) -> Linear | None:
        if symbol not in self.left or value is None or all(isinstance(one, Symbol) for one, _ in value.terms):
            return value
        opening = Opening(self.registers)
        skeleton = opening.linear(value)
        name = self.names.setdefault(skeleton, number_below(len(self.names), self.below))
        self.meaning[name] = skeleton
        return applied(name, tuple(opening.arguments))

    def unfolded(self, certificate: Certificate) -> Certificate:
        return in_terms_of(certificate, Rewriting(self._meant))

    def _meant(self, one: Atom) -> Linear | None:
        match one:
            case Apply(name, arguments) if name in self.meaning:
                return substitute(self.meaning[name], {argument_at(place): form for place, form in enumerate(arguments)})
            case _:
                return None


def argument_at(place: int) -> Symbol:
    return Symbol(f"argument {place}")


def _least(network: Network, left: Collection[Symbol]) -> Iterator[int]:
    """How many must be left, by the tests."""
    for process in network.processes:
        for state in process.states:
            match state.action:
                case Test(Compare(_, Linear(least, ((Symbol() as symbol, _),)))) if symbol in left:
                    yield abs(least)
                case _:
                    pass


class Opening(Names):
    """Replaces sums with registers and places of blocks in a form."""

    def __init__(self, registers: Collection[Symbol]) -> None:
        super().__init__()
        self.registers = registers
        self.arguments: list[Linear] = []

    def linear(self, form: Linear) -> Linear:
        plain = tuple((one, times) for one, times in form.terms if isinstance(one, Symbol))
        if not any(one in self.registers or one.name.startswith(PLACES) for one, _ in plain):
            return super().linear(form)
        argument = Linear(form.constant, plain)
        if argument not in self.arguments:
            self.arguments.append(argument)
        rest = Linear(0, tuple((one, times) for one, times in form.terms if not isinstance(one, Symbol)))
        return add(super().linear(rest), atom(argument_at(self.arguments.index(argument))))
