"""Certificates as data: one schedule of the processes, for all sizes, as a finite automaton. See docs/proof.md.

In a node, process `test` stands at a branch; for each outcome that is possible the edge says which processes then take one step each
(a wait or an arrival) until the next node is reached. `facts` hold of the registers whenever the schedule comes through the node.
"""

import re
from dataclasses import dataclass

from pipec.verify.terms import Apply, Atom, Both, Choose, Compare, Either, Floor, Formula, Linear, Symbol, add

_LARGEST = 1 << 128  # of a number: what a proof says is about sums and products of 64-bit values
_NAME = re.compile(r"[\w$%]{1,1000}", re.ASCII)
_DEEPEST = 60  # nested conditions and values


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
    """`assumes`: conditions that the search found to be missing from the network's facts. The checker does not know them: the proof
    holds once they are facts (conditions of the launch), and they are no part of a file of certificates."""

    kernel: str
    cases: tuple[Case, ...]
    assumes: tuple[Formula, ...] = ()


class Malformed(Exception):
    """The text is no certificate; says why."""


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
        raise Malformed(f"the name of a kernel is expected, not {_short(kernel)}")
    return Certificate(kernel, tuple(map(_read_case, items(cases))))


def _read_case(data: object) -> Case:
    when, begin, nodes = fields(data, "when", "begin", "nodes")
    first = _read_moves(begin)
    if first is None:
        raise Malformed("a case without a beginning")
    return Case(_read_formulas(when), first, tuple(map(_read_node, items(nodes))))


def _read_node(data: object) -> Node:
    facts, test, yes, no = fields(data, "facts", "test", "yes", "no")
    return Node(_read_formulas(facts), None if test is None else _integer(test), _read_moves(yes), _read_moves(no))


def fields(data: object, *names: str) -> tuple[object, ...]:
    """The values of an object that has these fields and no others."""
    if not isinstance(data, dict) or data.keys() != {*names}:
        raise Malformed(f"an object with {', '.join(names)} is expected, not {_short(data)}")
    return tuple(data[name] for name in names)


def items(data: object) -> list[object]:
    if not isinstance(data, list):
        raise Malformed(f"a list is expected, not {_short(data)}")
    return data


def _short(data: object) -> str:
    """For messages: what was found, not all of it where it is long."""
    match data:
        case dict():
            return f"one with {', '.join(map(repr, [*data][:6]))}" if data else "one without any"
        case list():
            return f"a list of {len(data)}"
        case int() if not -_LARGEST <= data <= _LARGEST:
            return "a number beyond 128 bits"
        case _:
            return repr(data) if len(repr(data)) <= 60 else repr(data)[:57] + "..."


def _moves(moves: Moves | None) -> object:
    return None if moves is None else {"steps": list(moves.steps), "node": moves.node}


def _read_moves(data: object) -> Moves | None:
    if data is None:
        return None
    steps, node = fields(data, "steps", "node")
    return Moves(tuple(map(_integer, items(steps))), _integer(node))


def _integer(data: object) -> int:
    if type(data) is not int or not -_LARGEST <= data <= _LARGEST:
        raise Malformed(f"an integer is expected, not {_short(data)}")
    return data


def formula_data(formula: Formula) -> list[object]:
    match formula:
        case Compare(relation, form):
            return [relation, _linear(form)]
        case Both(parts):
            return ["and", *map(formula_data, parts)]
        case Either(parts):
            return ["or", *map(formula_data, parts)]


def _read_formulas(data: object) -> tuple[Formula, ...]:
    made = tuple(formula_of(one) for one in items(data))
    if len({*made}) < len(made):
        raise Malformed("a condition stands there twice")
    return made


def formula_of(data: object, depth: int = 0) -> Formula:
    """The inverse of `formula_data`. Raises Malformed."""
    _shallow(depth)
    match data:
        case ["ge" | "eq" | "ne" as relation, form]:
            return Compare(relation, _read_linear(form, depth))
        case ["and", *parts]:
            return Both(tuple(formula_of(one, depth + 1) for one in parts))
        case ["or", *parts]:
            return Either(tuple(formula_of(one, depth + 1) for one in parts))
        case _:
            raise Malformed(f"a condition is expected, not {_short(data)}")


def _shallow(depth: int) -> None:
    if depth > _DEEPEST:
        raise Malformed("a condition is nested too deeply")


def _linear(form: Linear) -> list[object]:
    return [form.constant, *([coefficient, _atom(one)] for one, coefficient in form.terms)]


def _read_linear(data: object, depth: int) -> Linear:
    """Only as `Linear` has it: no value twice and none with the coefficient 0, so that equal forms are equal texts."""
    match data:
        case [constant, *terms]:
            made = Linear(_integer(constant), tuple(_read_term(term, depth) for term in terms))
        case _:
            raise Malformed(f"a sum is expected, not {_short(data)}")
    if add(Linear(0), made) != made:
        raise Malformed("a sum that is not in order")
    return made


def _read_term(data: object, depth: int) -> tuple[Atom, int]:
    match data:
        case [coefficient, one]:
            return _read_atom(one, depth + 1), _integer(coefficient)
        case _:
            raise Malformed(f"a coefficient and a value are expected, not {_short(data)}")


def _atom(one: Atom) -> object:
    match one:
        case Symbol(name):
            return name
        case Floor(form, divisor):
            return ["floor", _linear(form), divisor]
        case Choose(condition, yes, no):
            return ["choose", formula_data(condition), _linear(yes), _linear(no)]
        case Apply(function, arguments):
            return ["apply", function, *map(_linear, arguments)]


def _read_atom(data: object, depth: int) -> Atom:
    _shallow(depth)
    match data:
        case str(name):
            return Symbol(name)
        case ["floor", form, divisor]:
            if _integer(divisor) <= 0:
                raise Malformed("a divisor that is not positive")
            return Floor(_read_linear(form, depth), _integer(divisor))
        case ["choose", condition, yes, no]:
            return Choose(formula_of(condition, depth + 1), _read_linear(yes, depth), _read_linear(no, depth))
        case ["apply", str(function), *arguments]:
            return Apply(function, tuple(_read_linear(one, depth) for one in arguments))
        case _:
            raise Malformed(f"a value is expected, not {_short(data)}")
