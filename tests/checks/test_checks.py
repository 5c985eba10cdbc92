"""The checks as a whole: right kernels pass, checking is fast, several mistakes are told at once."""

import pytest
from diagnose import diagnose
from examples.catalogue import Case, cases, proved
from hand_built import Gemm

from pipec.checks import check_kernel, check_plan
from pipec.checks.stages.fill_counts import UNBOUNDED, count_fills
from pipec.checks.summary import collect
from pipec.diag.message import Sink
from pipec.isa.targets import TARGETS
from pipec.kir.build import build
from pipec.kir.plan.derive import plan
from pipec.sema import tree

TARGET = TARGETS["sm_100a"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_examples_are_right(case: Case) -> None:
    assert proved(case).diagnostics == []


def test_the_hand_built_kernel_is_right() -> None:
    sink = Sink()
    kernel = build(Gemm().kernel())
    check_kernel(kernel, TARGET, sink)
    check_plan(plan(kernel, TARGET), sink)
    assert sink.diagnostics == []


def codes(*bodies: str) -> list[str]:
    """The codes for a kernel whose compute role has this body; E06xx aside, for some bodies consume more than is filled."""
    text = RING + "".join(f"            {line}\n" for line in bodies)
    return [diagnostic.code for diagnostic in diagnose("ring.pipe", text) if not diagnostic.code.startswith("E06")]


RING = """\
kernel scale(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=4)

    role load(warps=1) produces ring:
        for k in range(ceildiv(N, 32)):
            with ring.produce() as s:
                tma.load(s.x, x[block.x * 128, k * 32])

    role compute(warps=4) consumes ring:
        for k in range(ceildiv(N, 32)):
"""


@pytest.mark.parametrize(
    "body",
    [
        ("with ring.consume() as s:", "    store(y[0, k * 32], s.x)"),
        ("s = ring.acquire_consumer()", "store(y[0, k * 32], s.x)", "s.release()"),
        ("s = ring.acquire_consumer()", "store(y[0, k * 32], s.x)", "s.arrive()", "s.release()"),
        ("s = ring.acquire_consumer()", "store(y[0, k * 32], s.x)", "s.arrive()", "s.release_without_signal()"),
        ("with ring.consume_explicit() as s:", "    store(y[0, k * 32], s.x)", "    if lane_id() < 4:", "        s.arrive()"),
        (
            "s = ring.acquire_consumer()",
            "if k > 3:",
            "    store(y[0, k * 32], s.x)",
            "    s.release()",
            "else:",
            "    s.release()",
        ),
        ("s = ring.acquire_consumer()", "t = s.x * 2.0", "for i in range(2):", "    store(y[i, k * 32], t)", "s.release()"),
        ("s = ring.acquire_consumer()", "store(y[0, k * 32], s.x)", "s.release()", "i = s.index() if False else 0")[:3],
        ("if k > 3:", "    with ring.consume() as s:", "        store(y[0, k * 32], s.x)"),
        ("s = ring.acquire_consumer()", "t = ring.acquire_consumer()", "store(y[0, 0], s.x + t.x)", "s.release()", "t.release()"),
        ("i = k", "while i > 9:", "    i -= 1", "    with ring.consume() as s:", "        store(y[0, k * 32], s.x)"),
    ],
)
def test_right_ways_to_hand_over(body: tuple[str, ...]) -> None:
    assert codes(*body) == []


def test_index_after_release() -> None:
    assert codes("s = ring.acquire_consumer()", "store(y[0, 0], s.x)", "s.release()", "store(y[s.index(), 0], y2)") == ["E0201"]
    body = ("s = ring.acquire_consumer()", "store(y[0, 0], s.x)", "s.release()", "if s.index() > 2:", "    pass")
    assert codes(*body) == ["E0304"]


def test_a_poisoned_stage_is_reported_once() -> None:
    body = ("s = ring.acquire_consumer()", "s.release()", "store(y[0, 0], s.x)", "store(y[0, 0], s.x)", "s.release()")
    assert codes(*body) == ["E0304"]


def test_independent_mistakes_are_reported_together() -> None:
    body = ("s = ring.acquire_consumer()", "t = ring.acquire_consumer()", "store(y[0, 0], s.x + t.x)")
    assert codes(*body) == ["E0301", "E0301"]


def test_release_in_both_branches_and_after() -> None:
    body = (
        "s = ring.acquire_consumer()",
        "store(y[0, 0], s.x)",
        "if k > 1:",
        "    s.release()",
        "else:",
        "    s.release()",
        "s.release()",
    )
    assert codes(*body) == ["E0302"]


def test_signal_in_inner_loop_only() -> None:
    body = ("s = ring.acquire_consumer()", "store(y[0, 0], s.x)", "for i in range(3):", "    s.arrive()", "s.release()")
    assert codes(*body) == ["E0313"]


def fills(*load_body: tree.Statement, gemm: Gemm) -> list[tuple[int, int]]:
    role = collect(build(gemm.kernel(load=load_body))).roles[0]
    counts = count_fills(role)[gemm.s]
    return [(found.fewest, found.most) for found in (counts[gemm.s, tile, (0, tile.rows)] for tile in (gemm.tile_a, gemm.tile_b))]


def test_fills_are_counted_over_paths() -> None:
    gemm = Gemm()
    (loop,) = gemm.load_body()
    assert isinstance(loop, tree.For)
    acquire, load_a, load_b, release = loop.body
    condition = gemm.condition("k in range", "block.x", "<", 4)
    branch = tree.If(condition, (load_b,), (), condition.span)
    assert fills(acquire, load_a, load_b, release, gemm=gemm) == [(1, 1), (1, 1)]
    assert fills(acquire, load_a, branch, release, gemm=gemm) == [(1, 1), (0, 1)]
    assert fills(acquire, load_a, load_b, branch, release, gemm=gemm) == [(1, 1), (1, 2)]
    assert fills(acquire, load_a, gemm.loop(gemm.k, load_b), release, gemm=gemm) == [(1, 1), (0, UNBOUNDED)]
    counted = tree.For(gemm.k, gemm.number(0), gemm.number(3), 1, (load_b,), gemm.k.span)
    assert fills(acquire, load_a, counted, release, gemm=gemm) == [(1, 1), (3, 3)]
