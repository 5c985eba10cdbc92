"""Certificates as data: one schedule of the processes, for all sizes, as a finite automaton. See docs/proof.md.

In a node, process `test` stands at a branch; for each outcome that is possible the edge says which processes then take one step each
(a wait or an arrival) until the next node is reached. `facts` hold of the registers whenever the schedule comes through the node.
"""

import json
from dataclasses import dataclass
from typing import Any

from pipec.verify.terms import Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Moves:
    """The numbers of the processes that take a step, in order, and the node reached."""

    steps: tuple[int, ...]
    node: int


@dataclass(frozen=True, slots=True)
class Node:
    """`test` None: every process has ended. `yes`, `no`: None where the facts exclude the outcome."""

    facts: tuple[Formula, ...]
    test: int | None
    yes: Moves | None = None
    no: Moves | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """The schedule for the sizes of which `when` holds."""

    when: tuple[Formula, ...]
    begin: Moves
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """`assumes`: conditions on sizes under which the proof holds, and which a launch has to keep to."""

    kernel: str
    cases: tuple[Case, ...]
    assumes: tuple[Formula, ...] = ()


class Malformed(Exception):
    """The text is no certificate; says why."""


def to_json(certificate: Certificate) -> str:
    cases = [
        {
            "when": [_formula(one) for one in case.when],
            "begin": _moves(case.begin),
            "nodes": [
                {
                    "facts": [_formula(one) for one in node.facts],
                    "test": node.test,
                    "yes": _moves(node.yes),
                    "no": _moves(node.no),
                }
                for node in case.nodes
            ],
        }
        for case in certificate.cases
    ]
    assumes = [_formula(one) for one in certificate.assumes]
    return json.dumps({"format": FORMAT, "kernel": certificate.kernel, "assumes": assumes, "cases": cases}, separators=(",", ":"))


def from_json(text: str) -> Certificate:
    try:
        return _read(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise Malformed(f"{type(error).__name__}: {error}") from error


def _read(data: Any) -> Certificate:
    if data["format"] != FORMAT:
        raise Malformed(f"format {data['format']!r} is not known")
    cases = []
    for case in data["cases"]:
        nodes = tuple(
            Node(
                tuple(map(_read_formula, node["facts"])), _index(node["test"]), _read_moves(node["yes"]), _read_moves(node["no"])
            )
            for node in case["nodes"]
        )
        begin = _read_moves(case["begin"])
        if begin is None:
            raise Malformed("a case without a beginning")
        cases.append(Case(tuple(map(_read_formula, case["when"])), begin, nodes))
    return Certificate(str(data["kernel"]), tuple(cases), tuple(map(_read_formula, data["assumes"])))


def _moves(moves: Moves | None) -> object:
    return None if moves is None else {"steps": list(moves.steps), "node": moves.node}


def _read_moves(data: Any) -> Moves | None:
    return None if data is None else Moves(tuple(_integer(step) for step in data["steps"]), _integer(data["node"]))


def _integer(data: Any) -> int:
    if type(data) is not int:
        raise Malformed(f"{data!r} is no integer")
    return data


def _index(data: Any) -> int | None:
    return None if data is None else _integer(data)


def _formula(formula: Formula) -> list[object]:
    match formula:
        case Compare(relation, form):
            return [relation, _linear(form)]
        case Both(parts):
            return ["and", *map(_formula, parts)]
        case Either(parts):
            return ["or", *map(_formula, parts)]


def _read_formula(data: Any) -> Formula:
    match data:
        case ["ge" | "eq" | "ne" as relation, form]:
            return Compare(relation, _read_linear(form))
        case ["and", *parts]:
            return Both(tuple(map(_read_formula, parts)))
        case ["or", *parts]:
            return Either(tuple(map(_read_formula, parts)))
        case _:
            raise Malformed(f"{data!r} is no condition")


def _linear(form: Linear) -> list[object]:
    return [form.constant, *([coefficient, _atom(one)] for one, coefficient in form.terms)]


def _read_linear(data: Any) -> Linear:
    constant, *terms = data
    return Linear(_integer(constant), tuple((_read_atom(one), _integer(coefficient)) for coefficient, one in terms))


def _atom(one: Atom) -> object:
    match one:
        case Symbol(name):
            return name
        case Floor(form, divisor):
            return ["floor", _linear(form), divisor]
        case Choose(condition, yes, no):
            return ["choose", _formula(condition), _linear(yes), _linear(no)]
        case Apply(function, arguments):
            return ["apply", function, *map(_linear, arguments)]


def _read_atom(data: Any) -> Atom:
    match data:
        case str(name):
            return Symbol(name)
        case ["floor", form, divisor]:
            if _integer(divisor) <= 0:
                raise Malformed("a divisor that is not positive")
            return Floor(_read_linear(form), divisor)
        case ["choose", condition, yes, no]:
            return Choose(_read_formula(condition), _read_linear(yes), _read_linear(no))
        case ["apply", str(function), *arguments]:
            return Apply(function, tuple(map(_read_linear, arguments)))
        case _:
            raise Malformed(f"{data!r} is no value")
