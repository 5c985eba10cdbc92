"""Certificates as data: one schedule of the processes, for all sizes, as a finite automaton. See docs/proof.md.

In a node, process `test` is at a branch; for each possible outcome, the edge lists the processes that then take one step each (a wait,
an arrival, or a branch whose outcome is known by then) until the next node is reached. `facts` are invariants of the registers at the
node.
"""

import re

from pipec.record import record
from pipec.verify.data import Malformed, fields, formula_data, formulas_of, integer, items, short
from pipec.verify.terms import Formula

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
class Certificate:
    """`assumes`: conditions that the search found missing from the network's facts. The checker ignores them: the proof holds once they
    are facts (conditions of the launch), and they are not written to certificate files."""

    kernel: str
    cases: tuple[Case, ...]
    assumes: tuple[Formula, ...] = ()


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
