"""Data that go from thread to thread: what nothing orders is refused, and what is ordered gives the right numbers whatever the timing."""

from collections.abc import Callable

import numpy as np
import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.source import Source

X = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 97
Wanted = Callable[[], np.ndarray]


def compiled(body: str, grid: str = "grid(1)", more: str = "") -> Compilation:
    head = f"kernel k(x: tensor[f32, 64, 64], d: tensor[f32, 64, 64], y: tensor[f32, 64, 64]{more}):\n    {grid}\n"
    return compile_source(
        Source("k.pipe", head + "\n".join(f"    {line}" for line in body.strip("\n").split("\n")) + "\n"), Options()
    )


def codes(state: Compilation) -> list[str]:
    return [one.code for one in state.diagnostics]


IN_ROLE = (
    "role a(warps={warps}):\n    {store}(d[0, 0], load(x[0, 0], 64, 64) + 1.0)\n    store(y[0, 0], load(d[0, 0], 64, 64) * 2.0)"
)
ACROSS = """p = ProducerConsumerPipeline(stages={stages})
role a(warps=4) produces p:
    {before}
    p.producer_signal_and_step()
    {after}
role b(warps=2) consumes p:
    {early}
    p.consumer_signal_and_step()
    {late}
"""
STORE, LOAD = "store.direct(d[0, 0], load(x[0, 0], 64, 64))", "store(y[0, 0], load(d[0, 0], 64, 64))"
COPIED = """p = ProducerConsumerPipeline(stages=1)
q = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=1)
role a(warps=4) produces p consumes q:
    store.direct(d[0, 0], load(x[0, 0], 64, 64))
    p.producer_signal_and_step()
    with q.consume() as s:
        store(y[0, 0], s.x)
role b(warps=1) consumes p produces q:
"""
WAIT, COPY = "    p.consumer_signal_and_step()\n", "    with q.produce() as s:\n        tma.load(s.x, d[0, 0])\n"
TURNS = """p = ProducerConsumerPipeline(stages={stages})
role a(warps=4) produces p:
    for i in range(3):
        with p.produce():
            store.direct(d[0, 0], load(x[0, 0], 64, 64) + 1.0 * cast[f32](i))
role b(warps=4) consumes p:
    for i in range(3):
        with p.consume():
            store.direct(y[0, 0], load(d[0, 0], 64, 64))
"""
HOPS = """p = ProducerConsumerPipeline(stages=1)
q = ProducerConsumerPipeline(stages=1)
role a(warps=4) produces p:
    store.direct(d[0, 0], load(x[0, 0], 64, 64))
    p.producer_signal_and_step()
role b(warps=1) consumes p produces q:
    {first}
    {second}
role c(warps=4) consumes q:
    q.consumer_signal_and_step()
    store(y[0, 0], load(d[0, 0], 64, 64))
"""
TAKE, GIVE = "p.consumer_signal_and_step()", "q.producer_signal_and_step()"
RELEASED = """q = InputTilePipeline(TilePayload(x=tile[f32, 64, 64]), stages=1)
role a(warps=1) produces q:
    with q.produce() as s:
        tma.load(s.x, x[0, 0])
role b(warps=4) consumes q:
    s = q.acquire_consumer()
    v = {value}
    s.release()
    store.direct(y[0, 0], v)
"""


def sub_stages(filled: int, read: int) -> str:
    fill = [f"write(t[h.index[{part}]()], load(x[i * 32, 0], 32, 64))" if part == filled else "pass" for part in (0, 1)]
    take = [f"store(y[i * 32, 0], t[h.index[{part}]()])" if part == read else "pass" for part in (0, 1)]
    return f"""h = RolePipeline(stages=2, producer_sub_stages=2, consumer_sub_stages=2)
t = SharedTiles(tile[f32, 32, 64], count=2)
role a(warps=1) produces h:
    for i in range(2):
        h.acquire[0]()
        {fill[0]}
        h.producer_mbar[0]().arrive()
        h.acquire[1]()
        {fill[1]}
        h.producer_mbar[1]().arrive()
        h.step()
role b(warps=1) consumes h:
    for i in range(2):
        h.wait[0]()
        {take[0]}
        h.release_no_step[0]()
        h.wait[1]()
        {take[1]}
        h.release[1]()
"""


def across(before: str = "pass", after: str = "pass", early: str = "pass", late: str = "pass") -> str:
    return ACROSS.format(stages=1, before=before, after=after, early=early, late=late)


def narrow(columns: int) -> np.ndarray:
    return np.hstack([X[:, :columns] + 1, np.zeros((64, 64 - columns), np.float32)])


RIGHT: dict[str, tuple[str, Wanted]] = {
    **{
        f"stored by {warps} warps, {store}": (IN_ROLE.format(warps=warps, store=store), lambda: (X + 1) * 2)
        for warps in (1, 4)
        for store in ("store", "store.direct")
    },
    "handed over": (across(before=STORE, late=LOAD), lambda: X),
    "handed over to a copy": (COPIED + WAIT + COPY, lambda: X),
    "handed over twice": (HOPS.format(first=TAKE, second=GIVE), lambda: X),
    "by turns": (TURNS.format(stages=1), lambda: X + 2),
    "sub-stage 0": (sub_stages(0, 0), lambda: X),
    "sub-stage 1": (sub_stages(1, 1), lambda: X),
    "kept in registers": (RELEASED.format(value="registers(s.x)"), lambda: X),
    **{
        f"{columns} columns": (
            f"role a(warps=4):\n    store.direct(y[0, 0], load(x[0, 0], 64, {columns}) + 1.0)",
            lambda columns=columns: narrow(columns),  # type: ignore[misc]
        )
        for columns in (1, 2, 4, 6, 12)
    },
}
WRONG = {
    "stored after the hand-over": (across(after=STORE, late=LOAD), "E0614"),
    "loaded before the hand-over": (across(before=STORE, early=LOAD), "E0614"),
    "stored after, loaded before": (across(after=STORE, early=LOAD), "E0614"),
    "copied before the hand-over": (COPIED + COPY + WAIT, "E0614"),
    "handed on before it came": (HOPS.format(first=GIVE, second=TAKE), "E0614"),
    "a turn ahead": (TURNS.format(stages=2), "E0614"),
    "sub-stage 1 for 0": (sub_stages(0, 1), "E0339"),
    "sub-stage 0 for 1": (sub_stages(1, 0), "E0339"),
    "read after the release": (RELEASED.format(value="s.x + 1.0"), "E0304"),
}
CLUSTER = """p = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2, scope="cluster")
q = ProducerConsumerPipeline(stages=2)
role b(warps=1) produces q:
    if {who}:
        store.direct(ix[0, 0], fill(3, i32, 4, 64))
    q.producer_signal_and_step()
role a(warps=1) produces p consumes p, q:
    q.consumer_signal_and_step()
    for i in range({bound}):
        with p.produce() as s:
            write(s.x, fill(1.0, f32, 32, 64))
        with p.consume() as s:
            store(y[cta.rank * 32, 0], s.x.of(1 - cta.rank))
"""


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_ordered_is_right(name: str) -> None:
    text, wanted = RIGHT[name]
    state = compiled(text)
    assert codes(state) == [] and state.protocol["k"].outcome == "proved"
    interface = state.plans[0].interface
    for timing in ("late", "random"):
        arrays = {"x": X.copy(), "d": np.zeros_like(X), "y": np.zeros_like(X)}
        given = {one.name: arrays[one.name] for one in interface.arguments}
        launch(interface, state.ptx, given, device="sim", options=LaunchOptions(Simulation(timing=timing, seed=1)))
        np.testing.assert_array_equal(arrays["y"], wanted())


@pytest.mark.parametrize("name", WRONG)
def test_unordered_accesses_are_refused(name: str) -> None:
    text, code = WRONG[name]
    assert codes(compiled(text)) == [code]


@pytest.mark.parametrize("who", ["cta.rank == 1", "cta.rank >= 0", "block.x == 0"])
@pytest.mark.parametrize("bound", ["load(ix[0, 0])", "load(ix[1, 0]) + 1"])
def test_what_a_cta_can_change_is_not_the_same_in_all(who: str, bound: str) -> None:
    state = compiled(CLUSTER.format(who=who, bound=bound), "grid(2)\n    cluster(2)", ", ix: tensor[i32, 4, 64]")
    assert codes(state) == ["E0603"]
