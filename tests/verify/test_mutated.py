"""Changed barrier instructions: a mutant held against the certificate of the right text is refused, or as good as it, with a reason.

A sample; `python benchmarks/kill_matrix.py` makes all changes to all examples, and benchmarks/results/kill_matrix.json has what it found.
"""

import json
import random
import re
from functools import cache
from pathlib import Path

import pytest
from samples import some

from pipec.protocol.judge import judge
from pipec.verify.checker.certificate import Certificate
from pipec.verify.checker.check import check
from pipec.verify.network import Network
from pipec.verify.reader.read import read
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
