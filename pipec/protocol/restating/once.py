"""Loaded numbers that are the same in all turns, as sizes.

What a block loads once, as the length of its sequence, each role bounds, rounds and divides in words of its own. These are compared like
those of sizes if the number is one of its own, and not what memory holds at an address, where that lies in the tensor. The certificate is
then put in terms of the network, and checked for that.
"""

from collections.abc import Iterator, Sequence

from pipec.protocol.forms.rewriting import Rewriting, in_terms_of
from pipec.protocol.program.naming import Names, renamed
from pipec.protocol.program.program import registers_of
from pipec.protocol.restating.wording import loads, parts_of
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate, Onward, Place
from pipec.verify.network import Network, Test, edges_of
from pipec.verify.terms import Apply, Atom, Choose, Linear, Symbol, atom, forms_of, symbols_of

_MOST = 4  # numbers


class Once:
    """`network`: with such sizes; `meaning`: of each."""

    def __init__(self, network: Network, numbers: Sequence[Atom]) -> None:
        # (By its name it is no size that a launch could be asked about.)
        names = Names()
        names.values = {one: Symbol(f"%loaded {count}") for count, one in enumerate(numbers)}
        self.meaning = {name: atom(one) for one, name in names.values.items()}
        self.network = renamed(network, names)
        self._rewriting = Rewriting(lambda one: self.meaning.get(one) if isinstance(one, Symbol) else None)

    def unfolded(self, certificate: Certificate) -> Certificate:
        """In terms of the network."""
        restated = [replace(one, places=tuple(map(self._place, one.places))) for one in certificate.restated]
        return replace(in_terms_of(certificate, self._rewriting), restated=tuple(restated))

    def _place(self, place: Place) -> Place:
        formula = self._rewriting.formula
        asks = None if place.asks is None else formula(place.asks)
        facts = tuple(dict.fromkeys(map(formula, place.facts)))  # a certificate states each once
        return replace(place, facts=facts, asks=asks, onwards=tuple(map(self._onward, place.onwards)))

    def _onward(self, onward: Onward) -> Onward:
        values = tuple([(symbol, self._rewriting.form(value)) for symbol, value in onward.values])
        requires = tuple(dict.fromkeys(map(self._rewriting.formula, onward.requires)))
        return replace(onward, values=values, requires=requires)


def once(network: Network) -> Once | None:
    """None if there is no such number, or there are many."""
    registers = registers_of(network)
    numbers = [*dict.fromkeys(one for form in _forms(network) for one in _numbers(form, registers))]
    return Once(network, numbers) if 0 < len(numbers) <= _MOST else None


def _forms(network: Network) -> Iterator[Linear]:
    for process in network.processes:
        for state in process.states:
            if isinstance(state.action, Test):
                yield from forms_of(state.action.condition)
            for edge in edges_of(state.action):
                yield from (value for _, value in edge.values if value is not None)
                yield from (form for formula in edge.requires for form in forms_of(formula))


def _numbers(form: Linear, registers: frozenset[Symbol]) -> Iterator[Atom]:
    for one, _ in form.terms:
        if not loads(one):
            continue
        if _is_loaded(one) and symbols_of(atom(one)).isdisjoint(registers):
            yield one
        else:
            for each in parts_of(one):
                yield from _numbers(each, registers)


def _is_loaded(one: Atom) -> bool:
    """Whether it is what memory holds, or that where it lies in its tensor, and else a number."""
    match one:
        case Apply(function, _):
            return function.startswith("ld.")
        case Choose(_, Linear(0, ((Apply(function, _), 1),)), Linear(_, ())):
            return function.startswith("ld.")
        case _:
            return False
