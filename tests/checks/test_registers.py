"""The register model is ptxas's own: what it allows to the warps of a block, what a wgmma takes, and when MMAs wait for each other."""

import pytest

from pipec.diag.message import Sink
from pipec.driver import Compilation, Options, compile_source
from pipec.isa.targets import TARGETS
from pipec.ptx.assemble import assemble
from pipec.source import Source

SOURCE = """
kernel k(a: tensor[{ab}, M, K], b: tensor[{ab}, N, K], d: tensor[{acc}, M, N]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[{ab}, {rows}, 32], b=tile[{ab}, {columns}, 32]), stages=2)
    role load(warps=1{few}) produces input:
        for k in range(ceildiv(K, 32)):
            with input.produce() as s:
                tma.load(s.a, a[0, k * 32])
                tma.load(s.b, b[0, k * 32])
    role compute(warps={warps}{many}) consumes input:
        acc = accumulator({acc}, {rows}, {columns})
        for k in range(ceildiv(K, 32)):
            with input.consume() as s:
                mma(acc, s.a, s.b)
        store.direct(d[0, 0], acc)
"""

# Warps that compute, blocks of 64 rows for each warpgroup, budgets of the two roles, accumulator: each reaches its limit at some width.
FORMS = [
    (12, 1, None, "bf16", "f32"),
    (16, 1, None, "bf16", "f32"),
    (8, 2, None, "bf16", "f32"),
    (4, 3, None, "bf16", "f32"),
    (12, 2, None, "f16", "f16"),
    (12, 1, (24, 160), "bf16", "f32"),
    (8, 2, (24, 240), "bf16", "f32"),
]


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_the_widest_tile_that_passes_is_taken_by_ptxas(form: tuple[int, int, tuple[int, int] | None, str, str]) -> None:
    """And no wider one would be: past the check, 16 columns more are rejected, or make MMAs wait for each other."""
    warps, blocks, budgets, ab, acc = form
    few, many = (f", registers={one}" for one in budgets) if budgets else ("", "")

    def compiled(columns: int, until: str = "prove", *, unchecked: bool = False) -> Compilation:
        text = SOURCE.format(rows=16 * warps * blocks, columns=columns, warps=warps, few=few, many=many, ab=ab, acc=acc)
        return compile_source(Source("k.pipe", text), Options("sm_90a", unchecked=unchecked), until)

    # From above, since each width is compiled anew: the first that passes is the widest.
    widest = next(columns for columns in range(256, 7, -8) if not compiled(columns, "limits").failed)
    assert not compiled(widest).failed
    assembled = assemble(str(compiled(widest).ptx), "sm_90a", Sink(), tool="ptxas")
    assert assembled is not None and not assembled.losses, widest
    if widest + 16 <= 256:
        assert [one.code for one in compiled(widest + 16, "limits").diagnostics] in (["E0742"], ["E0745"])
        beyond = assemble(str(compiled(widest + 16, unchecked=True).ptx), "sm_90a", Sink(), tool="ptxas")
        assert beyond is None or beyond.losses


@pytest.mark.parametrize(
    ("warps", "registers"), [(1, 255), (8, 255), (9, 168), (12, 168), (13, 128), (16, 128), (17, 96), (32, 64)]
)
def test_warps_come_in_fours(warps: int, registers: int) -> None:
    assert TARGETS["sm_90a"].registers_per_thread(32 * warps) == registers


THREE = """
kernel k(a: tensor[f16, M, K], b: tensor[f16, N, K], d: tensor[f32, M, N], e: tensor[f16, M, N]):
    grid(1)
    left = InputTilePipeline(TilePayload(a=tile[f16, 64, 64], b=tile[f16, 256, 64]), stages=1)
    right = InputTilePipeline(TilePayload(b=tile[f16, 144, 64], c=tile[f16, {columns}, 64]), stages=1)
    role load(warps=1, registers=24) produces left, right:
        with left.produce() as s, right.produce() as t:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])
            tma.load(t.b, b[256, 0])
            tma.load(t.c, b[400, 0])
    role compute(warps=4, registers=232) consumes left, right:
        x = accumulator(f32, 64, 256)
        y = accumulator(f32, 64, 144)
        z = accumulator(f16, 64, {columns})
        with left.consume() as s, right.consume() as t:
            mma(x, s.a, s.b)
            mma(y, s.a, t.b)
            mma(z, s.a, t.c)
        store.direct(d[0, 0], x)
        store.direct(d[0, 256], y)
        store.direct(e[0, 0], z)
"""


@pytest.mark.parametrize(("columns", "codes"), [(24, []), (32, ["E0742"])])
def test_accumulators_may_take_all_but_what_products_need(columns: int, codes: list[str]) -> None:
    """128, 72 and a quarter of the columns: of 232 registers 206 are left to them."""
    state = compile_source(Source("k.pipe", THREE.format(columns=columns)), Options("sm_90a"))
    assert [one.code for one in state.diagnostics] == codes


ONE_BY_ONE = """
kernel k(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[bf16, 3, M, N]):
    grid(ceildiv(M, 128), ceildiv(N, 256))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 256, 64]), stages=4)

    role load(warps=1, registers=24) produces input:
        for i in range(3):
            for k in range(ceildiv(K, 64)):
                with input.produce() as s:
                    tma.load(s.a, a[block.x * 128, k * 64])
                    tma.load(s.b, b[block.y * 256, k * 64])

    role compute(warps=8, registers=240) consumes input:
"""
PRODUCT = """
        {name} = accumulator(f32, 128, 256)
        for k in range(ceildiv(K, 64)):
            with input.consume() as s:
                mma({name}, s.a, s.b)
        store(d[{number}, block.x * 128, block.y * 256], cast[bf16]({name}))
"""


def test_accumulators_that_follow_each_other_share_registers() -> None:
    """Each takes more than half of them."""
    text = ONE_BY_ONE + "".join(PRODUCT.format(name=name, number=number) for number, name in enumerate("xyz"))
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    assembled = assemble(str(state.ptx), "sm_90a", Sink(), tool="ptxas")
    assert assembled is not None and assembled.losses == ()
    assert all(one.spill_stores == one.spill_loads == 0 for one in assembled.statistics)
