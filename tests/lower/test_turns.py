"""Blocks that take turns: the same bits in every launch, counters left as they were, and what happens when an order cannot work."""

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options

SERIAL = (EXAMPLES / "gemm_split_k_serial.pipe").read_text(encoding="utf-8")
M, N, K = 136, 40, 328


def on(timing: str, seed: int = 3) -> LaunchOptions:
    return LaunchOptions(simulation=Options(timing=timing, seed=seed))


@pytest.mark.parametrize("splits", [1, 3, 5])
def test_the_same_bits_whatever_the_timing(splits: int) -> None:
    kernel = pipec.compile(SERIAL, constants={"SPLITS": splits, "BN": 64})["gemm_split_k_serial"]
    generator = np.random.default_rng(0)
    a, b = (generator.standard_normal((size, K)).astype(ml_dtypes.bfloat16) for size in (M, N))
    results = set()
    turns = np.zeros((2, 1), np.int32)
    for timing, seed in (("order", 1), ("late", 1), ("random", 1), ("random", 2)):
        sums, d = np.full((M, N), np.nan, np.float32), np.zeros((M, N), ml_dtypes.bfloat16)
        kernel(a, b, sums, turns, d, device="sim", options=on(timing, seed))
        assert not turns.any(), "the next launch begins with zeros again"
        results.add((sums.tobytes() if splits > 1 else b"", d.tobytes()))
    assert len(results) == 1


# The total of the blocks before each one, which its own part is added to behind the turn.
CHAINED = """
kernel k(x: tensor[f32, M, 32], total: tensor[f32, 1, 32], c: tensor[i32, 1], y: tensor[f32, M, 32]):
    grid(ceildiv(M, 32))
    role compute(warps=1):
        row = block.x * 32
        v = registers(load(x[row, 0], 32, 32))
        with semaphore(c[0], block.x, grid.x):
            before = registers(load(total[0, 0], 32, 32))
            first = load(total[0, 0])
            store.direct(total[0, 0], column_sum(v), reduce="add")
        store.direct(y[row, 0], v + column_sum(before) + 0.0 * first)
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_what_was_read_in_a_turn_is_used_behind_it(timing: str) -> None:
    """Registers hold what memory held then, whatever later blocks have added since."""
    x = np.random.default_rng(2).integers(-3, 4, (128, 32)).astype(np.float32)
    y, total, c = np.zeros_like(x), np.zeros((1, 32), np.float32), np.zeros(1, np.int32)
    pipec.compile(CHAINED)["k"](x, total, c, y, device="sim", options=on(timing))
    parts = x.reshape(4, 32, 32).sum(1)
    np.testing.assert_array_equal(y, x + np.repeat(np.cumsum(parts, 0) - parts, 32, 0))


# The blocks of a row add up in the order of their turn: y = (((0 * 2 + x0) * 2 + x1) * 2 + ...), which no other order gives.
ORDERED = """
kernel k(x: tensor[f32, B, 128, 32], y: tensor[f32, 128, 32], c: tensor[i32, T]):
    GRID
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
        LOOP
            with ring.produce() as s:
                tma.load(s.x, x[PLACE, 0, 0])
    role compute(warps=4) consumes ring:
        LOOP
            with ring.consume() as s, semaphore(c[T - 1], TURN, B):
                STORE(y[0, 0], load(y[0, 0], 128, 32) * 2.0 + s.x)
"""
ONE_EACH = {"GRID": "grid(1, 1, B)", "LOOP": "if True:", "PLACE": "block.z", "TURN": "block.z", "STORE": "store"}
PERSISTENT = {
    "GRID": "grid(min(B, 1))",
    "LOOP": "for t in range(block.x, B, grid.x):",
    "PLACE": "t",
    "TURN": "t",
    "STORE": "store",
}
LINES = {
    "GRID": "grid(1, 3, 2)",
    "LOOP": "if True:",
    "PLACE": "block.z * 3 + block.y",
    "TURN": "block.z * 3 + block.y",
    "STORE": "store",
    ", B)": ", 6)",
}


def ordered(**parts: str) -> str:
    source = ORDERED
    for name, text in parts.items():
        source = source.replace(name, text)
    return source


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize("parts", [ONE_EACH, LINES, PERSISTENT], ids=["a block each", "along two axes", "persistent"])
def test_each_block_sees_what_earlier_ones_wrote(parts: dict[str, str], store: str, timing: str) -> None:
    x = np.random.default_rng(1).integers(-3, 4, (6, 128, 32)).astype(np.float32)
    y, c = np.zeros((128, 32), np.float32), np.zeros(3, np.int32)
    program = pipec.compile(ordered(**{**parts, "STORE": store}), allow_undecided=parts is PERSISTENT)
    assert program.cubin()
    program["k"](x, y, c, device="sim", options=on(timing))
    expected = np.zeros((128, 32))
    for part in x:
        expected = expected * 2 + part
    assert np.array_equal(y, expected) and not c.any()


ONE_WARP = """
kernel k(x: tensor[f32, B, 128, 32], y: tensor[f32, 128, 32], c: tensor[i32, 1]):
    grid(1, 1, B)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.z, 0, 0])
    role add(warps=1) consumes ring:
        with ring.consume() as s, semaphore(c[0], block.z, B):
            if block.z == 0:
                tma.store(y[0, 0], s.x)
            else:
                tma.store(y[0, 0], s.x, reduce="add")
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_a_role_of_one_thread_takes_turns(timing: str) -> None:
    x = np.random.default_rng(1).integers(-3, 4, (5, 128, 32)).astype(np.float32)
    y, c = np.full((128, 32), np.nan, np.float32), np.zeros(1, np.int32)
    program = pipec.compile(ONE_WARP)
    assert program.cubin() and "bar.sync 1" not in program.ptx
    program["k"](x, y, c, device="sim", options=on(timing))
    assert np.array_equal(y, x.sum(0)) and not c.any()


def test_a_turn_that_no_block_gives_never_comes() -> None:
    """Whatever the order of blocks, and however many run at once: the first turn is nobody's."""
    with pytest.raises(pipec.CompileError) as caught:
        pipec.compile(ordered(**{**ONE_EACH, "TURN": "block.z + 1"}), allow_undecided=True)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E0617"]


def test_the_verdict_says_what_it_rests_on() -> None:
    report = pipec.compile(ordered(**ONE_EACH)).report["k"]
    assert any("if blocks start in the order of their numbers, and their turns" in proof for proof in report.proofs)


def test_turns_in_a_loop_are_not_called_proved() -> None:
    report = pipec.compile(ordered(**PERSISTENT), allow_undecided=True).report["k"]
    assert not any("protocol" in proof for proof in report.proofs)
    with pytest.raises(pipec.CompileError) as caught:
        pipec.compile(ordered(**PERSISTENT))
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E0604"]


@pytest.mark.parametrize("place", ["cta.z", "cluster.z"])
def test_a_counter_that_moves_with_the_block_orders_nothing(place: str) -> None:
    """Where a block stands in its cluster says where it stands in the grid, under another name."""
    text = ONE_WARP.replace("c[0]", f"c[{place}]").replace("    role load", "    cluster(1, 1, 2)\n\n    role load", 1)
    with pytest.raises(pipec.CompileError) as caught:  # blocks with different counters store to one place
        pipec.compile(text, allow_undecided=True)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E0618"]
