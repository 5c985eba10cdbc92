"""A role takes turns, and others do the work: what they have stored is complete when the turn is passed on, if they hand it back before."""

import numpy as np
import pytest

import pipec
from pipec.runtime import LaunchOptions
from pipec.sim import Options

# y is doubled and added to in each turn: only one order gives this.
KERNEL = """
kernel k(x: tensor[f32, 4, 64, 64], y: tensor[f32, 64, 64], turns: tensor[i32, 1]):
    grid(1, 1, 4)
{pipelines}
    role take(warps=1) {takes}:
        with semaphore(turns[0], block.z, 4):
            {turn}
{roles}
"""
WORK = "load(y[0, 0], 64, 64) * 2.0 + load(x[block.z, 0, 0], 64, 64)"
BATONS = """
    go = ProducerConsumerPipeline(stages=1)
    done = ProducerConsumerPipeline(stages=1)"""
BETWEEN = BATONS + "\n    stored = ProducerConsumerPipeline(stages=1)"
RING = "    go = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=1)"
SIGNALS = """with go.produce() as s: pass
            with done.consume() as s: pass"""
FILLS = """with go.produce() as s:
                {fill}
            go.drain_producer()"""
STORES = """
    role work(warps=4) consumes go produces {back}:
        with go.consume() as s:
            with {back}.produce() as t:
                {store}"""
PASSES = """
    role between(warps=1) consumes stored produces done:
        with stored.consume() as s:
            with done.produce() as t: pass"""
BULK, DIRECT = f"store(y[0, 0], {WORK})", f"store.direct(y[0, 0], {WORK})"
KERNELS = {
    "handed back": KERNEL.format(
        pipelines=BATONS, takes="produces go consumes done", turn=SIGNALS, roles=STORES.format(back="done", store=BULK)
    ),
    "handed back by threads": KERNEL.format(
        pipelines=BATONS, takes="produces go consumes done", turn=SIGNALS, roles=STORES.format(back="done", store=DIRECT)
    ),
    "through a third role": KERNEL.format(
        pipelines=BETWEEN, takes="produces go consumes done", turn=SIGNALS, roles=STORES.format(back="stored", store=BULK) + PASSES
    ),
    "drained": KERNEL.format(
        pipelines=RING, takes="produces go", turn=FILLS.format(fill="tma.load(s.x, x[block.z, 0, 0])"),
        roles="""
    role work(warps=4) consumes go:
        with go.consume() as s:
            store(y[0, 0], load(y[0, 0], 64, 64) * 2.0 + s.x)"""
    ),
    "loaded as well": KERNEL.format(
        pipelines=RING, takes="produces go", turn=FILLS.format(fill="tma.load(s.x, y[0, 0])"),
        roles="""
    role work(warps=4) consumes go:
        with go.consume() as s:
            store.direct(y[0, 0], s.x * 2.0 + load(x[block.z, 0, 0], 64, 64))"""
    ),
}  # fmt: skip


@pytest.mark.parametrize(("timing", "seed"), [("late", 0), ("random", 1), ("random", 2)])
@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_the_next_block_finds_it(text: str, timing: str, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-4, 5, (4, 64, 64)).astype(np.float32)
    y, turns = np.zeros((64, 64), np.float32), np.zeros(1, np.int32)
    pipec.compile(text)["k"](x, y, turns, device="sim", options=LaunchOptions(simulation=Options(timing=timing, seed=seed)))
    assert np.array_equal(y, 8 * x[0] + 4 * x[1] + 2 * x[2] + x[3])
    assert not turns.any()


WAITS = "cp.async.bulk.wait_group \t0;"


def test_others_that_store_elsewhere_are_not_waited_for() -> None:
    """What blocks store in rows of their own needs no order among them."""
    text = KERNELS["handed back"]
    apart = (
        text.replace(WORK, "fill(1.0, f32, 64, 64)")
        .replace("y: tensor[f32, 64", "y: tensor[f32, 4, 64")
        .replace("y[0", "y[block.z, 0")
    )
    assert WAITS in pipec.compile(text).ptx
    assert WAITS not in pipec.compile(apart).ptx
