"""Certificates as data: one schedule of the processes, for all sizes, as a finite automaton. See docs/proof.md.

In a node, process `test` stands at a branch; for each outcome that is possible the edge says which processes then take one step each
(a wait, an arrival, or a branch whose outcome is known by then) until the next node is reached. `facts` hold of the registers whenever the
schedule comes through the node.
"""

import re

from pipec.record import record
from pipec.verify.data import Malformed, fields, formula_data, formulas_of, integer, items, short
from pipec.verify.terms import Formula

_NAME = re.compile(r"[\w$%]{1,1000}", re.ASCII)


@record
class Moves:
    """The numbers of the processes that take a step, in order, and the node reached. Where a condition is known not to hold, the complement
    of the number says that this branch is not taken."""

    steps: tuple[int, ...]
    node: int


@record
class Node:
    """`test` None: every process has ended. `yes`, `no`: None where the facts exclude the outcome."""

    facts: tuple[Formula, ...]
    test: int | None
    yes: Moves | None = None
    no: Moves | None = None


@record
class Case:
    """The schedule for the sizes of which `when` holds."""

    when: tuple[Formula, ...]
    begin: Moves
    nodes: tuple[Node, ...]


@record
class Certificate:
    """`assumes`: conditions that the search found to be missing from the network's facts. The checker does not know them: the proof
    holds once they are facts (conditions of the launch), and they are no part of a file of certificates."""

    kernel: str
    cases: tuple[Case, ...]
    assumes: tuple[Formula, ...] = ()


def data_of(certificate: Certificate) -> dict[str, object]:
    """Of what JSON knows."""
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
    return {"kernel": certificate.kernel, "cases": cases}


def certificate_of(data: object) -> Certificate:
    """The inverse of `data_of`. Raises Malformed."""
    kernel, cases = fields(data, "kernel", "cases")
    if not isinstance(kernel, str) or not _NAME.fullmatch(kernel):
        raise Malformed(f"the name of a kernel is expected, not {short(kernel)}")
    return Certificate(kernel, tuple(map(_read_case, items(cases))))


def _read_case(data: object) -> Case:
    when, begin, nodes = fields(data, "when", "begin", "nodes")
    first = _read_moves(begin)
    if first is None:
        raise Malformed("a case without a beginning")
    return Case(formulas_of(when), first, tuple(map(_read_node, items(nodes))))


def _read_node(data: object) -> Node:
    facts, test, yes, no = fields(data, "facts", "test", "yes", "no")
    return Node(formulas_of(facts), None if test is None else integer(test), _read_moves(yes), _read_moves(no))


def _moves(moves: Moves | None) -> object:
    return None if moves is None else {"steps": list(moves.steps), "node": moves.node}


def _read_moves(data: object) -> Moves | None:
    if data is None:
        return None
    steps, node = fields(data, "steps", "node")
    return Moves(tuple(map(integer, items(steps))), integer(node))
