"""Renames a network canonically: sizes in order of declaration, uninterpreted functions in order of occurrence, so that names do not
influence the search.

Terms are sorted by the names in them, and a search that asks its questions in another order may end differently.
"""

import re
from collections.abc import Mapping

from pipec.protocol.forms.extents import ranges_in
from pipec.protocol.program.program import registers_of
from pipec.record import replace
from pipec.verify.checker.certificate import Case, Certificate, Node
from pipec.verify.network import Action, Arrive, Edge, Network, State, Test, Wait
from pipec.verify.terms import (
    Apply,
    Atom,
    Both,
    Choose,
    Compare,
    Either,
    Floor,
    Formula,
    Linear,
    Product,
    Symbol,
    applied,
    atom,
    both,
    choose,
    decided,
    either,
    floor,
    product,
    summed,
)

# The reader's name of a large form: a hash of its text.
_HASHED = re.compile(r"[0-9a-f]{64}(?P<kind>\.[su]\d+)?")


class Names:
    """A mapping from one network's names to another's: of sizes, and of functions with their argument order. `values`: of what is something
    else as a whole."""

    def __init__(self) -> None:
        self.symbols: dict[Symbol, Symbol] = {}
        self.values: dict[Atom, Atom] = {}
        self.functions: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.known: dict[Linear, Linear] = {}

    def linear(self, form: Linear) -> Linear:
        found = self.known.get(form)
        if found is None:
            found = self.known[form] = summed(form.constant, [(self._atom(one), times) for one, times in form.terms])
        return found

    def formula(self, formula: Formula) -> Formula:
        match formula:
            case Compare(relation, form):
                return decided(Compare(relation, self.linear(form)))
            case Both(parts):
                return both(*map(self.formula, parts))
            case Either(parts):
                return either(*map(self.formula, parts))

    def _atom(self, one: Atom) -> Linear:
        if one in self.values:
            return atom(self.values[one])
        match one:
            case Floor(form, divisor):
                return floor(self.linear(form), divisor)
            case Choose(condition, yes, no):
                return choose(self.formula(condition), self.linear(yes), self.linear(no))
            case Apply(function, arguments):
                name, order = self.function(function, parts := tuple(map(self.linear, arguments)))
                return applied(name, tuple(parts[place] for place in order))
            case Symbol():
                return atom(self.symbols.get(one, one))
            case Product(factors):
                made = Linear(1)
                for factor in factors:
                    made = product(made, self._atom(factor))
                return made

    def function(self, name: str, arguments: tuple[Linear, ...]) -> tuple[str, tuple[int, ...]]:
        return self.functions.get(name, (name, tuple(range(len(arguments)))))


class _Numbering(Names):
    """Functions are numbered, and their arguments ordered, at their first occurrence. `stated`: the sizes that are a number; products by
    such a size are multiples, as where the number is written."""

    def __init__(self, stated: Mapping[Symbol, int]) -> None:
        super().__init__()
        self.stated, self.back = stated, Names()

    def _atom(self, one: Atom) -> Linear:
        if isinstance(one, Symbol) and one in self.stated:
            return Linear(self.stated[one])
        made = super()._atom(one)
        match made.terms if self.stated else ():
            case ((Apply(function, (left, right)), 1),) if function.startswith("mul.lo.") and not (left.terms and right.terms):
                multiple = Apply(function.removeprefix("mul.lo."), (product(left, right),))
                self.back.values.setdefault(multiple, one)
                return atom(multiple)
            case _:
                return made

    def number(self, symbols: list[Symbol]) -> None:
        self.symbols = {symbol: Symbol(f"size {number:03}") for number, symbol in enumerate(symbols)}
        self.back.symbols = {number: symbol for symbol, number in self.symbols.items()}

    def function(self, name: str, arguments: tuple[Linear, ...]) -> tuple[str, tuple[int, ...]]:
        hashed = _HASHED.fullmatch(name)
        # The hashed text contains names: renaming a size changes the hash.
        if hashed and name not in self.functions:
            order = tuple(sorted(range(len(arguments)), key=lambda place: repr(arguments[place])))
            made = f"function {len(self.functions):03}{hashed['kind'] or ''}"
            self.functions[name] = made, order
            self.back.functions[made] = name, tuple(map(order.index, range(len(order))))
        return super().function(name, arguments)


def canonical(network: Network) -> tuple[Network, Names]:
    """The renamed network, and the inverse mapping."""
    registers = registers_of(network)
    declared: dict[Symbol, None] = {}
    for fact in network.facts:
        match fact:
            case Compare(_, Linear(_, ((Symbol() as symbol, _),))) if symbol not in registers and symbol.name[0] != "%":
                declared[symbol] = None
    into = _Numbering({symbol: low for symbol, (low, high) in ranges_in(network.facts).items() if low == high})
    # Declared sizes have an order of their own; the order of terms depends on names.
    into.number([*declared])
    return renamed(network, into), into.back


def renamed(network: Network, into: Names) -> Network:
    processes = tuple(
        replace(process, states=tuple(_state(state, into) for state in process.states)) for process in network.processes
    )
    return replace(network, processes=processes, facts=tuple(into.formula(fact) for fact in network.facts))


def _state(state: State, into: Names) -> State:
    action = _action(state.action, into)
    return state if action is state.action else State(state.line, action, state.live)


def _action(action: Action, into: Names) -> Action:
    match action:
        case Test(condition, yes, no):
            return Test(into.formula(condition), _edge(yes, into), _edge(no, into))
        case Wait(edge=edge) | Arrive(edge=edge):
            made = _edge(edge, into)
            return action if made is edge else replace(action, edge=made)
        case _:
            return action


def _edge(edge: Edge, into: Names) -> Edge:
    if not edge.values and not edge.requires:
        return edge
    values = tuple([(symbol, None if value is None else into.linear(value)) for symbol, value in edge.values])
    return Edge(edge.target, values, edge.advances, tuple([into.formula(one) for one in edge.requires]))


def in_names_of(certificate: Certificate, names: Names) -> Certificate:
    """The certificate in terms of the original network."""
    cases = tuple(
        Case(_formulas(case.when, names), case.begin, tuple(_node(node, names) for node in case.nodes))
        for case in certificate.cases
    )
    return replace(certificate, cases=cases, assumes=_formulas(certificate.assumes, names))


def _node(node: Node, names: Names) -> Node:
    return Node(_formulas(node.facts, names), node.test, node.yes, node.no)


def _formulas(formulas: tuple[Formula, ...], names: Names) -> tuple[Formula, ...]:
    return tuple(names.formula(one) for one in formulas)
