"""A select by the column, `column_index(n) < bound`, tests bits of a word where the row has one bound: each comparison, either way around,
and bounds in front of the tile, inside it and behind it, up to the ends of i32."""

import operator

import ml_dtypes
import numpy as np
import pytest
from running import compiled, run

from pipec.driver import Options, compile_source
from pipec.source import Source

SOURCE = """
kernel k(x: tensor[f32, 128, 80], y: tensor[f32, 128, 80], bound: i32):
    grid(1)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 80]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[0, 0])
    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            v = registers(s.x)
            w = registers(select({condition}, {chosen}, {other}))
            store(y[0, 0], w)
"""
SIGNED = {"chosen": "v", "other": "0.0 - v"}
COMPARED = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
COLUMN, ROW = np.arange(80), np.arange(128)[:, None]
LEAST, LARGEST = -(2**31), 2**31 - 1


@pytest.mark.parametrize("sign", COMPARED)
def test_every_comparison_with_every_bound(sign: str) -> None:
    x = np.random.default_rng(3).integers(1, 100, (128, 80)).astype(np.float32)
    for bound in (LEAST, LEAST + 1, -1, 0, 1, 31, 32, 33, 63, 64, 79, 80, 81, 1000, LARGEST - 1, LARGEST):
        for condition, chosen in (
            (f"column_index(80) {sign} bound", COMPARED[sign](COLUMN, bound)),
            (f"bound {sign} column_index(80)", COMPARED[sign](bound, COLUMN)),
        ):
            y = np.zeros_like(x)
            run(SOURCE.format(condition=condition, **SIGNED), "k", x, y, bound)
            np.testing.assert_array_equal(y, np.where(chosen, x, -x), err_msg=f"{condition}, bound = {bound}")


@pytest.mark.parametrize("sign", ["<", ">"])
@pytest.mark.parametrize(("chosen", "other"), [("7.0", "v"), ("v", "7.0"), ("v", "v")])
def test_elements_that_become_one_number(sign: str, chosen: str, other: str) -> None:
    """Those that differ stay in their registers, whether they are kept for bits that are set or for the others."""
    x = np.random.default_rng(3).integers(10, 100, (128, 80)).astype(np.float32)
    values = {"v": x, "7.0": np.float32(7)}
    for bound in (0, 1, 31, 32, 50, 79, 80):
        y = np.zeros_like(x)
        run(SOURCE.format(condition=f"column_index(80) {sign} bound", chosen=chosen, other=other), "k", x, y, bound)
        np.testing.assert_array_equal(y, np.where(COMPARED[sign](COLUMN, bound), values[chosen], values[other]))


@pytest.mark.parametrize(
    ("condition", "chosen"),
    [
        ("column_index(80) <= row_index(128) + bound", ROW + 5 >= COLUMN),
        ("row_index(128) * 2 - bound <= column_index(80)", ROW * 2 - 5 <= COLUMN),
        ("column_index(80) < cast[i32](row_max(v)) - 16 * bound", None),
    ],
)
def test_a_bound_of_each_row(condition: str, chosen: np.ndarray | None) -> None:
    x = np.minimum(np.random.default_rng(3).integers(1, 1000, (128, 80)), 80 + ROW).astype(np.float32)
    y = np.zeros_like(x)
    run(SOURCE.format(condition=condition, **SIGNED), "k", x, y, 5)
    chosen = x.max(axis=1, keepdims=True) - 80 > COLUMN if chosen is None else chosen
    np.testing.assert_array_equal(y, np.where(chosen, x, -x))


ACCUMULATOR = '''
kernel k(a: tensor[bf16, 64, 16], b: tensor[bf16, 136, 16], y: tensor[f32, 64, 136], bound: i32):
    """arch: sm_90a"""
    grid(1)
    ring = InputTilePipeline(TilePayload(a=tile[bf16, 64, 16], b=tile[bf16, 136, 16]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.a, a[0, 0])
            tma.load(s.b, b[0, 0])
    role compute(warps=4) consumes ring:
        scores = accumulator(f32, 64, 136)
        with ring.consume() as s:
            mma(scores, s.a, s.b)
        write(scores, select({condition}, scores, 0.0 - scores))
        store.direct(y[0, 0], scores)
'''


@pytest.mark.parametrize("sign", COMPARED)
@pytest.mark.parametrize("least", ["bound", "bound + 2 * row_index(64)"])
def test_an_accumulator_in_registers(sign: str, least: str) -> None:
    """A thread has two of eight neighbouring columns: the bits of a word are those of its elements."""
    a, b = (np.random.default_rng(4).integers(1, 9, (rows, 16)).astype(ml_dtypes.bfloat16) for rows in (64, 136))
    product, column = a.astype(np.float32) @ b.astype(np.float32).T, np.arange(136)
    of_row = 2 * np.arange(64)[:, None] if "row" in least else 0
    for bound in (LEAST, -126, -1, *range(19), 63, 64, 65, 127, 128, 129, 135, 136, 137, 1000, LARGEST - 200):
        y = np.zeros_like(product)
        source = ACCUMULATOR.format(condition=f"column_index(136) {sign} {least}")
        run(source, "k", a, b, y, bound)
        np.testing.assert_array_equal(y, np.where(COMPARED[sign](column, of_row + bound), product, -product), err_msg=f"{bound}")
    assert compiled(source).ptx.count("bmsk.clamp.b32") == (4 if "row" in least else 2)  # for each row, with 34 elements


def test_each_bit_is_tested_beside_its_selection() -> None:
    """Only then does ptxas move bits into predicates several at a time."""
    state = compile_source(
        Source("k.pipe", SOURCE.format(condition="column_index(80) < bound", **SIGNED)), Options(arch="sm_100a")
    )
    assert state.ptx is not None and not state.failed
    lines = [line.split()[0] for line in state.ptx.splitlines() if line.startswith("\t")]
    assert lines.count("bmsk.clamp.b32") == 80 // 16  # the columns that are read together
    assert sum(lines[at : at + 3] == ["and.b32", "setp.ne.b32", "selp.f32"] for at in range(len(lines))) == 80
