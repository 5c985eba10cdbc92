"""Certificates as data: one schedule of the processes, for all sizes, as a finite automaton. See docs/proof.md.

A process may be restated first (restated.py); the schedule is then one of its restatement.

In a node, process `test` is at a branch; for each possible outcome, the edge lists the processes that then take one step each (a wait,
an arrival, or a branch whose outcome is known by then) until the next node is reached. `facts` are invariants of the registers at the
node.
"""

import re

from pipec.record import record
from pipec.verify.data import (
    Malformed,
    fields,
    form_data,
    form_of,
    formula_data,
    formula_of,
    formulas_of,
    integer,
    items,
    short,
)
from pipec.verify.terms import Formula, Linear, Symbol

_NAME = re.compile(r"[\w$%]{1,1000}", re.ASCII)


@record
class Moves:
    """The numbers of the processes that take a step, in order, and the node reached. The complement of a number means that this process
    takes the false side of its branch."""

    steps: tuple[int, ...]
    node: int


@record
class Node:
    """`test` None: every process has ended. `yes`, `no`: None if the facts exclude the outcome."""

    facts: tuple[Formula, ...]
    test: int | None
    yes: Moves | None = None
    no: Moves | None = None


@record
class Case:
    """The schedule for the sizes that satisfy `when`."""

    when: tuple[Formula, ...]
    begin: Moves
    nodes: tuple[Node, ...]


@record
class Onward:
    """The way from a place to the next one. `takes`: the edge of the state that is taken (of a test 0 if its condition holds, else 1); None
    if the process stays in its state. `values`: of added registers, assigned with those of the edge; `requires`: in place of what the edge
    requires."""

    takes: int | None
    target: int
    values: tuple[tuple[Symbol, Linear], ...] = ()
    requires: tuple[Formula, ...] = ()


@record
class Place:
    """A place of a restatement, for a state. `facts`: invariants; `asks`: leads onwards[0] if it holds, and else onwards[1]."""

    state: int
    facts: tuple[Formula, ...]
    asks: Formula | None
    onwards: tuple[Onward, ...]


@record
class Restatement:
    """The process in other words."""

    process: int
    start: int
    places: tuple[Place, ...]


@record
class Certificate:
    """`assumes`: conditions that the search found missing from the network's facts. The checker ignores them: the proof holds once they
    are facts (conditions of the launch), and they are not written to certificate files."""

    kernel: str
    cases: tuple[Case, ...]
    assumes: tuple[Formula, ...] = ()
    restated: tuple[Restatement, ...] = ()


def data_of(certificate: Certificate) -> dict[str, object]:
    """Converts to JSON types."""
    cases = [
        {
            "when": [formula_data(one) for one in case.when],
            "begin": _moves(case.begin),
            "nodes": [
                {
                    "facts": [formula_data(one) for one in node.facts],
                    "test": node.test,
                    "yes": _moves(node.yes),
                    "no": _moves(node.no),
                }
                for node in case.nodes
            ],
        }
        for case in certificate.cases
    ]
    restated = [
        {
            "process": one.process,
            "start": one.start,
            "places": [
                {
                    "state": place.state,
                    "facts": [formula_data(fact) for fact in place.facts],
                    "asks": None if place.asks is None else formula_data(place.asks),
                    "onwards": [_onward(onward) for onward in place.onwards],
                }
                for place in one.places
            ],
        }
        for one in certificate.restated
    ]
    return {"kernel": certificate.kernel, "restated": restated, "cases": cases}


def certificate_of(data: object) -> Certificate:
    """The inverse of `data_of`. Raises Malformed."""
    kernel, restated, cases = fields(data, "kernel", "restated", "cases")
    if not isinstance(kernel, str) or not _NAME.fullmatch(kernel):
        raise Malformed(f"the name of a kernel is expected, not {short(kernel)}")
    return Certificate(kernel, tuple(map(_read_case, items(cases))), restated=tuple(map(_read_restatement, items(restated))))


def _read_case(data: object) -> Case:
    when, begin, nodes = fields(data, "when", "begin", "nodes")
    first = _read_moves(begin)
    if first is None:
        raise Malformed("a case without a beginning")
    return Case(formulas_of(when), first, tuple(map(_read_node, items(nodes))))


def _read_node(data: object) -> Node:
    facts, test, yes, no = fields(data, "facts", "test", "yes", "no")
    return Node(formulas_of(facts), None if test is None else integer(test), _read_moves(yes), _read_moves(no))


def _read_restatement(data: object) -> Restatement:
    process, start, places = fields(data, "process", "start", "places")
    return Restatement(integer(process), integer(start), tuple(map(_read_place, items(places))))


def _read_place(data: object) -> Place:
    state, facts, asks, onwards = fields(data, "state", "facts", "asks", "onwards")
    asked = None if asks is None else formula_of(asks)
    return Place(integer(state), formulas_of(facts), asked, tuple(map(_read_onward, items(onwards))))


def _onward(onward: Onward) -> object:
    return {
        "takes": onward.takes,
        "place": onward.target,
        "values": [[symbol.name, form_data(value)] for symbol, value in onward.values],
        "requires": [formula_data(one) for one in onward.requires],
    }


def _read_onward(data: object) -> Onward:
    takes, target, values, requires = fields(data, "takes", "place", "values", "requires")
    made = tuple(map(_read_value, items(values)))
    if len({symbol for symbol, _ in made}) < len(made):
        raise Malformed("a register is given two values")
    return Onward(None if takes is None else integer(takes), integer(target), made, formulas_of(requires))


def _read_value(data: object) -> tuple[Symbol, Linear]:
    match data:
        case [str(name), value]:
            return Symbol(name), form_of(value)
        case _:
            raise Malformed(f"a register and its value are expected, not {short(data)}")


def _moves(moves: Moves | None) -> object:
    return None if moves is None else {"steps": list(moves.steps), "node": moves.node}


def _read_moves(data: object) -> Moves | None:
    if data is None:
        return None
    steps, node = fields(data, "steps", "node")
    return Moves(tuple(map(integer, items(steps))), integer(node))
