"""Networks written by hand: what is right is proved and the checker agrees, what is wrong is refuted or refused."""

import itertools
import json
import random
from collections.abc import Sequence

import pytest

from pipec.protocol.program.naming import Names, in_names_of, renamed
from pipec.protocol.prove import Undecided, prove
from pipec.protocol.refuting.refute import refute
from pipec.protocol.search.automaton import Search
from pipec.protocol.search.runs import Runs
from pipec.protocol.variables.numbers import Numbers
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate, Moves, certificate_of, data_of
from pipec.verify.checker.check import _covered, check
from pipec.verify.checker.configuration import Refused
from pipec.verify.logic import System
from pipec.verify.network import Arrive, Network, Wait
from pipec.verify.terms import Apply, Compare, Formula, Linear, Symbol, add, atom, floor, negate, scale
from tests.protocol.build import Consume, If, Loop, Pipes, Produce, below, network, size
from tests.protocol.right import right

n, m = size("n"), size("m")
ZERO, ONE, TWO = Linear(0), Linear(1), Linear(2)


def loop(start: Linear, stop: Linear, *body: object, variable: str = "k") -> Loop:
    return Loop(variable, start, stop, body)


def pair(produced: Sequence[object], consumed: Sequence[object], depth: int = 4) -> Network:
    return network(Pipes({"p": depth}), {"a": produced, "b": consumed})


RIGHT = {
    "same loop": pair([loop(ZERO, n, Produce("p"))], [loop(ZERO, n, Consume("p"))]),
    "shifted bounds": pair([loop(ZERO, n, Produce("p"))], [loop(ONE, add(n, ONE), Consume("p"))]),
    "two pipelines": network(
        Pipes({"p": 4, "q": 2}),
        {
            "a": [loop(ZERO, n, Produce("p"))],
            "b": [loop(ZERO, n, Consume("p"), Produce("q"))],
            "c": [loop(ZERO, n, Consume("q"))],
        },
    ),
    "persistent": network(
        Pipes({"p": 4, "q": 2}),
        {
            "a": [loop(ZERO, m, loop(ZERO, n, Produce("p")), variable="t")],
            "b": [loop(ZERO, m, Produce("q", fill=False), loop(ZERO, n, Consume("p")), Produce("q", obtain=False), variable="t")],
            "c": [loop(ZERO, m, Consume("q"), variable="t")],
        },
    ),
    "two spellings of a half": pair(
        [loop(ZERO, floor(add(n, ONE), 2), Produce("p"))], [loop(ZERO, scale(floor(scale(n, -1), 2), -1), Consume("p"))]
    ),
    "guarded prologue": pair([loop(ZERO, n, Produce("p"))], [If(below(ZERO, n), (Consume("p"),)), loop(ONE, n, Consume("p"))]),
    "unrolled by two": pair([loop(ZERO, scale(n, 2), Produce("p"))], [loop(ZERO, n, Consume("p"), Consume("p"))]),
    "one loop against two": pair(
        [loop(ZERO, add(n, m), Produce("p"))], [loop(ZERO, n, Consume("p")), loop(ZERO, m, Consume("p"), variable="j")]
    ),
    "releases two behind": pair(
        [loop(ZERO, n, Produce("p"))],
        [loop(ZERO, n, Consume("p", free=False), If(lambda k: below(ONE, k), (Consume("p", lag=2, obtain=False),)))],
    ),
}

WRONG = {
    "one too many": pair([loop(ZERO, n, Produce("p"))], [loop(ZERO, add(n, ONE), Consume("p"))]),
    "five too few": pair([loop(ZERO, n, Produce("p"))], [loop(Linear(5), n, Consume("p"))]),
    "never released": pair([loop(ZERO, n, Produce("p"))], [loop(ZERO, n, Consume("p", free=False))]),
    "holds all stages": pair(
        [loop(ZERO, n, Produce("p"))],
        [loop(ZERO, n, Consume("p", free=False), If(lambda k: below(ONE, k), (Consume("p", lag=2, obtain=False),)))],
        depth=2,
    ),
    "wait in a circle": network(
        Pipes({"p": 1, "q": 1}),
        {"a": [loop(ZERO, n, Consume("q"), Produce("p"))], "b": [loop(ZERO, n, Consume("p"), Produce("q"))]},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_networks_are_proved(name: str) -> None:
    certificate = certificate_of(json.loads(json.dumps(data_of(prove(RIGHT[name])))))
    check(RIGHT[name], certificate)
    assert refute(RIGHT[name])[0] is None


@pytest.mark.parametrize("name", WRONG)
def test_wrong_networks_are_refuted(name: str) -> None:
    found, _ = refute(WRONG[name])
    assert found is not None
    with pytest.raises(Undecided):
        prove(WRONG[name])


def test_a_certificate_of_another_network_is_refused() -> None:
    for name, other in itertools.product(RIGHT, WRONG):
        with pytest.raises(Refused):
            check(WRONG[other], prove(RIGHT[name]))


def forged(certificate: Certificate, random_: random.Random) -> Certificate:
    """The certificate with one field changed."""
    case = random_.choice(certificate.cases)
    number = random_.randrange(len(case.nodes))
    node = case.nodes[number]
    changes = []
    if node.facts:
        changes.append(replace(node, facts=(*node.facts, Compare("eq", Linear(1)))))
        fact = random_.choice(node.facts)
        if isinstance(fact, Compare) and fact.relation == "eq":
            stronger = Compare("eq", add(fact.form, Linear(1)))
            changes.append(replace(node, facts=tuple(stronger if one is fact else one for one in node.facts)))
    changes.append(replace(node, test=None if node.test is not None else 0))
    for side in ("yes", "no"):
        moves = getattr(node, side)
        if moves is not None:
            changes.append(replace(node, **{side: None}))
            changes.append(replace(node, **{side: Moves((*moves.steps, 0), moves.node)}))
            changes.append(replace(node, **{side: Moves(moves.steps, len(case.nodes))}))
            if moves.steps:
                changes.append(replace(node, **{side: Moves(moves.steps[1:], moves.node)}))
    made = random_.choice(changes)
    nodes = (*case.nodes[:number], made, *case.nodes[number + 1 :])
    return replace(certificate, cases=tuple(replace(one, nodes=nodes) if one is case else one for one in certificate.cases))


@pytest.mark.parametrize("name", RIGHT)
def test_forged_certificates_are_refused(name: str) -> None:
    certificate, random_ = prove(RIGHT[name]), random.Random(7)
    for _ in range(25):
        with pytest.raises(Refused):
            check(RIGHT[name], forged(certificate, random_))


def changed(network_: Network, random_: random.Random) -> Network:
    """The network with one event changed."""
    number = random_.randrange(len(network_.processes))
    process = network_.processes[number]
    places = [place for place, state in enumerate(process.states) if isinstance(state.action, (Arrive, Wait))]
    place = random_.choice(places)
    state = process.states[place]
    action = state.action
    assert isinstance(action, (Arrive, Wait))
    use = action.use
    # A producer that waits for a later stage than it fills waits longer than it must; a consumer that gives back a later stage of those
    # it holds keeps another one. Neither can hang.
    shifts = (-1, 4, -4) if use.ring % 2 else (-1, 1, 4, -4)
    options = [replace(action, use=replace(use, shift=use.shift + delta)) for delta in shifts]
    if isinstance(action, Arrive):
        options += [replace(action, count=0), replace(action, count=2), replace(action, expects=16)]
    states = (*process.states[:place], replace(state, action=random_.choice(options)), *process.states[place + 1 :])
    made = replace(process, states=states)
    return replace(network_, processes=(*network_.processes[:number], made, *network_.processes[number + 1 :]))


# A consumer that holds stages may wait for an older one without hanging: that it then reads what is not there is no matter of barriers.
@pytest.mark.parametrize("name", [name for name in RIGHT if name != "releases two behind"])
def test_the_certificate_holds_for_no_changed_network(name: str) -> None:
    certificate, random_ = prove(RIGHT[name]), random.Random(5)
    for _ in range(25):
        with pytest.raises(Refused):
            check(changed(RIGHT[name], random_), certificate)


def test_two_warps_that_do_not_meet_can_fall_a_phase_behind() -> None:
    """Only the first warp's thread gives the stage back, so the second may still wait for a phase that two fills have passed."""
    right = RIGHT["same loop"]
    consumer = right.processes[1]
    silent = tuple(
        replace(state, action=replace(state.action, count=0)) if isinstance(state.action, Arrive) else state
        for state in consumer.states
    )
    second = replace(consumer, role="b", warps=(2,), states=silent)
    both = replace(right, processes=(*right.processes, second))
    try:
        certificate = prove(both)
    except Undecided:
        return
    with pytest.raises(Refused, match="seen the phase before"):
        check(both, certificate)


def test_no_run_is_made_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes come again while tests of sizes are told apart; what their run shows is known then."""
    made: list[tuple[object, ...]] = []
    run = Runs.run

    def noted(search: Runs, numbers: Numbers) -> object:
        made.append((search, *sorted(numbers.items()), *sorted((one.name, value) for one, value in numbers.launch.items())))
        return run(search, numbers)

    monkeypatch.setattr(Runs, "run", noted)
    for seed in range(3):
        try:
            prove(right(seed)[1])
        except Undecided:
            pass
    assert len(made) > 10 and len(set(made)) == len(made)


@pytest.mark.parametrize("name", [*RIGHT, "loaded"])
def test_what_sizes_and_functions_are_called_decides_nothing(name: str) -> None:
    """The certificate is the same but for the names, which come in another order than those of the network."""
    first, second = "00112233445566ff" * 4 + ".s32", "ff112233445566aa" * 4 + ".s32"
    hashed = atom(Apply(first, (n, m)))
    loaded = pair([loop(ZERO, hashed, Produce("p"))], [loop(ZERO, hashed, Consume("p"))])
    right_ = RIGHT.get(name, loaded)
    other, back = Names(), Names()
    other.symbols = {Symbol("n"): Symbol("z"), Symbol("m"): Symbol("b")}
    back.symbols = {renamed: symbol for symbol, renamed in other.symbols.items()}
    other.functions = {first: (second, (1, 0))}
    back.functions = {second: (first, (1, 0))}
    assert in_names_of(prove(renamed(right_, other)), back) == prove(right_)


def test_many_cases_cover_all_sizes() -> None:
    """One case after the other, each for what those before it leave."""
    conditions: list[Formula] = [Compare("ge", add(n, Linear(-7 * least))) for least in (9, 8, 6, 5, 4, 3, 1)]
    cases = [(*map(negate, conditions[:number]), one) for number, one in enumerate(conditions)]
    cases.append(tuple(map(negate, conditions)))
    random.Random(3).shuffle(cases)
    assert _covered(System(), cases, [200])
    for number in range(len(cases)):
        assert not _covered(System(), [*cases[:number], *cases[number + 1 :]], [200])


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refuted_is_searched_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither cases nor other schedules are tried for a network that goes wrong at some sizes."""
    searched: list[Search] = []
    nodes = Search.nodes

    def noted(search: Search) -> object:
        searched.append(search)
        return nodes(search)

    monkeypatch.setattr(Search, "nodes", noted)
    with pytest.raises(Undecided):
        prove(WRONG[name], refuted=lambda: refute(WRONG[name])[0] is not None)
    assert len(searched) == 1
