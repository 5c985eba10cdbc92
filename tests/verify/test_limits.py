"""Forms that grow large are folded up; what is not decided so is read with another limit, and the checker takes either."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol import judge as judging
from pipec.protocol.judgement import Judgement
from pipec.protocol.prove import prove
from pipec.record import replace
from pipec.source import Source
from pipec.verify.accept import accept
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.document import Proof
from pipec.verify.reader.read import Reading, read, reading_of
from pipec.verify.reader.readings import readings_of
from pipec.verify.reader.values.interpretation import LIMITS, ROOMY, Interpretation
from pipec.verify.terms import Compare, Symbol, atom

EXAMPLES = Path(__file__).parents[2] / "examples"
# What one limit, or the other, once left open: quotients by 7 of a block's place, and tiles of 192 rows.
DIVIDED = ("gemm_split_k", {"SPLITS": 7})
KERNELS = [
    DIVIDED,
    ("gemm_sm90_split_k", {"SPLITS": 7}),
    ("gemm_split_k_serial", {"SPLITS": 7}),
    ("gemm_sm90_persistent", {"BM": 192, "BN": 160}),
    ("gemm_sm90_persistent", {"BM": 192, "BN": 96}),
]


def compiled(name: str, constants: dict[str, int]) -> tuple[str, Proof]:
    state = compile_source(Source(name, (EXAMPLES / f"{name}.pipe").read_text()), Options(constants=constants))
    assert state.ptx is not None and not state.failed
    (proof,) = state.certificates.values()
    return state.ptx, proof


@pytest.mark.parametrize(("name", "constants"), KERNELS)
def test_neither_limit_is_a_cliff(name: str, constants: dict[str, int]) -> None:
    ptx, proof = compiled(name, constants)
    assert accept(ptx, proof).kernel == proof.certificate.kernel


WIDE = """
kernel k(x: tensor[f32, M, K], splits: i32):
    assume(K > 0)
    grid(ceildiv(M, 64), splits)
    per = ceildiv(ceildiv(K, 64), splits) * 64
    start = block.y * per
    p = ProducerConsumerPipeline(stages=3)
    role a(warps=1) produces p:
        for k in range(start, min(K, start + per), 64):
            p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for k in range(ceildiv(min(K, start + per) - start, 64)):
            p.consumer_signal_and_step()
"""


def wide() -> str:
    state = compile_source(Source("k.pipe", WIDE), Options("sm_90a"))
    assert state.ptx is not None
    return state.ptx


def test_another_limit_is_read_only_where_it_makes_a_difference() -> None:
    ptx = wide()
    first, *others = readings_of(ptx)
    limits = [one.how.limit for one in others]
    assert first.how.limit == LIMITS[0] and limits == [ROOMY, *LIMITS[1:]]
    assert [one.network for one in others] == [read(ptx, None, Interpretation(limit)) for limit in limits]
    assert all(one.network != first.network for one in others)
    for small in (("elementwise", {}), DIVIDED):
        assert len([*readings_of(compiled(*small)[0])]) == 1


def test_a_proof_of_another_text_is_refused_with_both() -> None:
    ptx, proof = compiled(*DIVIDED)
    wrong, waits = re.subn(r"(try_wait\.parity\S+ \t?%p\d+, \[[^]]+\]), %r\d+;", r"\1, 0;", ptx)
    assert waits
    with pytest.raises(Refused):
        accept(wrong, proof)


def test_a_condition_that_no_launch_can_check_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the first reading needs one, the proof of the second is taken."""
    ptx, _ = compiled(*DIVIDED)
    judged = judging.by_search

    def assuming(reading: Reading, *rest: Any, **named: Any) -> Judgement:
        found = judged(reading, *rest, **named)
        assert found.certificate is not None
        if reading.how.limit == LIMITS[1]:
            return found
        return replace(
            found, certificate=replace(found.certificate, assumes=(Compare("ge", atom(Symbol("gemm_split_k_dim_K"))),))
        )

    monkeypatch.setattr(
        judging, "readings_of", lambda ptx, name: (reading_of(ptx, name, Interpretation(limit)) for limit in LIMITS)
    )
    monkeypatch.setattr(judging, "by_folding", lambda *_: None)
    monkeypatch.setattr(judging, "by_search", assuming)
    unasked = judging.judge(ptx, "gemm_split_k")
    assert unasked.certificate is not None and unasked.certificate.assumes
    asked = judging.judge(ptx, "gemm_split_k", asked=lambda assumed: not assumed)
    assert asked.certificate is not None and not asked.certificate.assumes


QUOTIENT = """
kernel k(a: tensor[f32, H, KEPT], d: tensor[f32, H, KEPT]):
    assume(KEPT > 0)
    grid(1)
    input = InputTilePipeline(TilePayload(a=tile[f32, 64, 32]), stages=2)

    role load(warps=1) produces input:
        for h in range(H // KEPT):
            with input.produce() as s:
                tma.load(s.a, a[h, 0])

    role keep(warps=4) consumes input:
        for h in range(H // KEPT):
            with input.consume() as s:
                store.direct(d[h, 0], s.a)
"""


@pytest.mark.parametrize("limit", LIMITS)
def test_a_bound_that_is_just_small_enough_can_be_compared(limit: int) -> None:
    """The quotient of two sizes is no larger than a limit, but its comparison with a counter is: folded up, that says nothing of both."""
    state = compile_source(Source("k.pipe", QUOTIENT), Options())
    network = read(state.ptx or "", None, Interpretation(limit))
    check(network, prove(network))
