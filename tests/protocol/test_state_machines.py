"""One loop over the blocks of K of all tiles that goes to the next tile itself, `k += 1; if k == steps: k = 0; t += grid.x`, against loops
over tiles and blocks of K: the machine has no branch for that, but chooses the next numbers."""

from itertools import product

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.restating.branched import branched
from pipec.source import Source
from pipec.verify.checker.configuration import Refused
from pipec.verify.checker.restated import restated
from pipec.verify.logic import System
from pipec.verify.network import Edge, End, Network, Process, State
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Compare, Formula, Linear, Symbol, add, atom, choose, scale
from tests.verify.interpret import holds, value

KERNEL = """
kernel k(y: tensor[f32, M, N], n: i32):
    assume(N > 0 and n > 0)
    total = {total}
    grid(max(1, min(total, gpu.multiprocessors)))
    steps = {steps}
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
{a}
    role b(warps=1) consumes p:
{b}
"""
NESTED = "for t in range(block.x, total, grid.x):\n    for k in range(steps):\n        STAGE"
BEGIN = "t = block.x\nk = 0\nwhile t < total:\n    STAGE\n"
FLAT = {
    "by one": BEGIN + "    k += 1\n    if k == steps:\n        k = 0\n        t += grid.x",
    "at the end or beyond": BEGIN + "    k += 1\n    if k >= steps:\n        k = 0\n        t += grid.x",
    "asked before": BEGIN + "    if k + 1 < steps:\n        k += 1\n    else:\n        k = 0\n        t += grid.x",
    "chosen": BEGIN + "    last = k == steps - 1\n    k = 0 if last else k + 1\n    t = t + grid.x if last else t",
    "down": "t = block.x\nk = steps - 1\nwhile t < total:\n    STAGE\n    if k == 0:\n        k = steps - 1\n        t += grid.x\n"
    "    else:\n        k -= 1",
    "from 1": BEGIN.replace("k = 0", "k = 1")
    + "    if k == steps:\n        k = 1\n        t += grid.x\n    else:\n        k += 1",
    "a number of turns": "t = block.x\nk = 0\nfor i in range(ceildiv(total - block.x, grid.x) * steps):\n    STAGE\n    k += 1\n"
    "    if k == steps:\n        k = 0\n        t += grid.x",
}
ELEMENTS = BEGIN + "    k += 64\n    if k >= N:\n        k = 0\n        t += grid.x"


def outcome(a: str, b: str, total: str = "M", steps: str = "ceildiv(N, 64)", text: str = KERNEL) -> str:
    def lines(body: str, stage: str) -> str:
        return "\n".join("        " + line for line in body.replace("STAGE", stage).split("\n"))

    roles = {"a": lines(a, "p.producer_signal_and_step()"), "b": lines(b, "p.consumer_signal_and_step()")}
    source = Source("k.pipe", text.format(total=total, steps=steps, **roles))
    return compile_source(source, Options("sm_100a", allow_undecided=True)).protocol["k"].outcome


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize(("total", "steps"), [("M", "ceildiv(N, 64)"), ("ceildiv(M, 128) * ceildiv(N, 64)", "n")])
def test_it_is_proved(name: str, total: str, steps: str) -> None:
    assert outcome(FLAT[name], NESTED, total, steps) == "proved"


@pytest.mark.parametrize("name", FLAT)
def test_the_other_way_round_it_is_proved_too(name: str) -> None:
    assert outcome(NESTED, FLAT[name]) == "proved"


@pytest.mark.parametrize(
    ("one", "other"), [(ELEMENTS, NESTED), (FLAT["by one"], FLAT["asked before"]), (FLAT["chosen"], ELEMENTS)]
)
def test_it_is_proved_of_other_pairs(one: str, other: str) -> None:
    assert outcome(one, other) == "proved"


WRONG = {
    "a block of K less": ("k == steps", "k == steps - 1"),
    "a block of K more": ("k == steps", "k == steps + 1"),
    "from the second block on": ("        k = 0", "        k = 1"),
    "every other tile": ("t += grid.x", "t += 2 * grid.x"),
    "a tile more": ("t < total", "t < total + 1"),
    "the next block's tiles": ("t = block.x\n", "t = block.x + 1\n"),
    "never again from the start": ("        k = 0\n", ""),
}


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    made = FLAT["by one"].replace(*WRONG[name])
    assert made != FLAT["by one"]
    assert outcome(made, NESTED) != "proved"


def test_without_a_block_of_k_it_hangs() -> None:
    """The one loop fills a stage where the others take none."""
    assert outcome(FLAT["by one"], NESTED, text=KERNEL.replace("N > 0 and n > 0", "n > 0")) == "refuted"


K, T, STEPS, G = (atom(Symbol(name)) for name in ("0:%k", "0:%t", "steps", "g"))
LAST = Compare("eq", add(add(K, Linear(1)), STEPS, -1))


def machine(last: Formula, start: Linear, step: int) -> Process:
    """The loop, whose test is about the number that has been chosen."""
    onwards = choose(last, add(T, G), T)
    begin = ((Symbol("0:%k"), start), (Symbol("0:%t"), Linear(0)))
    values = ((Symbol("0:%k"), choose(last, start, add(K, Linear(step)))), (Symbol("0:%t"), onwards))
    states = (
        State(1, Branch(Compare("ge", Linear(0)), Edge(1, begin), Edge(1, begin))),
        State(2, Branch(Compare("ge", add(Linear(7), onwards, -1)), Edge(1, values), Edge(2)), (Symbol("0:%k"), Symbol("0:%t"))),
        State(3, End()),
    )
    return Process("a", 32, (0,), (0,), 0, states)


def taken(process: Process, sizes: dict[str, int], most: int = 60) -> list[tuple[int, int]]:
    """The counters wherever they are given values."""
    values, at, found = dict(sizes), process.start, list[tuple[int, int]]()
    while len(found) < most and isinstance(action := process.states[at].action, Branch):
        edge = action.yes if holds(action.condition, values) else action.no
        values |= {symbol.name: value(form, values) for symbol, form in edge.values if form is not None}
        found += [(values.get("0:%k*", values["0:%k"]), values.get("0:%t*", values["0:%t"]))] if edge.values else []
        at = edge.target
    return found


MACHINES = {
    "up": machine(LAST, Linear(0), 1),
    "up, or beyond": machine(Compare("ge", LAST.form), Linear(0), 1),
    "down": machine(Compare("eq", K), add(STEPS, Linear(-1)), -1),
    "by twos": machine(Compare("ge", LAST.form), Linear(0), 2),
    "the size in front": machine(Compare("eq", scale(LAST.form, -1)), Linear(0), 1),
}


@pytest.mark.parametrize("name", MACHINES)
def test_with_branches_it_does_the_same(name: str) -> None:
    process, facts = MACHINES[name], (Compare("ge", add(STEPS, Linear(-1))), Compare("ge", add(G, Linear(-1))))
    network, other = Network("k", (), (process,), facts), branched(0, process)
    assert other is not None and len(other.places) > len(process.states)
    (made,) = restated(network, [other], System(facts)).processes
    for steps, g in product(range(1, 5), range(1, 4)):
        sizes = {"steps": steps, "g": g}
        assert taken(made, sizes) == taken(process, sizes), sizes


def test_a_counter_that_may_pass_its_last_value_is_not_restated() -> None:
    process = MACHINES["up"]
    other = branched(0, process)
    assert other is not None
    with pytest.raises(Refused):
        restated(Network("k", (), (process,), ()), [other], System())


def test_by_twos_the_last_value_may_be_passed() -> None:
    assert branched(0, machine(LAST, Linear(0), 2)) is None
