"""What a proof costs grows in proportion to the kernel: counted in steps of the search, in nodes and in what the nodes say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.effort import steps_so_far
from pipec.protocol.prove import prove
from pipec.record import replace
from pipec.source import Source
from pipec.verify.checker.certificate import Certificate, Moves
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.logic import System
from pipec.verify.network import Network
from pipec.verify.reader.read import read
from pipec.verify.terms import Compare, Linear
from tests.protocol.build import Consume, Loop, Pipes, Produce, network, size

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
n, m = size("n"), size("m")
SIZES = (4, 8, 16)
_MORE = 1.15  # than in proportion: what is counted has parts that depend on how terms fall


def turns(*body: object) -> Loop:
    return Loop("i", Linear(0), n, body)


def chain(roles: int) -> Network:
    """Each role reads what the one before it fills."""
    bodies: dict[str, list[object]] = {f"r{role}": [] for role in range(roles)}
    for role in range(roles - 1):
        bodies[f"r{role + 1}"].append(Consume(f"p{role}"))
        bodies[f"r{role}"].append(Produce(f"p{role}"))
    return network(Pipes({f"p{role}": 2 for role in range(roles - 1)}), {name: [turns(*body)] for name, body in bodies.items()})


def readers(roles: int) -> Network:
    """All read the same stages, in a loop inside of another."""
    nested = {f"b{role}": [Loop("t", Linear(0), m, (turns(Consume("p")),))] for role in range(roles - 1)}
    return network(Pipes({"p": 2}, {"p": roles - 1}), {"a": [Loop("t", Linear(0), m, (turns(Produce("p")),))], **nested})


def apart(roles: int) -> Network:
    """Pairs that have nothing to do with each other."""
    sides = {
        f"{side}{pair}": [turns(use(f"p{pair}"))] for pair in range(roles // 2) for side, use in (("a", Produce), ("b", Consume))
    }
    return network(Pipes({f"p{pair}": 2 for pair in range(roles // 2)}), sides)


def stages(depth: int) -> Network:
    return network(Pipes({"p": depth}), {"a": [turns(Produce("p"))], "b": [turns(Consume("p"))]})


def statements(many: int) -> Network:
    """So many stages in each turn."""
    return network(Pipes({"p": 2}), {"a": [turns(*[Produce("p")] * many)], "b": [turns(*[Consume("p")] * many)]})


def costs(made: Network) -> tuple[int, int, int]:
    """Steps of the search, nodes, facts."""
    before = steps_so_far()
    certificate = prove(made)
    took = steps_so_far() - before
    check(made, certificate)
    nodes = [node for case in certificate.cases for node in case.nodes]
    return took, len(nodes), sum(len(node.facts) for node in nodes)


@pytest.mark.parametrize("family", [chain, readers, apart, stages, statements])
def test_twice_as_many_cost_twice_as_much(family: Callable[[int], Network]) -> None:
    first, second, third = (costs(family(many)) for many in SIZES)
    assert first[1] == second[1] == third[1]
    for one, two, four in zip(first, second, third, strict=True):
        assert four - two <= 2 * _MORE * (two - one)


# ------------------------------------------------------------------------------------- tests that are passed on the way


def with_moves(certificate: Certificate, outcome: str, moves: Moves) -> Certificate:
    """With another way out of the first node."""
    (case,) = certificate.cases
    first, *rest = case.nodes
    return replace(certificate, cases=(replace(case, nodes=(replace(first, **{outcome: moves}), *rest)),))


@pytest.mark.parametrize("outcome", ["yes", "no"])
def test_a_test_is_passed_only_with_the_outcome_that_is_known(outcome: str) -> None:
    """Another outcome, or one of a wait or an arrival, is refused, and so is a way that leaves a test out."""
    made = stages(2)
    certificate = prove(made)
    moves: Moves = getattr(certificate.cases[0].nodes[0], outcome)
    assert any(step < 0 for step in moves.steps) == (outcome == "no")  # the other role leaves its loop
    for number, step in enumerate(moves.steps):
        for into in ((~step,), ()):
            steps = (*moves.steps[:number], *into, *moves.steps[number + 1 :])
            with pytest.raises(Refused):
                check(made, with_moves(certificate, outcome, replace(moves, steps=steps)))


def test_what_may_come_out_both_ways_is_not_passed() -> None:
    made = stages(2)
    certificate = prove(made)
    (case,) = certificate.cases
    first = case.nodes[0]
    assert first.test is not None and first.yes is not None and first.no is not None
    for moves, step in ((first.yes, first.test), (first.no, ~first.test)):
        begin = Moves((*case.begin.steps, step, *moves.steps), moves.node)
        with pytest.raises(Refused, match="outcome is not known"):
            check(made, replace(certificate, cases=(replace(case, begin=begin),)))


# ------------------------------------------------------------------------------------------------- what follows is not said


def test_no_equation_of_a_node_follows_from_the_others() -> None:
    """Roles that ask the scheduler for tiles compute the same of each answer. That the results are equal follows where the answers are
    the same one, and to say so for each pair of roles would be most of the certificate, and most of the work of who checks it."""
    path = EXAMPLES / "gemm_2cta_persistent.pipe"
    state = compile_source(Source(path.name, path.read_text(encoding="utf-8")), Options(constants={"MODE": "clc"}))
    assert state.ptx is not None
    sizes = System(read(state.ptx).facts).closed()
    (case,) = state.certificates["gemm_2cta_persistent"].certificate.cases
    for node in case.nodes[:12]:
        for fact in node.facts:
            if isinstance(fact, Compare) and fact.relation == "eq" and "answer" in repr(fact):
                assert not sizes.extended([one for one in node.facts if one != fact]).entails(fact), fact
