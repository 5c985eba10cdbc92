"""Rows that several threads share: loads, reductions, kept tiles and stores on the simulator, for every way of sharing them."""

import numpy as np
import pytest
from running import CONVERTED, NUMPY, compiled, exact, run, values

from pipec.driver import Options, compile_source
from pipec.isa.dtypes import DTYPES
from pipec.source import Source

pytestmark = pytest.mark.combinations(0.35)

NORM = """
kernel k(x: tensor[{kind}, M, N], w: tensor[f32, N], b: tensor[f32, M], y: tensor[{out}, M, N], s: tensor[f32, M]{extra}):
    grid(ceildiv(M, {rows}))
    role compute(warps={warps}):
        m = block.x * {rows}
        v = registers(cast[f32](load(x[m, 0], {rows}, {columns})))
        largest = row_max(v if column_index({columns}) < N else -99.0)
        total = registers(row_sum(v * 2.0))
        t = (v - largest) * per_column(w[0], {columns}) + per_row(b[m], {rows}) + total
        {store}(y[m, 0], cast[{out}](t))
        store.direct(s[m], total)
"""
# Lanes of a warp, whole warps, all warps; threads without a row; rows that are no multiple of a stripe, or of 16 bytes.
WAYS = [
    (64, 64, 4), (16, 128, 4), (12, 64, 4), (4, 256, 4), (3, 96, 4), (2, 512, 4), (2, 512, 6), (1, 640, 3), (1, 61, 2), (2, 61, 8),
]  # fmt: skip


def normalise(rows, columns, warps, n, kind="f32", out="f32", store="store.direct", m=19, extra=""):
    x, w, b = values((m, n), kind), values((n,), "f32", 3), values((m,), "f32", 4)
    y, s = np.full((m, n), 77, NUMPY[out]), np.zeros(m, np.float32)
    source = NORM.format(rows=rows, columns=columns, warps=warps, kind=kind, out=out, store=store, extra=extra)
    run(source, "k", x, w, b, y, s, timing="random")
    total = 2 * exact(x).sum(1)
    expected = (exact(x) - exact(x).max(1)[:, None]) * exact(w) + exact(b)[:, None] + total[:, None]
    np.testing.assert_array_equal(exact(y), expected)
    np.testing.assert_array_equal(exact(s), total)


@pytest.mark.parametrize(("rows", "columns", "warps"), WAYS)
def test_rows_are_normalised(rows, columns, warps):
    normalise(rows, columns, warps, columns)
    normalise(rows, columns, warps, columns - 3)  # neither aligned nor whole vectors


@pytest.mark.parametrize(("rows", "columns", "warps"), [(16, 128, 4), (2, 512, 4), (1, 512, 3)])
def test_rows_pass_through_staging(rows, columns, warps):
    normalise(rows, columns, warps, columns - 8, store="store")


@pytest.mark.parametrize("kind", ["bf16", "f16", "e4m3", "i8", "i32", "f64"])
def test_element_types_of_shared_rows(kind):
    source = """
kernel k(x: tensor[KIND, M, N], y: tensor[KIND, M, N], s: tensor[f32, M]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        v = registers(load(x[block.x * 4, 0], 4, 256))
        store.direct(y[block.x * 4, 0], v)
        store.direct(s[block.x * 4], row_sum(cast[f32](v)) + cast[f32](row_max(load(x[block.x * 4, 0], 4, 256))))
"""
    if not DTYPES[kind].computes:
        source = source.replace("row_max(load(x[block.x * 4, 0], 4, 256))", "row_max(cast[f32](load(x[block.x * 4, 0], 4, 256)))")
    for n in (256, 200, 131):
        x, y, s = values((10, n), kind), np.zeros((10, n), NUMPY[kind]), np.zeros(10, np.float32)
        run(source.replace("KIND", kind), "k", x, y, s)
        np.testing.assert_array_equal(exact(y), exact(x))
        largest = np.maximum(exact(x).max(1), 0 if n < 256 else -9)  # zeros stand behind the row
        np.testing.assert_array_equal(exact(s), exact(x).sum(1) + largest)


@pytest.mark.parametrize("out", [*CONVERTED, "f32"])
def test_conversions_between_widths(out):
    """The widest of the types says how long a vector is."""
    source = """
kernel k(x: tensor[bf16, M, N], y: tensor[OUT, M, N]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        store.direct(y[block.x * 4, 0], cast[OUT](load(x[block.x * 4, 0], 4, 512)))
"""
    for n in (512, 77):
        x, y = values((6, n), "bf16"), np.zeros((6, n), NUMPY[out])
        x = abs(x) if DTYPES[out].family == "unsigned" else x
        run(source.replace("OUT", out), "k", x, y)
        np.testing.assert_array_equal(exact(y), exact(x))


def test_conditions_are_loaded_and_stored():
    source = """
kernel k(x: tensor[bool, M, N], y: tensor[bool, M, N]):
    grid(ceildiv(M, 2))
    role compute(warps=4):
        v = load(x[block.x * 2, 0], 2, 256)
        store.direct(y[block.x * 2, 0], v != (column_index(256) < 9))
"""
    for n in (256, 99):
        x = np.random.default_rng(0).integers(0, 2, (5, n)).astype(bool)
        y = np.zeros((5, n), bool)
        run(source, "k", x, y)
        np.testing.assert_array_equal(y, x != (np.arange(n) < 9))


def test_long_rows_are_read_in_loops():
    source = """
kernel k(x: tensor[bf16, M, N], y: tensor[bf16, M, N]):
    grid(ceildiv(M, 2))
    role compute(warps=2):
        store.direct(y[block.x * 2, 0], load(x[block.x * 2, 0], 2, 6000) + cast[bf16](row_max(load(x[block.x * 2, 0], 2, 6000))))
"""
    x, y = values((3, 5992), "bf16"), np.zeros((3, 5992), NUMPY["bf16"])
    run(source, "k", x, y)
    np.testing.assert_array_equal(exact(y), exact(x) + exact(x).max(1)[:, None])


def test_parts_of_rows_are_kept_ahead():
    """Columns of a kept tile that begin with a stripe, and of a loaded one that do not."""
    source = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, 256]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        v = registers(load(x[block.x * 4, 0], 4, 512))
        w = load(x[block.x * 4, 0], 4, 512)
        store.direct(y[block.x * 4, 0], columns(v, 256, 256) + columns(w, 32, 256))
"""
    x, y = values((6, 500), "f32"), np.zeros((6, 256), np.float32)
    run(source, "k", x, y)
    padded = np.pad(exact(x), ((0, 0), (0, 12)))
    np.testing.assert_array_equal(exact(y), padded[:, 256:512] + padded[:, 32:288])


def test_a_kept_part_elsewhere_leaves_rows_to_threads():
    source = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 32]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        v = registers(load(x[block.x * 4, 0], 4, 64))
        store.direct(y[block.x * 4, 0], columns(v, 32, 32) + columns(v, 0, 32))
"""
    x, y = values((6, 64), "f32"), np.zeros((6, 32), np.float32)
    assert not any(one.vector for one in plan_of(source).row_maps.values())
    run(source, "k", x, y)
    np.testing.assert_array_equal(exact(y), exact(x)[:, 32:] + exact(x)[:, :32])


def test_a_kept_value_for_all_rows():
    """More rows than threads: each has two."""
    source = """
kernel k(x: tensor[f32, 1, 64], y: tensor[f32, 256, 8]):
    grid(1)
    role compute(warps=4):
        v = registers(row_sum(load(x[0, 0], 1, 64)))
        w = registers(fill(1.0, f32, 256, 8))
        store.direct(y[0, 0], w + v)
"""
    x, y = values((1, 64), "f32"), np.zeros((256, 8), np.float32)
    run(source, "k", x, y)
    assert (exact(y) == exact(x).sum() + 1).all()


@pytest.mark.parametrize("warps", [3, 4, 8])
def test_state_is_carried_through_loops(warps):
    """Reductions in a loop, an odd number of them: the two places of the exchange are used in turn at run time."""
    source = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, 256], s: tensor[f32, M]):
    grid(M)
    role compute(warps=WARPS):
        kept = registers(fill(0.0, f32, 1, 256))
        largest = registers(fill(-99.0, f32, 1, 1))
        for j in range(ceildiv(N, 256)):
            part = registers(load(x[block.x, j * 256], 1, 256))
            largest = max(largest, row_max(part if column_index(256) < N - j * 256 else -99.0))
            kept = kept + part
        store.direct(y[block.x, 0], kept)
        store.direct(s[block.x], largest)
""".replace("WARPS", str(warps))
    x, y, s = values((5, 700), "f32"), np.zeros((5, 256), np.float32), np.zeros(5, np.float32)
    for timing in ("order", "late", "random"):
        run(source, "k", x, y, s, timing=timing)
        np.testing.assert_array_equal(exact(y), np.pad(exact(x), ((0, 0), (0, 68))).reshape(5, 3, 256).sum(1))
        np.testing.assert_array_equal(exact(s), exact(x).max(1))


def test_tiles_of_stages_are_shared_out():
    """From shared memory and into it, with rows that end inside a stripe."""
    source = """
kernel k(x: tensor[bf16, M, N], y: tensor[f32, M, N]):
    grid(ceildiv(M, 8))
    loaded = InputTilePipeline(TilePayload(x=tile[bf16, 8, 96]), stages=1)
    ready = InputTilePipeline(TilePayload(y=tile[f32, 8, 96]), stages=1)
    role load(warps=1) produces loaded:
        with loaded.produce() as s:
            tma.load(s.x, x[block.x * 8, 0])
    role compute(warps=8) consumes loaded produces ready:
        with loaded.consume() as s, ready.produce() as o:
            v = registers(s.x)
            write(o.y, cast[f32](v) + row_sum(cast[f32](v)))
    role writer(warps=1) consumes ready:
        with ready.consume() as o:
            tma.store(y[block.x * 8, 0], o.y)
"""
    assert {one.vector for one in plan_of(source).row_maps.values()} == {4}
    for timing in ("order", "late", "random"):
        x, y = values((21, 96), "bf16"), np.zeros((21, 96), np.float32)
        run(source, "k", x, y, timing=timing)
        np.testing.assert_array_equal(exact(y), exact(x) + exact(x).sum(1)[:, None])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i64"])
def test_vectors_are_reduced_in_memory(dtype):
    source = """
kernel k(x: tensor[T, M, N], y: tensor[T, M, N]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        store.direct(y[block.x * 4, 0], load(x[block.x * 4, 0], 4, 256), reduce="add", rows=3)
""".replace("[T,", f"[{dtype},")
    for n in (256, 131):
        x, y = values((9, n), dtype), values((9, n), dtype, 2)
        expected = exact(y) + exact(x) * (np.arange(9) % 4 < 3)[:, None]
        run(source, "k", x, y)
        np.testing.assert_array_equal(exact(y), expected)


def test_elements_may_be_replaced_where_they_stand():
    source = """
kernel k(x: tensor[f32, M, N]):
    grid(ceildiv(M, 3))
    role compute(warps=4):
        store.direct(x[block.x * 3, 0], load(x[block.x * 3, 0], 3, 96) * 2.0)
"""
    for n in (96, 50):
        x = values((8, n), "f32")
        expected = exact(x) * 2
        run(source, "k", x, timing="random")
        np.testing.assert_array_equal(exact(x), expected)


def test_a_row_of_8192_fits_the_registers_of_a_block():
    source = NORM.format(rows=1, columns=8192, warps=8, kind="f32", out="f32", store="store.direct", extra="")
    ptx = compiled(source).ptx
    assert ptx.count("ld.global.v4.b32") == 2 * 8 * 1  # 32 elements of the row, and of the weights, in each of 256 threads
    assert ptx.count("st.global.v4.b32") == 8
    assert plan_of(source).exchanges and plan_of(source).shared_bytes <= 2 * 8 * 4 + 16


@pytest.mark.parametrize("kind", ["f32", "bf16"])
def test_a_kept_row_beside_several_rows(kind):
    """Each row of threads keeps the one row: narrow elements two to a register."""
    source = """
kernel k(x: tensor[T, M, N], w: tensor[T, N], y: tensor[T, M, N]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        v = registers(load(x[block.x * 4, 0], 4, 256))
        weights = registers(per_column(w[0], 256))
        total = row_sum(cast[f32](v) * cast[f32](weights))
        store.direct(y[block.x * 4, 0], v * weights + cast[T](total * 0.0))
""".replace("[T", f"[{kind}")
    for n in (256, 203):
        x, w, y = values((7, n), kind), values((n,), kind, 2), np.zeros((7, n), NUMPY[kind])
        run(source, "k", x, w, y)
        np.testing.assert_array_equal(exact(y), exact(x) * exact(w))
    maps = plan_of(source).row_maps.values()
    assert {one.block_rows for one in maps} == {4}
    assert {one.registers_of_thread(256, DTYPES[kind]) for one in maps} == {8 if kind == "f32" else 4}


def test_one_budget_for_all_holds_from_the_start():
    source = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(ceildiv(M, 4))
    role compute(warps=4, registers=40):
        store.direct(y[block.x * 4, 0], load(x[block.x * 4, 0], 4, 256))
"""
    ptx = compiled(source).ptx
    assert ".maxnreg 40" in ptx and "setmaxnreg" not in ptx


@pytest.mark.parametrize(("registers", "together"), [(96, [8]), (80, [8]), (64, [4, 4]), (56, [2, 2, 2, 2])])
def test_as_much_is_loaded_at_once_as_registers_are_left(registers, together):
    """Beside 32 of what is kept: of weights and bias, as many vectors of each before the first is used."""
    source = f"""
kernel k(x: tensor[bf16, M, N], w: tensor[bf16, N], b: tensor[bf16, N], y: tensor[bf16, M, N]):
    grid(M)
    role compute(warps=8, registers={registers}):
        v = registers(cast[f32](load(x[block.x, 0], 1, 8192)))
        store.direct(y[block.x, 0], cast[bf16](v * cast[f32](per_column(w[0], 8192)) + cast[f32](per_column(b[0], 8192))))
"""
    *_, stored = compiled(source).ptx.partition("// store.direct")
    batches = [batch.count("ld.global.v4") for batch in stored.split("st.global.v4")]
    assert [count for count in batches if count] == together


def test_products_are_added_as_they_are_multiplied():
    source = """
kernel k(x: tensor[f32, M, N], s: tensor[f32, M]):
    grid(ceildiv(M, 4))
    role compute(warps=4):
        v = registers(load(x[block.x * 4, 0], 4, 256))
        store.direct(s[block.x * 4], row_sum(v * v))
"""
    assert compiled(source).ptx.count("fma.rn.f32") == 6
    x, s = values((6, 256), "f32"), np.zeros(6, np.float32)
    run(source, "k", x, s)
    np.testing.assert_array_equal(exact(s), (exact(x) ** 2).sum(1))


def plan_of(source):
    (plan,) = compile_source(Source("k.pipe", source), Options()).plans
    return plan


COLUMN_HANDED_OVER = """
kernel centred(x: tensor[f32, M, 96], y: tensor[f32, M, 96], where: tensor[i32, M]):
    grid(ceildiv(M, ROWS))
    found = InputTilePipeline(TilePayload(largest=tile[f32, ROWS, 1], at=tile[i32, ROWS, 1]), stages=2)

    role search(warps=WARPS) produces found:
        v = registers(load(x[block.x * ROWS, 0], ROWS, 96))
        largest = registers(row_max(v))
        with found.produce() as s:
            write(s.largest, largest)
            write(s.at, row_min(column_index(96) if v == largest else 96))

    role centre(warps=4) consumes found:
        with found.consume() as s:
            store.direct(y[block.x * ROWS, 0], load(x[block.x * ROWS, 0], ROWS, 96) - s.largest)
            store.direct(where[block.x * ROWS], s.at)
"""


@pytest.mark.parametrize(("rows", "warps"), [(2, 8), (8, 4), (32, 4), (64, 4), (128, 4), (24, 4)])
def test_a_column_is_handed_over_by_one_thread_of_each_row(rows: int, warps: int) -> None:
    """All threads that share a row have it; one of them writes."""
    x = np.random.default_rng(rows).standard_normal((150, 96)).astype(np.float32)
    y, where = np.zeros_like(x), np.zeros(150, np.int32)
    text = COLUMN_HANDED_OVER.replace("ROWS", str(rows)).replace("WARPS", str(warps))
    run(text, "centred", x, y, where)
    assert np.array_equal(y, x - x.max(1, keepdims=True)) and np.array_equal(where, x.argmax(1))
