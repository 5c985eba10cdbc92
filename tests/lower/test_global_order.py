"""What a kernel stores to global memory, and what it loads again: in the order of its statements and hand-overs."""

import re

import numpy as np
import pytest
from running import compiled, values

import pipec
from pipec.runtime.launcher import LaunchOptions
from pipec.sim import Options

TIMINGS = [("order", 0), ("late", 0), *(("random", seed) for seed in range(3))]


def launch(source: str, timing: tuple[str, int], *arguments: np.ndarray) -> None:
    options = LaunchOptions(simulation=Options(timing=timing[0], seed=timing[1]))
    compiled(source)["k"](*arguments, device="sim", options=options)


def statements(source: str, pattern: str) -> list[str]:
    return [line.strip() for line in compiled(source).ptx.splitlines() if re.search(pattern, line)]


STORE_THEN_LOAD = """
kernel k(x: tensor[f32, 64, 64], y: tensor[f32, 64, 64], w: tensor[f32, 64, 64]):
    grid(1)
    role all(warps=2):
        {store}(y[0, 0], load(x[0, 0], 64, 64) * 2.0)
        store(w[0, 0], load(y[{row}, 0], 64, 64) + 1.0)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize("row", [0, 32])
def test_a_role_loads_what_it_stored_before(store: str, row: int, timing: tuple[str, int]) -> None:
    x = values((64, 64), "f32", 1)
    y, w = np.zeros_like(x), np.zeros_like(x)
    launch(STORE_THEN_LOAD.format(store=store, row=row), timing, x, y, w)
    expected = np.zeros_like(x)
    expected[: 64 - row] = 2 * x[row:]
    np.testing.assert_array_equal(w, expected + 1)


OTHER_ROLE = """
kernel k(x: tensor[f32, 64, 64], y: tensor[f32, 64, 64], w: tensor[f32, 64, 64]):
    grid(1)
    done = ProducerConsumerPipeline(stages=1)
    relayed = ProducerConsumerPipeline(stages=1)
    role one(warps=2) produces done:
        {store}(y[0, 0], load(x[0, 0], 64, 64) * 2.0)
        done.producer_signal_and_step()
    role relay(warps=1) consumes done produces relayed:
        done.consumer_signal_and_step()
        relayed.producer_signal_and_step()
    role two(warps=2) consumes relayed:
        relayed.consumer_signal_and_step()
        store(w[0, 0], load(y[0, 0], 64, 64) + 1.0)
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("store", ["store", "store.direct"])
def test_a_role_loads_what_others_stored_before_they_handed_over(store: str, timing: tuple[str, int]) -> None:
    x = values((64, 64), "f32", 1)
    y, w = np.zeros_like(x), np.zeros_like(x)
    launch(OTHER_ROLE.format(store=store), timing, x, y, w)
    np.testing.assert_array_equal(w, 2 * x + 1)


# The threads of one role store, another copies by TMA: between the proxies there is a fence of those who stored.
COPIED = """
kernel k(x: tensor[f32, M, 64], w: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    done = ProducerConsumerPipeline(stages=3)
    input = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2)
    role fill(warps=4) produces done:
        for i in range(ceildiv(M, 32)):
            with done.produce():
                store.direct(w[i * 32, 0], load(x[i * 32, 0], 32, 64))
    role copy(warps=1) consumes done produces input:
        for i in range(ceildiv(M, 32)):
            with done.consume(), input.produce() as s:
                tma.load(s.x, w[i * 32, 0])
    role drain(warps=4) consumes input:
        for i in range(ceildiv(M, 32)):
            with input.consume() as s:
                store(y[i * 32, 0], s.x)
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_copies_see_what_threads_stored(timing: tuple[str, int]) -> None:
    x = values((160, 64), "f32", 1)
    w, y = np.zeros_like(x), np.zeros_like(x)
    launch(COPIED, timing, x, w, y)
    np.testing.assert_array_equal(y, x)


def test_threads_fence_what_copies_are_to_see() -> None:
    found = statements(COPIED, r"^\s*(st\.global|@\S+ st\.global|fence\.proxy\.async\.global|mbarrier\.arrive\.shared)")
    arrival = next(place for place, line in enumerate(found) if line.startswith("mbarrier"))
    assert any("st.global" in line for line in found[:arrival])
    assert found[arrival - 1].startswith("fence.proxy.async.global")


# One tile of scratch memory, taken in turns: the pipeline has one stage, and both hold it.
SCRATCH = """
kernel k(x: tensor[f32, M, 64], w: tensor[f32, 32, 64], y: tensor[f32, M, 64]):
    grid(1)
    turn = ProducerConsumerPipeline(stages=1)
    role fill(warps=2) produces turn:
        for i in range(ceildiv(M, 32)):
            with turn.produce():
                {store}(w[0, 0], load(x[i * 32, 0], 32, 64) * 3.0)
    role drain(warps=4) consumes turn:
        for i in range(ceildiv(M, 32)):
            with turn.consume():
                store(y[i * 32, 0], load(w[0, 0], 32, 64))
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("store", ["store", "store.direct"])
def test_scratch_memory_in_turns(store: str, timing: tuple[str, int]) -> None:
    x = values((160, 64), "f32", 1)
    w, y = np.zeros((32, 64), np.float32), np.zeros_like(x)
    launch(SCRATCH.format(store=store), timing, x, w, y)
    np.testing.assert_array_equal(y, 3 * x)


IN_PLACE = """
kernel k(y: tensor[f32, M, 64]):
    grid(1)
    input = InputTilePipeline(TilePayload(y=tile[f32, 32, 64]), stages=3)
    role load(warps=1) produces input:
        for i in range(ceildiv(M, 32)):
            with input.produce() as s:
                tma.load(s.y, y[i * 32, 0])
    role compute(warps=4) consumes input:
        for i in range(ceildiv(M, 32)):
            with input.consume() as s:
                store(y[i * 32, 0], s.y + 1.0)
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_a_tensor_is_changed_in_place(timing: tuple[str, int]) -> None:
    y = values((160, 64), "f32", 1)
    expected = y + 1
    launch(IN_PLACE, timing, y)
    np.testing.assert_array_equal(y, expected)


# A block that changes its own tile, each element in the thread that loaded it: nothing to order.
OWN_ELEMENTS = """
kernel k(y: tensor[f32, M, 64]):
    grid(ceildiv(M, 64))
    role all(warps=4):
        {before}for i in range(2):
            store.direct(y[block.x * 64 + i * 32, 0], load(y[block.x * 64 + i * 32, 0], 32, 64) * 2.0)
"""


@pytest.mark.parametrize("timing", TIMINGS)
def test_elements_that_a_thread_has_to_itself(timing: tuple[str, int]) -> None:
    y = values((160, 64), "f32", 1)
    expected = 2 * y
    launch(OWN_ELEMENTS.format(before=""), timing, y)
    np.testing.assert_array_equal(y, expected)


def test_disjoint_accesses_cost_nothing() -> None:
    assert statements(OWN_ELEMENTS.format(before=""), r"fence\.proxy|bar(rier)?\.sync\s+1") == []


def test_stores_to_one_place_keep_their_order() -> None:
    source = OWN_ELEMENTS.format(before="store(y[block.x * 64, 0], fill(7.0, f32, 64, 64))\n        ")
    for timing in TIMINGS:
        y = values((64, 64), "f32", 1)
        launch(source, timing, y)
        np.testing.assert_array_equal(y, np.full_like(y, 14))


# The place does not depend on the inner loop; where it lies is the scheduler's answer, which nothing is known of.
AGAIN = """
kernel again(x: tensor[f32, M, 32], y: tensor[f32, M, 32]):
    tiles = TileScheduler(ceildiv(M, 32), mode="{mode}", blocks=2)
    role one(warps=1):
        for tile in tiles:
            for i in range(3):
                store(y[tile.x * 32, 0], load(x[tile.x * 32, 0], 32, 32) * cast[f32](i))
"""


@pytest.mark.parametrize("mode", ["static", "clc"])
def test_a_bulk_store_to_the_same_place_waits_for_the_one_before(mode: str) -> None:
    ptx = pipec.compile(AGAIN.format(mode=mode)).ptx
    body = ptx[: ptx.index("cp.async.bulk.tensor.2d.global")]
    assert re.search(r"cp\.async\.bulk\.wait_group\s+0;", body)


OWN_VECTORS = """
kernel k(x: tensor[f32, M, 64], rows: tensor[f32, R], columns: tensor[f32, 1, 64], both: tensor[f32, R, 64]):
    grid(1)
    role all(warps={warps}):
        for i in range(M // {count}):
            t = registers(load(x[i * {count}, 0], {count}, 64))
            store.direct(rows[0], per_row(rows[0], {count}) + row_sum(t))
            store.direct(columns[0, 0], per_column(columns[0, 0], 64) * 2.0 + column_sum(t * per_column(columns[0, 0], 64)))
            store.direct(both[0, 0], load(both[0, 0], {count}, 64) + t * per_row(rows[0], {count}))
"""


@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize(("warps", "count"), [(4, 128), (4, 32), (1, 64), (8, 128)])
def test_a_statement_loads_just_what_it_stores(warps: int, count: int, timing: tuple[str, int]) -> None:
    """In each turn of a loop, also where several threads have a row between them. What is below a reduction is loaded before."""
    x = values((3 * count, 64), "f32", 6)
    rows, columns, both = np.zeros(count, np.float32), np.ones((1, 64), np.float32), np.zeros((count, 64), np.float32)
    launch(OWN_VECTORS.format(warps=warps, count=count), timing, x, rows, columns, both)
    sums, product, total = np.zeros_like(rows), np.ones(64, np.float32), np.zeros_like(both)
    for t in x.reshape(3, count, 64):
        sums += t.sum(axis=1)
        product = product * 2 + (t * product).sum(axis=0)
        total += t * sums[:, None]
    assert np.array_equal(rows, sums) and np.array_equal(columns[0], product) and np.array_equal(both, total)
