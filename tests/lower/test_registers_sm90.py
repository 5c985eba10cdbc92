"""Accumulators in registers: every way out of them, and when the MMAs in flight are waited for."""

import re
from functools import cache

import ml_dtypes
import numpy as np
import pytest
from lower.register_kernels import BODIES, arguments, expected, source

import pipec
from pipec.api.program import Program
from pipec.driver import Options as CompileOptions
from pipec.driver import compile_source
from pipec.kir.plan.types import Plan
from pipec.runtime import LaunchOptions
from pipec.sim import Options
from pipec.source import Source

pytestmark = pytest.mark.combinations(0.35)


@cache
def compiled(text: str, *, allow_undecided: bool = False, **constants: object) -> Program:
    return pipec.compile(text, arch="sm_90a", constants=constants, allow_undecided=allow_undecided)


def run(
    text: str, given: dict[str, np.ndarray], timing: str = "late", *, allow_undecided: bool = False, **constants: object
) -> None:
    kernel = compiled(text, allow_undecided=allow_undecided, **constants)["gemm"]
    kernel(**given, device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=3)))


@pytest.mark.parametrize("name", BODIES)
def test_ways_out_of_registers(name: str) -> None:
    given = arguments(name, 128, 64, 128)
    run(source(name), given)
    assert np.array_equal(given["d"], expected(name, given))


@pytest.mark.parametrize(("warps", "stages"), [(4, 1), (4, 2), (8, 1), (8, 2)])
def test_rows_and_stages(warps: int, stages: int) -> None:
    given = arguments("vectors", 100, 40, 200)
    run(source("vectors", warps, stages), given, timing="random")
    assert np.array_equal(given["d"], expected("vectors", given))


def test_no_k_block_gives_zero() -> None:
    given = arguments("vectors", 64, 64, 0)
    run(source("vectors"), given)
    assert np.array_equal(given["d"], expected("vectors", given))


def ptx(text: str) -> str:
    return compiled(text).ptx


def planned(text: str) -> Plan:
    state = compile_source(Source("gemm.pipe", text), CompileOptions(arch="sm_90a"), until="plan")
    assert state.plans is not None
    return state.plans[0]


def test_one_group_stays_in_flight_where_a_stage_more_is_there() -> None:
    assert "wgmma.wait_group.sync.aligned 1;" in ptx(source("store", stages=2))
    assert "wgmma.wait_group.sync.aligned 1;" not in ptx(source("store", stages=1))


def test_a_drain_inside_a_loop_is_not_made_to_wait_for_a_late_stage() -> None:
    text = source("store").replace("b[block.y * 64, k * 64])\n", "b[block.y * 64, k * 64])\n            input.drain_producer()\n")
    assert "drain_producer" in text
    assert "wgmma.wait_group.sync.aligned 1;" not in ptx(text)
    given = arguments("store", 128, 64, 192)
    run(text, given)
    assert np.array_equal(given["d"], expected("store", given))


TWO = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, D, N]):
    grid(1)
    left = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64]), stages=2)
    right = InputTilePipeline(TilePayload(b=tile[bf16, 64, 64]), stages=2)
    steps = ceildiv(K, 64)

    role load_left(warps=1) produces left:
        for k in range(steps):
            with left.produce() as s:
                tma.load(s.a, a[0, k * 64])

    role load_right(warps=1) produces right:
        for k in range(steps):
            with right.produce() as s:
                tma.load(s.b, b[0, k * 64])

    role compute(warps=4) consumes left, right:
        for half in range(2):
            acc = accumulator(f32, 64, 64)
            for k in range(half, steps, 2):
                with left.consume() as p, right.consume() as q:
                    mma(acc, p.a, q.b, accumulate=k > 1)
                    if k == half:
                        mma(acc, p.a, q.b)
            store(d[half * 64, 0], acc)
"""


def test_operands_from_two_pipelines_and_a_second_mma_into_the_same_accumulator() -> None:
    given = {name: value for name, value in arguments("store", 64, 64, 256).items() if name in ("a", "b")}
    given["d"] = np.zeros((128, 64), np.float32)
    run(TWO, given, allow_undecided=True)  # one role goes round once where another goes twice over half
    a, b = (given[name].astype(np.float64).reshape(64, 4, 64) for name in ("a", "b"))
    products = [a[:, k] @ b[:, k].T for k in range(4)]
    expected_rows = [2 * products[0] + products[1], 2 * products[2] + products[3]]
    assert np.array_equal(given["d"], np.concatenate(expected_rows).astype(np.float32))


APART = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    grid(1)
    left = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64]), stages=LEFT)
    right = InputTilePipeline(TilePayload(b=tile[bf16, 64, 64]), stages=RIGHT)
    token = ProducerConsumerPipeline(stages=1)
    steps = ceildiv(K, 64)

    role load_left(warps=1) produces left CONSUMES:
        for k in range(steps):
            WAIT
            with left.produce() as s:
                tma.load(s.a, a[0, k * 64])

    role load_right(warps=1) produces right PRODUCES:
        for k in range(steps):
            with right.produce() as s:
                tma.load(s.b, b[0, k * 64])
            PASS

    role compute(warps=4) consumes left, right:
        acc = accumulator(f32, 64, 64)
        for k in range(steps):
            with left.consume() as p, right.consume() as q:
                mma(acc, p.a, q.b)
        store(d[0, 0], acc)
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize(
    ("left", "right", "tied", "pending"),
    [(2, 2, False, 1), (2, 3, False, 1), (2, 1, False, 0), (1, 2, False, 0), (2, 2, True, 0)],
)
def test_one_group_stays_in_flight_where_two_pipelines_have_a_stage_more(
    left: int, right: int, tied: bool, pending: int, timing: str
) -> None:
    """The role waits for one pipeline while it holds a late stage of the other: not where one is filled only after the other."""
    text = APART.replace("LEFT", str(left)).replace("RIGHT", str(right))
    body = "\n                pass"
    words = (" consumes token", f"with token.consume():{body}", ", token", f"with token.produce():{body}")
    for name, word, alone in zip((" CONSUMES", "WAIT", " PRODUCES", "PASS"), words, ("", "pass", "", "pass"), strict=True):
        text = text.replace(name, word if tied else alone)
    text = text if tied else text.replace("    token = ProducerConsumerPipeline(stages=1)\n", "")
    waits = [line.split()[-1] for line in ptx(text).splitlines() if "wgmma.wait_group" in line]
    assert ("1;" in waits) == (pending == 1)
    given = {name: value for name, value in arguments("store", 64, 64, 320).items() if name in ("a", "b", "d")}
    run(text, given, timing)
    assert np.array_equal(given["d"], given["a"].astype(np.float32) @ given["b"].astype(np.float32).T)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("a_view", "b_view"), [(".T", ""), ("", ".T"), (".T", ".T")])
def test_operands_stored_with_k_outermost(a_view: str, b_view: str, warps: int) -> None:
    text = source("store", warps).replace("mma(acc, s.a, s.b)", f"mma(acc, s.a{a_view}, s.b{b_view})")
    given = arguments("store", 136, 72, 200)
    result = expected("store", given)
    for view, name, tile, turned, at, turned_at in (
        (a_view, "a", "tile[bf16, 128, 64]", "tile[bf16, 64, 128]", "a[block.x * 128, k * 64]", "a[k * 64, block.x * 128]"),
        (b_view, "b", "b=tile[bf16, 64, 64]", "b=tile[bf16, 64, 64]", "b[block.y * 64, k * 64]", "b[k * 64, block.y * 64]"),
    ):
        if view:
            size = "M" if name == "a" else "N"
            text = text.replace(tile, turned).replace(at, turned_at)
            text = text.replace(f"{name}: tensor[bf16, {size}, K]", f"{name}: tensor[bf16, K, {size}]")
            given[name] = np.ascontiguousarray(given[name].T)
    run(text, given)
    assert np.array_equal(given["d"], result)


def test_16_bit_tiles_are_stored_by_matrices() -> None:
    """Four at a time, two where a panel has one group of columns; a pair of 32-bit elements by itself."""
    narrow = source("store").replace("d: tensor[f32, M, N]", "d: tensor[bf16, M, N]").replace("0, acc)", "0, cast[bf16](acc))")
    assert "64], acc)" in narrow
    text = ptx(narrow.replace("64], acc)", "64], cast[bf16](acc))"))
    assert text.count("stmatrix.sync.aligned.m8n8.x4.shared.b16") == 4 and "st.shared" not in text
    text = ptx(narrow.replace("64], acc)", "64], cast[bf16](columns(acc, 8, 8)))"))
    assert text.count("stmatrix.sync.aligned.m8n8.x2.shared.b16") == 1 and "x4" not in text
    assert "stmatrix" not in ptx(source("store"))


def test_a_vector_along_the_columns_is_read_in_pairs_and_once_for_all_rows() -> None:
    """A thread has 16 of 64 columns, in 2 rows; one by one only where pairs are not aligned, or the tensor ends inside one."""
    text = ptx(source("vectors"))
    assert text.count("ld.global.b64") == 8 and text.count("ld.global.b32") == 2 + 16  # 2 of the vector along the rows


@pytest.mark.parametrize(("skipped", "columns"), [(1, 64), (0, 47), (1, 9)])
def test_a_vector_along_the_columns_begins_and_ends_anywhere(skipped: int, columns: int) -> None:
    given = arguments("vectors", 128, columns, 64)
    given["bias"] = np.append(np.zeros(skipped, np.float32), given["bias"])[skipped:]
    run(source("vectors").replace("store(d", "store.direct(d"), given)
    assert np.array_equal(given["d"], expected("vectors", given))


def test_the_threads_store_whole_vectors() -> None:
    """A thread has 16 of 64 columns, in 2 rows: pairs of 4 bytes, or 16 bytes of bf16 that the four lanes of a row exchange."""
    assert ptx(source("direct")).count("st.global.b64") == 2 * 8
    text = ptx(source("direct_bf16"))
    assert text.count("st.global.v4.b32") == 2 * 2 and text.count("shfl.sync.idx") == 2 * 2 * 4 + 1  # one for the warp's number
    eight = ptx(source("direct_bf16").replace("64], cast[bf16](acc))", "64], cast[bf16](columns(acc, 8, 40)))"))
    assert eight.count("st.global.v4.b32") == 2 and eight.count("st.global.b32") == 2  # four groups, and one


@pytest.mark.parametrize("name", ["direct", "direct_bf16"])
@pytest.mark.parametrize("columns", [1, 9, 40, 47, 63, 64])
def test_vectors_that_do_not_fit_are_stored_element_by_element(name: str, columns: int) -> None:
    """Rows that begin at any multiple of an element, and end inside a vector."""
    given = arguments(name, 100, columns, 64)
    run(source(name), given)
    assert np.array_equal(given["d"], expected(name, given))


@pytest.mark.parametrize(("columns", "stages", "meetings"), [(64, 2, 2), (128, 2, 2), (192, 2, 2), (256, 2, 2), (256, 4, 8)])
def test_the_threads_meet_once_for_the_panels_that_the_buffers_hold(columns: int, stages: int, meetings: int) -> None:
    """Before they fill the buffers and after; with four stages of this size only two buffers are left for four panels."""
    text = GEMM.replace("COLUMNS", str(columns)).replace("STAGES", str(stages))
    role = ptx(text).partition("// store(")[2]
    assert role.count("bar.sync") == meetings
    given = {"a": np.ones((128, 64), ml_dtypes.bfloat16), "b": np.ones((columns, 64), ml_dtypes.bfloat16)}
    given["b"] *= np.arange(columns)[:, None].astype(ml_dtypes.bfloat16)
    given["d"] = np.zeros((128, 2 * columns), ml_dtypes.bfloat16)
    run(text, given)
    expected_row = (64 * given["b"][:, 0].astype(np.float64)).astype(ml_dtypes.bfloat16)
    assert np.array_equal(given["d"], np.tile(np.concatenate([expected_row, expected_row]), (128, 1)))


@pytest.mark.parametrize(
    ("columns", "dtype", "panels"),
    [
        (48, "bf16", [[32, 16]]),
        (176, "bf16", [[64], [64], [32, 16]]),
        (168, "bf16", [[64], [64], [32, 8]]),
        (48, "f32", [[32], [16]]),
        (192, "bf16", [[64], [64], [64]]),
        (208, "e4m3", [[128], [64, 16]]),
    ],
)
def test_a_row_is_stored_in_the_widest_spans(columns: int, dtype: str, panels: list[list[int]]) -> None:
    """What is left of it shares a buffer; a copy for each panel, each map once."""
    text = GEMM.replace("COLUMNS", str(columns)).replace("STAGES", "2").replace("bf16](acc)", f"{dtype}](acc)")
    text = text.replace("d: tensor[bf16", f"d: tensor[{dtype}")
    (staging,) = planned(text).staging.values()
    assert [[panel.columns for panel in fill] for fill in staging.fills] == panels
    widths = [width for fill in panels for width in fill]
    assert [panel.first for panel in staging.panels] == [sum(widths[:index]) for index in range(len(widths))]
    found = ptx(text)
    assert found.count("cp.async.bulk.tensor.2d.global") == len(widths)
    assert len(set(re.findall(r"\bgemm_map\d*_d\b", found))) == len(set(widths))
    given = {"a": np.ones((128, 64), ml_dtypes.bfloat16), "b": np.ones((columns, 64), ml_dtypes.bfloat16)}
    given["b"] *= (np.arange(columns) % 7)[:, None].astype(ml_dtypes.bfloat16)
    numpy_type = getattr(ml_dtypes, {"bf16": "bfloat16", "e4m3": "float8_e4m3fn"}.get(dtype, ""), np.float32)
    given["d"] = np.zeros((128, 2 * columns), numpy_type)
    run(text, given)
    assert np.array_equal(given["d"].astype(np.float64)[77], np.tile(64.0 * (np.arange(columns) % 7), 2))


@pytest.mark.parametrize(("stages", "spans"), [(4, [128, 128, 128, 32, 16]), (5, [16] * 27)])
def test_narrow_panels_where_memory_is_left_for_no_wider_ones(stages: int, spans: list[int]) -> None:
    """Beside five stages of 43 KB there is no room for 128 rows of 128 bytes: all panels have the widest span that divides a row."""
    (staging,) = planned(GEMM.replace("COLUMNS", "216").replace("STAGES", str(stages))).staging.values()
    assert [panel.layout.span_bytes for panel in staging.panels] == spans


GEMM = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[bf16, M, D]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, COLUMNS, 64]), stages=STAGES)

    role load(warps=1, registers=24) produces input:
        for i in range(2):
            with input.produce() as s:
                tma.load(s.a, a[0, 0])
                tma.load(s.b, b[0, 0])

    role compute(warps=8, registers=224) consumes input:
        for i in range(2):
            acc = accumulator(f32, 128, COLUMNS)
            with input.consume() as s:
                mma(acc, s.a, s.b)
            store(d[0, i * COLUMNS], cast[bf16](acc))
"""


# A stage that is given back one release late would keep the producer, which needs two stages before it fills one, waiting for ever.
PAIRS = """
kernel k(n: i32, a: tensor[bf16, R, 16], b: tensor[bf16, S, 16], d: tensor[f32, 64, 8]):
    grid(1)
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64, 16], b=tile[bf16, 8, 16]), stages=3)
    role load(warps=1) produces input:
        for i in range(n):
            first = input.acquire_producer()
            with input.produce() as second:
                tma.load(second.a, a[(2 * i + 1) * 64, 0])
                tma.load(second.b, b[(2 * i + 1) * 8, 0])
            tma.load(first.a, a[2 * i * 64, 0])
            tma.load(first.b, b[2 * i * 8, 0])
            first.release()
    role add(warps=4) consumes input:
        acc = accumulator(f32, 64, 8)
        for i in range(n):
            with input.consume() as first:
                with input.consume() as second:
                    mma(acc, second.a, second.b)
                mma(acc, first.a, first.b)
        store.direct(d[0, 0], acc)
"""


def test_stages_held_in_pairs_are_given_back_at_once() -> None:
    generator = np.random.default_rng(5)
    a, b = (generator.integers(-3, 4, (6 * rows, 16)).astype(ml_dtypes.bfloat16) for rows in (64, 8))
    d = np.zeros((64, 8), np.float32)
    program = pipec.compile(PAIRS, arch="sm_90a")
    assert "no role waits for ever" in " ".join(program.report["k"].proofs)
    program["k"](3, a, b, d, device="sim")
    parts = zip(a.astype(np.float32).reshape(6, 64, 16), b.astype(np.float32).reshape(6, 8, 16), strict=True)
    assert np.array_equal(d, sum(left @ right.T for left, right in parts))


OUTLASTING = """
kernel gemm(q: tensor[bf16, M, 64], b: tensor[bf16, N, 64], once: tensor[f32, M, N], both: tensor[f32, M, N]):
    grid(ceildiv(M, 64))
    queries = InputTilePipeline(TilePayload(q=tile[bf16, 64, 64]), stages=1)
    keys = InputTilePipeline(TilePayload(k=tile[bf16, 64, 64]), stages=2)
    role load(warps=1) produces queries, keys:
        with queries.produce() as s:
            tma.load(s.q, q[block.x * 64, 0])
        for j in range(2 * ceildiv(N, 64)):
            with keys.produce() as s:
                tma.load(s.k, b[j // 2 * 64, 0])
    role compute(warps=4) consumes queries, keys:
        with queries.consume() as held:
            for j in range(ceildiv(N, 64)):
                with keys.consume() as s:
                    acc = accumulator(f32, 64, 64)
                    mma(acc, held.q, s.k)
                store(once[block.x * 64, j * 64], acc)
                with keys.consume() as s:
                    mma(acc, held.q, s.k)
                store(both[block.x * 64, j * 64], acc)
"""


@pytest.mark.parametrize("timing", ["late", "random"])
def test_an_accumulator_outlasts_the_stage_whose_with_made_it(timing: str) -> None:
    generator = np.random.default_rng(2)
    q, b = (generator.integers(-3, 4, (size, 64)).astype(ml_dtypes.bfloat16) for size in (64, 128))
    once, both = np.zeros((64, 128), np.float32), np.zeros((64, 128), np.float32)
    run(OUTLASTING, {"q": q, "b": b, "once": once, "both": both}, timing)
    product = q.astype(np.float64) @ b.astype(np.float64).T
    assert np.array_equal(once, product) and np.array_equal(both, 2 * product)


USED_IN_THREE_WAYS = """
kernel gemm(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    assume(K > 64)
    grid(ceildiv(M, 64 * ROWS), ceildiv(N, 64))
    input = InputTilePipeline(StandardTilePayload(a=tile[bf16, 64 * ROWS, 64], b=tile[bf16, 64, 64]), stages=STAGES)

    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            with input.produce() as s:
                tma.load(s.a, a[block.x * 64 * ROWS, k * 64])
                tma.load(s.b, b[block.y * 64, k * 64])

    role compute(warps=4 * ROWS) consumes input:
        acc = accumulator(f32, 64 * ROWS, 64)
        with input.consume() as s:
            first = registers(row_sum(cast[f32](s.a)))
        for k in range(2, ceildiv(K, 64)):
            with input.consume() as s:
                mma(acc, s.a, s.b)
        with input.consume() as s:
            mma(acc, s.a, s.b)
            last = registers(row_max(cast[f32](s.a)))
        store(d[block.x * 64 * ROWS, block.y * 64], acc + first - last)
"""


@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize(("rows", "stages"), [(1, 1), (1, 2), (2, 3)])
def test_stages_of_one_ring_are_used_by_threads_by_mmas_and_by_both(rows: int, stages: int, timing: str) -> None:
    """All of them are given back by as many arrivals."""
    given = arguments("store", 100, 64, 64 * 7)
    given = {name: given[name] for name in "abd"}
    run(USED_IN_THREE_WAYS.replace("ROWS", str(rows)).replace("STAGES", str(stages)), given, timing)
    a, b = given["a"].astype(np.float32), given["b"].astype(np.float32)
    product = a[:, 64:] @ b[:, 64:].T
    assert np.array_equal(given["d"], product + a[:, :64].sum(1, keepdims=True) - a[:, -64:].max(1, keepdims=True))
