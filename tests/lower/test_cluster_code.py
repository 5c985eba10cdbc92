"""Clusters and pairs of CTAs beyond what the examples hold, in the simulator against NumPy."""

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from running import compiled, exact, run, values

import pipec
from pipec.driver import compile_source
from pipec.runtime import launch
from pipec.sim import SimulationError
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"
GOLDENS = Path(__file__).parents[1] / "golden"

# The MMA role counts its steps itself, so only at run time is it known whether any MMA ran.
PAIR = """
kernel pair(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    cluster(2)
    grid(2 * ceildiv(M, 256), ceildiv(N, 64))
    input  = InputTilePipeline(StandardTilePayload(a=tile[bf16, 128, 64], b=tile[bf16, 32, 64]), stages=2, cta_group=2)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1, cta_group=2, mma_complete_mask=0b11)
    input.init_barriers(1, 1)
    output.get_pipeline().init_barriers(1, 2)

    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            s = input.acquire_producer()
            s.expect_bytes(2 * (128 + 32) * 64 * 2)
            tma.load(s.a, a[block.x * 128, k * 64], s.mbar())
            tma.load(s.b, b[block.y * 64 + cta.x * 32, k * 64])
            s.release()

    role mma(warps=1, on="leader") consumes input produces output:
        acc = output.acquire_mma_linear()
        k = 0
        while k * 64 < K:
            s = input.acquire_consumer()
            mma(acc, s.a, s.b)
            mma.commit(s.mbar())
            s.release()
            k += 1
        acc.release()

    role epilogue(warps=4) consumes output:
        acc = output.acquire_epilogue_linear()
        store(d[block.x * 128, block.y * 64], acc)
        acc.release()
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("shape", [(256, 64, 192), (200, 72, 0), (264, 8, 64)])
def test_a_pair_learns_at_run_time_whether_there_is_a_product(shape: tuple[int, int, int], timing: str) -> None:
    m, n, k = shape
    a, b, d = values((m, k), "bf16", 1), values((n, k), "bf16", 2), np.full((m, n), 9, np.float32)
    run(PAIR, "pair", a, b, d, timing=timing)
    np.testing.assert_array_equal(d, exact(a) @ exact(b).T)


# RolePipelines between the CTAs of a pair, in clusters of two pairs that share the rows of A; each epilogue thread gives two halves back.
ROLES = """
kernel roles(a: tensor[bf16, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    cluster(2, 2)
    grid(2 * ceildiv(M, 256), 2 * ceildiv(N, 128))
    input  = RolePipeline(stages=2, cta_group=2)
    at     = SharedTiles(tile[bf16, 128, 64], count=2)
    bl     = SharedTiles(tile[bf16, 16, 64], count=2)
    br     = SharedTiles(tile[bf16, 16, 64], count=2)
    output = RolePipeline(stages=1, consumer_sub_stages=2, cta_group=2)
    left   = TensorTiles(tmem[f32, 128, 32], count=1)
    right  = TensorTiles(tmem[f32, 128, 32], count=1)

    role load(warps=1) produces input:
        for k in range(ceildiv(K, 64)):
            input.acquire()
            tma.load(at[input.index()], a[block.x * 128, k * 64], multicast="y")
            tma.load(bl[input.index()], b[block.y * 64 + cta.x * 16, k * 64])
            tma.load(br[input.index()], b[block.y * 64 + 32 + cta.x * 16, k * 64])
            input.step()

    role mma(warps=1, on="leader") consumes input produces output:
        output.acquire[0]()
        output.acquire[1]()
        for k in range(ceildiv(K, 64)):
            input.wait()
            mma(left[output.index[0]()], at[input.index()], bl[input.index()])
            mma(right[output.index[1]()], at[input.index()], br[input.index()])
            input.release()
        output.commit_mma()
        output.step()

    role epilogue(warps=4) consumes output:
        output.wait()
        store(d[block.x * 128, block.y * 64], left[output.index[0]()])
        output.release_no_step[0]()
        store(d[block.x * 128, block.y * 64 + 32], right[output.index[1]()])
        output.release_no_step[1]()
        output.step()
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
@pytest.mark.parametrize("shape", [(512, 256, 192), (200, 72, 64)])
def test_role_pipelines_of_a_pair(shape: tuple[int, int, int], timing: str) -> None:
    m, n, k = shape
    a, b, d = values((m, k), "bf16", 1), values((n, k), "bf16", 2), np.full((m, n), 9, np.float32)
    run(ROLES, "roles", a, b, d, timing=timing)
    np.testing.assert_array_equal(d, exact(a) @ exact(b).T)


RING = """
kernel ring[CX: int = 4](x: tensor[f32, M, 32], y: tensor[f32, M, 32], rounds: i32):
    cluster(CX)
    grid(CX)
    hand = InputTilePipeline(TilePayload(x=tile[f32, 64, 32]), stages=2, scope="cluster")

    role fill_it(warps=2) produces hand:
        for turn in range(rounds):
            with hand.produce() as s:
                write(s.x, load(x[cta.x * 64, 0], 64, 32) * cast[f32](turn + 1))

    role work(warps=2) consumes hand:
        total = registers(fill(0.0, f32, 64, 32))
        for turn in range(rounds):
            with hand.consume() as s:
                total = total + s.x.of((cta.rank + turn) % CX)
        store.direct(y[cta.x * 64, 0], total)
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_each_cta_reads_every_other(timing: str) -> None:
    x, y = values((256, 32), "f32", 3), np.zeros((256, 32), np.float32)
    run(RING, "ring", x, y, 6, timing=timing)
    parts = x.reshape(4, 64, 32)
    expected = [sum((turn + 1) * parts[(rank + turn) % 4] for turn in range(6)) for rank in range(4)]
    np.testing.assert_array_equal(y, np.concatenate(expected))


SCATTERED = """
kernel reduce_scatter[CX: int = 4](x: tensor[f32, M, 64], y: tensor[f32, 64, 64]):
    cluster(CX, 2)
    grid(CX, 2)
    parts = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=1, scope="cluster")

    role fill_it(warps=2) produces parts:
        with parts.produce() as s:
            write(s.x, load(x[cta.rank * 32, 0], 32, 64))

    role add(warps=4) consumes parts:
        with parts.consume() as s:
            total = registers(fill(0.0, f32, 32, 16))
            for other in range(CX):
                total = total + columns(s.x.of(cta.y * CX + other), (CX - 1 - cta.x) * 16, 16)
        store.direct(y[cta.y * 32, 48 - cta.x * 16], total)
"""


@pytest.mark.parametrize("timing", ["late", "random"])
def test_each_cta_reads_its_own_columns_of_every_other(timing: str) -> None:
    x, y = values((256, 64), "f32", 4), np.zeros((64, 64), np.float32)
    run(SCATTERED, "reduce_scatter", x, y, timing=timing)
    np.testing.assert_array_equal(y, x.reshape(2, 4, 32, 64).sum(1).reshape(64, 64))


def test_a_grid_of_half_a_cluster_is_refused_before_the_launch() -> None:
    source = RING.replace("grid(CX)", "grid(rounds)").replace("y[cta.x * 64, 0]", "y[block.x * 64, 0]")
    arrays = values((256, 32), "f32", 3), np.zeros((256, 32), np.float32)
    with pytest.raises(pipec.runtime.ArgumentError, match="no multiple of the cluster's 4"):
        pipec.compile(source)["ring"](*arrays, 6, device="sim")


def test_memory_is_ordered_across_the_cluster_only_where_threads_read_what_other_ctas_wrote() -> None:
    """A release to the cluster is a fence of all memory: in the main loop of a GEMM it costs a third of its speed on an H200."""
    gemm = pipec.compile(EXAMPLES / "gemm_sm90_cluster.pipe").ptx
    assert "mbarrier.arrive.shared::cluster" in gemm
    assert ".release.cluster" not in gemm.replace("fence.mbarrier_init.release.cluster", "") and "acquire.cluster" not in gemm
    for source in (RING, PAIR):
        ptx = pipec.compile(source, allow_undecided=True).ptx
        assert "mbarrier.arrive.release.cluster.shared::cluster" in ptx or "fence.acq_rel.cluster" in ptx
        assert "mbarrier.try_wait.parity.acquire.cluster" in ptx


def test_a_signal_to_several_ctas_is_released_once() -> None:
    """Each release to the cluster is a fence of all memory, and they would wait for it one after the other."""
    program = pipec.compile(RING)
    assert ".release.cluster" not in program.ptx.replace("fence.mbarrier_init.release.cluster", "")
    assert program.ptx.count("mbarrier.arrive.relaxed.cluster") == 4 * program.ptx.count("fence.acq_rel.cluster") > 0
    unfenced = program.ptx.replace("fence.acq_rel.cluster;", "")
    x, y = values((256, 32), "f32", 3), np.zeros((256, 32), np.float32)
    with pytest.raises(SimulationError, match="the signal between them publishes nothing that threads wrote"):
        launch(program["ring"].interface, unfenced, (x, y, 6), device="sim")


# A is converted by warps of both CTAs before the pair multiplies it; B comes by TMA.
CONVERTED = """
kernel pair(a: tensor[f32, M, K], b: tensor[bf16, N, K], d: tensor[f32, M, N]):
    cluster(2)
    grid(2 * ceildiv(M, 256), ceildiv(N, 64))
    raw  = InputTilePipeline(TilePayload(a=tile[f32, 128, 32]), stages=2)
    left = InputTilePipeline(TilePayload(a=tile[bf16, 128, 32]), stages=2, cta_group=2)
    right = InputTilePipeline(TilePayload(b=tile[bf16, 32, 32]), stages=2, cta_group=2)
    output = OutputTilePipeline(tmem[f32, 128, 64], stages=1, cta_group=2)

    role load(warps=1) produces raw, right:
        for k in range(ceildiv(K, 32)):
            with raw.produce() as s:
                tma.load(s.a, a[block.x * 128, k * 32])
            with right.produce() as s:
                tma.load(s.b, b[block.y * 64 + cta.x * 32, k * 32])

    role convert(warps=4) consumes raw produces left:
        for k in range(ceildiv(K, 32)):
            with raw.consume() as r, left.produce() as s:
                write(s.a, cast[bf16](r.a))

    role mma(warps=1, on="leader") consumes left, right produces output:
        with output.produce() as acc:
            for k in range(ceildiv(K, 32)):
                with left.consume() as x, right.consume() as y:
                    mma(acc, x.a, y.b)

    role epilogue(warps=4) consumes output:
        with output.consume() as acc:
            store(d[block.x * 128, block.y * 64], acc)
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_tiles_that_threads_write_for_a_pair(timing: str) -> None:
    a, b, d = values((256, 96), "f32", 1), values((64, 96), "bf16", 2), np.zeros((256, 64), np.float32)
    run(CONVERTED, "pair", a, b, d, timing=timing)
    np.testing.assert_array_equal(d, exact(a) @ exact(b).T)


def test_one_thread_of_each_cta_releases_them_to_the_leader() -> None:
    ptx = pipec.compile(CONVERTED).ptx
    lines = [line.strip() for line in ptx.splitlines()]
    releases = [index for index, line in enumerate(lines) if "mbarrier.arrive.release.cluster" in line]
    assert len(releases) == 1
    before = lines[: releases[0]]
    meeting = max(index for index, line in enumerate(before) if line.startswith("bar.sync"))
    fence = max(index for index, line in enumerate(before) if line == "fence.proxy.async.shared::cta;")
    assert fence == meeting - 1, "what the threads wrote is fenced before they meet"
    # Both sides of `left`: the MMA's wait for full stages, the writers' for empty ones, and for the last of them before they end.
    assert ptx.count("mbarrier.try_wait.parity.acquire.cluster") == 3
    plans = compile_source(Source("pair.pipe", CONVERTED), until="plan").plans
    assert plans is not None
    assert {pipeline.name: row.count for (pipeline, side), row in plans[0].signals.items() if side == "producer"}["left"] == 2


def test_the_release_to_the_leader_is_needed() -> None:
    program = pipec.compile(CONVERTED)
    narrow = program.ptx.replace("mbarrier.arrive.release.cluster.shared::cluster", "mbarrier.arrive.shared::cluster")
    assert narrow != program.ptx
    a, b, d = values((256, 96), "f32", 1), values((64, 96), "bf16", 2), np.zeros((256, 64), np.float32)
    with pytest.raises(SimulationError, match="its scope too narrow"):
        launch(program["pair"].interface, narrow, (a, b, d), device="sim")


# What reaches a barrier of another CTA, with the scope of the signal.
_REMOTE = re.compile(r"mbarrier\.arrive(?P<semantics>\.release\.cluster|\.relaxed\.cluster)?\.shared::cluster")


def test_signals_between_ctas_order_memory_on_both_sides_or_on_neither() -> None:
    """A release to the cluster is worth its fence only if somebody acquires there, and threads that read or write another CTA's memory
    need both; TMA and the tensor cores need neither."""
    crossing = ordering = 0
    for path in GOLDENS.glob("*.ptx"):
        for text in path.read_text().split(".visible .entry")[1:]:
            signals = {found["semantics"] for found in _REMOTE.finditer(text)}
            fenced = "fence.acq_rel.cluster;" in text
            assert (".relaxed.cluster" in signals) == fenced, path.name
            releases = fenced or ".release.cluster" in signals
            assert releases == ("mbarrier.try_wait.parity.acquire.cluster" in text), path.name
            if re.search(r"\b(ld|st)\.shared::cluster", text):
                assert releases, path.name
            crossing += bool(signals)
            ordering += releases
    assert crossing >= 8 and ordering >= 2


def test_tensor_memory_is_handed_to_the_leader_without_a_fence_of_all_memory() -> None:
    """Threads of both CTAs write the probabilities, which the leader's MMAs read: fences of tcgen05 order them, not the signal."""
    ptx = pipec.compile(EXAMPLES / "attention.pipe", constants={"CTAS": 2}).ptx
    assert "mbarrier.arrive.shared::cluster" in ptx
    assert "mbarrier.arrive.release.cluster" not in ptx and "acquire.cluster" not in ptx
    # In each role that writes or reads them: the fence stands in front of the signal, and behind the wait.
    for writer in ptx.split("tcgen05.wait::st.sync.aligned;")[1:]:
        assert "tcgen05.fence::before_thread_sync" in writer.partition("mbarrier.arrive")[0]


def test_ctas_meet_before_they_allocate_together_and_publish_nothing_by_it() -> None:
    """A pair's allocation needs both CTAs launched; a releasing arrival would cost every thread a fence of all memory. It is paid
    once, at the end, where a signal of a thread may still be on its way to a CTA: not in the GEMMs of pairs."""
    pairs, unfenced = 0, set()
    for path in GOLDENS.glob("*.ptx"):
        for text in path.read_text().split(".visible .entry")[1:]:
            arrivals = re.findall(r"barrier\.cluster\.arrive(\.relaxed)?\.aligned", text)
            assert arrivals in ([], [".relaxed", ""], [".relaxed", ".relaxed"]), path.name
            if arrivals[1:] == [".relaxed"]:
                unfenced.add(path.stem)
            before, allocates, _ = text.partition("tcgen05.alloc.cta_group::2")
            if allocates:
                pairs += 1
                assert before.count("barrier.cluster.wait") == 1, path.name
    assert pairs >= 4
    assert unfenced == {"gemm_2cta", "gemm_2cta_persistent", "gemm_mxfp8_2cta", "gemm_nvfp4_2cta"}


def test_without_the_fence_somebody_has_to_wait_for_the_last_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader's wait is what makes the relaxed barrier at the end safe: the simulator objects to the barrier alone."""
    a, b, d = (np.zeros(shape, ml_dtypes.bfloat16) for shape in ((256, 64), (256, 64), (256, 256)))
    pipec.compile(EXAMPLES / "gemm_2cta.pipe")["gemm_2cta"](a, b, d, device="sim")
    monkeypatch.setattr("pipec.kir.plan.exit._released_to_leaders", lambda *_: [])
    with pytest.raises(SimulationError, match="nothing orders it before the exit"):
        pipec.compile(EXAMPLES / "gemm_2cta.pipe")["gemm_2cta"](a, b, d, device="sim")


def test_one_thread_of_each_cta_gives_the_accumulator_back() -> None:
    """Behind the meeting of the threads that have read it, and with their reads fenced in front of that."""
    lines = [line.strip() for line in pipec.compile(CONVERTED).ptx.splitlines()]
    (given,) = (at for at, line in enumerate(lines) if "mbarrier.arrive.shared::cluster" in line)
    before = [line for line in lines[:given] if not line.startswith(".loc")]
    meeting = max(at for at, line in enumerate(before) if line.startswith("bar.sync"))
    assert before[meeting - 1] == "tcgen05.fence::before_thread_sync;"
    assert lines[given].startswith("@%p"), "one thread arrives"
    plans = compile_source(Source("pair.pipe", CONVERTED), until="plan").plans
    assert plans is not None
    assert {pipeline.name: row.count for (pipeline, side), row in plans[0].signals.items() if side == "consumer"}["output"] == 2


PLACES = """
kernel places(x: tensor[f32, 8, 32], y: tensor[f32, 8, 32]):
    cluster({shape})
    grid({shape})
    role say(warps=1):
        store.direct(y[cta.rank, 0], load(x[cta.rank, 0], 1, 32) + cast[f32](cta.x + 10 * cta.y + 100 * cta.z))
"""


@pytest.mark.parametrize("shape", [(4, 2, 1), (2, 2, 2), (1, 3, 2), (3, 1, 2), (8, 1, 1), (1, 1, 5)])
def test_the_place_in_a_cluster_is_that_of_the_rank(shape: tuple[int, int, int]) -> None:
    """x runs fastest. ptxas would divide for the coordinates themselves."""
    source = PLACES.format(shape=", ".join(map(str, shape)))
    x, y = np.zeros((2, 8, 32), np.float32)
    run(source, "places", x, y)
    places = [a + 10 * b + 100 * c for c in range(shape[2]) for b in range(shape[1]) for a in range(shape[0])]
    assert y[: len(places), 0].tolist() == places
    assert "%cluster_ctaid" not in compiled(source).ptx
