"""Changed barrier instructions: a mutant held against the certificate of the right text is refused, or as good as it, with a reason.

A sample; `python benchmarks/proof/kill_matrix.py` makes all changes to all examples: benchmarks/results/kill_matrix.json.
"""

import json
import random
import re
from functools import cache
from pathlib import Path

import pytest
from samples import some

from pipec.protocol.judge import judge
from pipec.record import replace
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.network import Arrive, Edge, End, Network, Process, Ring, State, Use
from pipec.verify.network import Test as Branch
from pipec.verify.reader.read import read
from pipec.verify.reader.values.surroundings import VOTED
from pipec.verify.terms import Compare, Symbol, atom
from tests.verify.equivalents import REASONS, judged, likeness_of, reason_for
from tests.verify.mutations import kernel_text, mutants

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
RESULTS = ROOT / "benchmarks" / "results" / "kill_matrix.json"
# Of each kind of process and barrier one; a change takes 30 ms where the kernel is large.
EXAMPLES = ("gemm", "gemm_sm90", "gemm_2cta", "gemm_peek", "rms_norm_cluster", "elementwise", "role_pipeline", "seed_pages")
EACH = 20


@cache
def proved(example: str) -> tuple[str, Network, Certificate]:
    """The text of an example's first kernel, with what proves it."""
    ptx = (GOLDEN / f"{example}.ptx").read_text(encoding="utf-8")
    name = ptx.split(".entry ")[1].split("(")[0]
    text = kernel_text(ptx, name)
    found = judge(text, name)
    assert found.network is not None and found.certificate is not None, found.why
    return text, found.network, found.certificate


@pytest.mark.parametrize("example", some("mutated", EXAMPLES, 0.6))
def test_changed_barrier_instructions_are_refused(example: str) -> None:
    text, original, certificate = proved(example)
    check(original, certificate)
    lines, every = text.split("\n"), list(mutants(text))
    assert len({mutant.text for mutant in every}) > 100 and text not in {mutant.text for mutant in every}
    refused = 0
    for mutant in random.Random(example).sample(every, EACH):
        outcome, network = judged(mutant, certificate)
        refused += outcome != "accepted"
        if outcome == "accepted":
            assert network is not None
            instruction = lines[mutant.line - 1].strip()
            assert reason_for(mutant, instruction, network, original) is not None, (mutant.line, mutant.change, instruction)
    assert refused > EACH // 2


@pytest.mark.parametrize("example", some("mutated", EXAMPLES, 0.6))
def test_signals_and_waits_of_pipelines_may_not_change(example: str) -> None:
    """None of the reasons is about a wait that is left out, a parity, a number of bytes, or a signal too few or too many."""
    text, _, certificate = proved(example)
    lines = text.split("\n")
    changes = re.compile(r"removed|twice|other parity|bytes .*|moved .*|branch (removed|turned)")
    told = [
        mutant
        for mutant in mutants(text)
        if changes.fullmatch(mutant.change) and re.search(r"try_wait|mbarrier\.arrive|commit|complete_tx", lines[mutant.line - 1])
    ]
    for mutant in random.Random(example).sample(told, min(len(told), EACH // 2)):
        if mutant.change == "twice" and "try_wait" in lines[mutant.line - 1]:
            continue  # who looks twice waits once
        assert judged(mutant, certificate)[0] != "accepted", (mutant.line, mutant.change, lines[mutant.line - 1])


def test_every_change_that_was_accepted_has_a_reason() -> None:
    """Of the whole matrix, as it was recorded; and every reason is needed."""
    figures = json.loads(RESULTS.read_text(encoding="utf-8"))["figures"]
    rows = [kernel["barriers"] for kernel in figures["kernels"].values()]
    assert len(rows) > 50 and sum(row["changes"] for row in rows) > 10_000
    reasons = {one["reason"] for row in rows for one in row["which"]}
    assert reasons - {""} <= {reason.words for reason in REASONS}
    assert figures["totals"]["barriers"]["accepted without a reason"] == sum(
        one["times"] for row in rows for one in row["which"] if not one["reason"]
    )


def test_likeness_looks_at_what_is_done() -> None:
    """Another state that is come upon first, another line, an idle barrier: the same. Another step: not."""
    text, original, certificate = proved("gemm")
    assert likeness_of(read("\n" + text), original) == "the same"
    others = [network for mutant in mutants(text) if mutant.change == "twice" and (network := judged(mutant, certificate)[1])]
    likenesses = [likeness_of(network, original) for network in others]
    assert likenesses.count("another") > 5 and likenesses.count("the same") > 3


def _choice(first: int, then: tuple[int, int], *facts: Symbol) -> Network:
    """A vote, and an arrival on each way (how many) before the end."""
    vote = Compare("ne", atom(Symbol(f"0:{VOTED}{first} of 0")))
    arrivals = [State(9, Arrive(Use(0, 0, 0), Edge(3), count)) for count in then]
    states = (State(first, Branch(vote, Edge(1), Edge(2))), *arrivals, State(10, End()))
    process = Process("main", 32, (0,), (0,), 1, states)
    return Network("k", (Ring("mbarrier", (0,), 1),), (process,), (vote, *(Compare("ge", atom(one)) for one in facts)))


def test_likeness_forgets_the_line_of_a_vote_but_not_which_it_is() -> None:
    assert likeness_of(_choice(5, (1, 2)), _choice(6, (1, 2))) == "the same"
    other = Symbol(f"0:{VOTED}7 of 0")
    assert likeness_of(_choice(5, (1, 2), other), _choice(6, (1, 2), other)) == "the same"
    assert likeness_of(_choice(5, (1, 2), other), _choice(8, (1, 2), other)) != "the same"


def test_likeness_takes_places_for_one_that_do_the_same() -> None:
    both, other = _choice(5, (1, 1)), _choice(5, (1, 2))
    process = both.processes[0]
    vote, *rest = process.states
    assert isinstance(vote.action, Branch)
    joined = replace(process, states=(replace(vote, action=replace(vote.action, no=Edge(1))), *rest))
    # With two processes: one alone is never "another".
    one = replace(both, processes=(joined, joined))
    assert likeness_of(replace(both, processes=(process, process)), one) == "unfolded"
    assert likeness_of(replace(both, processes=(*other.processes, process)), one) == "another"
