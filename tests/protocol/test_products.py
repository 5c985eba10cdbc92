"""Loops inside of each other against one over the product of their bounds: proved under the condition that the product does not wrap."""

import json

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.judge import judge
from pipec.protocol.prove import prove
from pipec.record import replace
from pipec.source import Source
from pipec.verify.checker.certificate import certificate_of, data_of
from pipec.verify.checker.check import check
from pipec.verify.checker.configuration import Refused
from pipec.verify.data import Malformed, formula_data, formula_of
from pipec.verify.reader.read import reading_of
from pipec.verify.terms import Compare, Symbol, atom, product

SOURCE = """kernel k(y: tensor[f32, M, N]):
    grid(1)
    p = ProducerConsumerPipeline(stages={stages})
    role a(warps=1) produces p:
        for i in range({outer}):
            for j in range({inner}):
                p.producer_signal_and_step()
    role b(warps=1) consumes p:
        for t in range({flat}):
            p.consumer_signal_and_step()
"""


def compiled(outer: str, inner: str, flat: str, stages: int = 2):  # type: ignore[no-untyped-def]
    source = SOURCE.format(outer=outer, inner=inner, flat=flat, stages=stages)
    return compile_source(Source("flat.pipe", source), Options("sm_100a", allow_undecided=True))


@pytest.mark.parametrize(
    ("outer", "inner", "flat"),
    [
        ("M", "N", "M * N"),
        ("N", "M", "M * N"),
        ("M", "M", "M * M"),
        ("2 * M", "N", "N * M * 2"),
        ("M + 1", "N", "M * N + N"),
        ("12", "N", "12 * N"),
        ("ceildiv(M, 64)", "ceildiv(N, 128)", "ceildiv(M, 64) * ceildiv(N, 128)"),
    ],
)
def test_nested_loops_against_a_flat_one(outer: str, inner: str, flat: str) -> None:
    state = compiled(outer, inner, flat)
    assert state.protocol["k"].outcome == "proved", state.protocol["k"]


@pytest.mark.parametrize(
    ("outer", "inner", "flat"),
    [
        ("M", "N", "M * N + 1"),
        ("M", "N", "M * M"),
        ("M", "N + 1", "M * N"),
        ("M", "N", "M * N - N"),
        ("M - 1", "N", "M * N"),
        ("ceildiv(M, 64)", "N // 128", "ceildiv(M, 64) * ceildiv(N, 128)"),
        ("M", "N", "M + N"),
    ],
)
def test_other_bounds_are_not_proved(outer: str, inner: str, flat: str) -> None:
    state = compiled(outer, inner, flat)
    assert state.failed or state.protocol["k"].outcome != "proved"


DEEP = """kernel k(x: tensor[f32, M, N], y: tensor[f32, K, H]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p:
{nested}
    role b(warps=1) consumes p:
        for t in range({flat}):
            p.consumer_signal_and_step()
"""


def deep(bounds: tuple[str, ...], flat: str) -> str:
    nested = [f"{'    ' * depth}for i{depth} in range({bound}):" for depth, bound in enumerate(bounds, 2)]
    nested.append(f"{'    ' * (2 + len(bounds))}p.producer_signal_and_step()")
    source = DEEP.format(nested="\n".join(nested), flat=flat)
    return compile_source(Source("flat.pipe", source), Options("sm_100a", allow_undecided=True)).protocol["k"].outcome


@pytest.mark.sample(0.5)
@pytest.mark.parametrize(
    ("bounds", "right", "wrong"),
    [
        (("M", "N", "K"), "M * N * K", "M * N * N"),
        (("M", "N", "K"), "M * (N * K)", "M * (N * K) + K"),
        (("M", "N", "3"), "3 * M * N", "3 * M * N + M"),
        (("M // 3", "ceildiv(H, 5)"), "M // 3 * ceildiv(H, 5)", "M // 3 * ceildiv(H, 4)"),
        (("ceildiv(M, 3)", "H"), "ceildiv(M, 3) * H", "M // 3 * H"),
    ],
)
def test_deeper_loops_and_quotients(bounds: tuple[str, ...], right: str, wrong: str) -> None:
    assert deep(bounds, right) == "proved"
    assert deep(bounds, wrong) != "proved"


def test_the_proof_needs_its_condition() -> None:
    """Where the product wraps the flat loop is shorter than the nested ones: without the condition the kernel does hang."""
    ptx = compiled("M", "N", "M * N").ptx
    network = reading_of(ptx, "k").network
    bare = replace(network, facts=tuple(fact for fact in network.facts if "mul.lo" not in repr(fact)))
    found = judge(ptx, "k")
    assert found.certificate is not None
    certificate = prove(bare)
    assert any("mul.lo.s64" in repr(one) for one in certificate.assumes)
    check(replace(bare, facts=(*bare.facts, *certificate.assumes)), certificate)
    with pytest.raises(Refused):
        check(bare, certificate)
    again = certificate_of(json.loads(json.dumps(data_of(certificate))))
    check(replace(bare, facts=(*bare.facts, *certificate.assumes)), again)


def test_products_as_data() -> None:
    x, y = atom(Symbol("x")), atom(Symbol("y"))
    square = Compare("ge", product(product(x, y), y))
    assert formula_of(formula_data(square)) == square
    for wrong in (
        ["product", "x"],
        ["product", "y", "x"],
        ["product", "x", "x", "x", "x"],
        ["product", ["product", "x", "y"], "y"],
    ):
        with pytest.raises(Malformed):
            formula_of(["ge", [0, [1, wrong]]])
