"""A bound that is loaded twice is the same number only if nothing writes its tensor in between, through whatever parameter."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

KERNEL = """
kernel k(ix: tensor[i32, C, 64], z: tensor[i32, C, 64], w: tensor[i32, C, 64]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    before = ProducerConsumerPipeline(stages=1)
    after = ProducerConsumerPipeline(stages=1)
    t = InputTilePipeline(TilePayload(x=tile[i32, 4, 64]), stages=1)

    role fetch(warps=1) produces t:
        with t.produce() as s:
            tma.load(s.x, z[0, 0])

    role put(warps=1) consumes t, before produces after:
        before.consumer_signal_and_step()
        with t.consume() as s:
            {store}
        after.producer_signal_and_step()

    role a(warps=1) produces p, before:
        n = load(ix[0, 0])
        before.producer_signal_and_step()
        for i in range(n):
            p.producer_signal_and_step()

    role b(warps=1) consumes p, after:
        after.consumer_signal_and_step()
        n = load(ix[0, 0])
        for i in range(n):
            p.consumer_signal_and_step()
"""


@pytest.mark.parametrize(
    ("store", "proved"),
    [
        ("tma.store({}[0, 0], s.x)", "w"),
        ("store.direct({}[0, 0], s.x)", "w"),
        ('tma.store({}[0, 0], s.x, reduce="add")', "w"),
    ],
    ids=["copied through a map", "stored through a pointer", "added through a map"],
)
def test_a_bound_that_changes_is_not_one_number(store: str, proved: str) -> None:
    """Every access is ordered by the hand-overs, yet one role finds the old bound and the other the new one."""
    for tensor, outcome in ((proved, "proved"), ("ix", "open")):
        text = KERNEL.replace("{store}", store.format(tensor))
        state = compile_source(Source("bound.pipe", text), Options("sm_100a", allow_undecided=True))
        assert not state.failed, state.diagnostics
        assert state.protocol["k"].outcome == outcome, tensor
