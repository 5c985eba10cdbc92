"""A network whose sizes are numbered in the order in which they are declared, so that what they are called decides nothing of a search.

Terms are sorted by the names in them, and a search that asks its questions in another order may end elsewhere.
"""

from pipec.protocol.program import registers_of
from pipec.record import replace
from pipec.verify.checker.certificate import Case, Certificate, Node
from pipec.verify.network import Action, Arrive, Edge, Network, State, Test, Wait
from pipec.verify.terms import Compare, Formula, Linear, Symbol, atom, substitute, substituted

Names = dict[Symbol, Linear]


def canonical(network: Network) -> tuple[Network, Names]:
    """The network with other names, and what these stand for."""
    registers = registers_of(network)
    declared: dict[Symbol, None] = {}
    for fact in network.facts:
        match fact:
            case Compare(_, Linear(_, ((Symbol() as symbol, _),))) if symbol not in registers and symbol.name[0] != "%":
                declared[symbol] = None
    numbers = {symbol: Symbol(f"size {number:03}") for number, symbol in enumerate(declared)}
    into = {symbol: atom(number) for symbol, number in numbers.items()}
    return _renamed(network, into), {number: atom(symbol) for symbol, number in numbers.items()}


def _renamed(network: Network, into: Names) -> Network:
    processes = tuple(
        replace(process, states=tuple(_state(state, into) for state in process.states)) for process in network.processes
    )
    return replace(network, processes=processes, facts=tuple(substituted(fact, into) for fact in network.facts))


def _state(state: State, into: Names) -> State:
    action = _action(state.action, into)
    return state if action is state.action else replace(state, action=action)


def _action(action: Action, into: Names) -> Action:
    match action:
        case Test(condition, yes, no):
            return Test(substituted(condition, into), _edge(yes, into), _edge(no, into))
        case Wait(edge=edge) | Arrive(edge=edge):
            made = _edge(edge, into)
            return action if made is edge else replace(action, edge=made)
        case _:
            return action


def _edge(edge: Edge, into: Names) -> Edge:
    if not edge.values and not edge.requires:
        return edge
    values = tuple((symbol, None if value is None else substitute(value, into)) for symbol, value in edge.values)
    return replace(edge, values=values, requires=tuple(substituted(one, into) for one in edge.requires))


def in_names_of(certificate: Certificate, names: Names) -> Certificate:
    """The certificate of the network as it was."""
    cases = tuple(
        Case(_formulas(case.when, names), case.begin, tuple(_node(node, names) for node in case.nodes))
        for case in certificate.cases
    )
    return replace(certificate, cases=cases, assumes=_formulas(certificate.assumes, names))


def _node(node: Node, names: Names) -> Node:
    return replace(node, facts=_formulas(node.facts, names))


def _formulas(formulas: tuple[Formula, ...], names: Names) -> tuple[Formula, ...]:
    return tuple(substituted(one, names) for one in formulas)
