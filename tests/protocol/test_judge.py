"""How often the checker is asked, and of what."""

from pathlib import Path

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol import judgement
from pipec.protocol.effort import Effort
from pipec.protocol.prove import prove
from pipec.protocol.search import cases
from pipec.source import Source
from pipec.verify.checker.certificate import Case, Certificate
from pipec.verify.checker.check import check
from pipec.verify.network import Network
from pipec.verify.reader.read import reading_of

EXAMPLES = Path(__file__).parents[2] / "examples"
KERNEL = """kernel k(n: i32, m: i32, z: tensor[f32, M, N]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
        for i in range({bound}):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for i in range({bound}):
            p.consumer_signal_and_step()
"""


@pytest.mark.parametrize(("bound", "assumes"), [("n", False), ("0, m, 4", True)])
def test_a_proof_is_checked_once(monkeypatch: pytest.MonkeyPatch, bound: str, assumes: bool) -> None:
    """Also one that assumes something: of the text whose launches keep to it."""
    asked: list[Certificate] = []
    check = judgement.check

    def counted(network: Network, certificate: Certificate) -> Network:
        asked.append(certificate)
        return check(network, certificate)

    monkeypatch.setattr(judgement, "check", counted)
    state = compile_source(Source("k.pipe", KERNEL.format(bound=bound)), Options("sm_100a"))
    assert state.plans is not None
    assert [one.outcome for one in state.protocol.values()] == ["proved"]
    assert bool(state.plans[0].interface.conditions) == assumes
    (certificate,) = asked
    assert not certificate.assumes and state.certificates["k"].certificate == certificate


def test_kernels_that_the_checker_refuses_are_not_called_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(network: Network, certificate: Certificate) -> None:
        raise judgement.Refused("no")

    monkeypatch.setattr(judgement, "check", refusing)
    for bound in ("n", "0, m, 4"):
        state = compile_source(Source("k.pipe", KERNEL.format(bound=bound)), Options("sm_100a", allow_undecided=True))
        assert [one.outcome for one in state.protocol.values()] == ["open"] and not state.certificates


def test_another_reading_is_tried_before_other_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the first schedule leads to a proof, but under a condition that no launch can check, it is the reading that needs it."""
    tried: list[cases.Splitter] = []
    whole = cases.Splitter.whole

    def counted(splitter: cases.Splitter) -> Case:
        tried.append(splitter)
        return whole(splitter)

    monkeypatch.setattr(cases.Splitter, "whole", counted)
    monkeypatch.setattr("pipec.protocol.judge.by_folding", lambda *_: None)
    path = EXAMPLES / "gemm_sm90_stream_k.pipe"
    state = compile_source(Source(path.name, path.read_text()), Options())
    assert [one.outcome for one in state.protocol.values()] == ["proved", "proved"]
    assert len(tried) == 3  # two of its first kernel


@pytest.mark.parametrize("example", ["gemm_grouped", "gemm_sm90_grouped", "gemm_sm90_gathered"])
def test_a_number_of_turns_of_which_nobody_else_asks_costs_little(example: str) -> None:
    """A loop by a step known at launch, over as many tiles as memory says: what sign that quotient has decides nothing, but to ask took
    longer than the search has, in the text as it is read first."""
    network = reading_of((EXAMPLES.parent / "tests" / "golden" / f"{example}.ptx").read_text()).network
    check(network, prove(network, Effort(combinations=200_000)))
