"""Tile schedulers on the simulator: every tile is visited once, whatever the extents, the mode, and the timing."""

from functools import cache

import numpy as np
import pytest
from effort import give_up_soon

import pipec
from pipec.api.program import CompiledKernel
from pipec.runtime import LaunchOptions
from pipec.sim import Options as Simulation

# Each tile adds its place to the row of its index: a row that is right was visited once.
VISITS = """kernel visits[MODE: str = "static", BLOCKS: int = 3, GROUP: int = 1](seen: tensor[i32, T, 4], x: i32, y: i32, z: i32):
    tiles = TileScheduler(x, y, z, mode=MODE, blocks=BLOCKS, group=GROUP)
    role look(warps=2):
        for tile in tiles:
            one = fill(1, i32, 1, 1)
            store.direct(seen[tile.index, 0], one * (tile.x + 1), reduce="add")
            store.direct(seen[tile.index, 1], one * (tile.y + 1), reduce="add")
            store.direct(seen[tile.index, 2], one * (tile.z + 1), reduce="add")
            store.direct(seen[tile.index, 3], one, reduce="add")
"""

# A producer and two consumers that take turns with different amounts of work.
SUMS = """kernel sums[MODE: str = "clc", STAGES: int = 2](a: tensor[f32, M, N], b: tensor[f32, M, N], c: tensor[f32, M, N]):
    tiles = TileScheduler(ceildiv(M, 32), ceildiv(N, 32), mode=MODE, blocks=2, group=2)
    ring = InputTilePipeline(TilePayload(a=tile[f32, 32, 32]), stages=STAGES)
    role load(warps=1) produces ring:
        for tile in tiles:
            for again in range(tile.x % 3 + 1):
                with ring.produce() as s:
                    tma.load(s.a, a[tile.x * 32, tile.y * 32])
    role once(warps=1) consumes ring:
        for tile in tiles:
            for again in range(tile.x % 3 + 1):
                with ring.consume() as s:
                    store(b[tile.x * 32, tile.y * 32], s.a * cast[f32](again + 1))
    role twice(warps=2) consumes ring:
        for tile in tiles:
            for again in range(tile.x % 3 + 1):
                with ring.consume() as s:
                    store(c[tile.x * 32, tile.y * 32], s.a + s.a)
"""


# All CTAs of a cluster work on its tile, in two roles.
CLUSTER = """kernel visits[MODE: str = "static", CX: int = 2, CY: int = 1, CZ: int = 1](seen: tensor[i32, T, 8], x: i32, y: i32):
    cluster(CX, CY, CZ)
    tiles = TileScheduler(x, y, mode=MODE, blocks=3 * CX * CY * CZ + 1, group=2)
    role look(warps=1):
        for tile in tiles:
            store.direct(seen[tile.index, cta.rank], fill(1, i32, 1, 1) * (10 * tile.x + tile.y + 1), reduce="add")
    role wait(warps=2):
        for tile in tiles:
            store.direct(seen[tile.index, cta.rank], fill(1000, i32, 1, 1), reduce="add")
"""


@pytest.fixture(autouse=True)
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    give_up_soon(monkeypatch)


@cache
def kernel(source: str, **constants: object) -> CompiledKernel:
    return next(iter(pipec.compile(source, constants=constants, allow_undecided=True).values()))


def visited(mode: str, extents: tuple[int, int, int], group: int, simulation: Simulation | None = None) -> np.ndarray:
    x, y, z = extents
    seen = np.zeros((x * y * z, 4), np.int32)
    compiled = kernel(VISITS, MODE=mode, GROUP=group)
    compiled(seen, x, y, z, device="sim", options=LaunchOptions(simulation))
    return seen


def expected(extents: tuple[int, int, int], group: int) -> list[list[int]]:
    x, y, z = extents
    strips = [range(first, min(first + group, x)) for first in range(0, x, group)]
    return [[i + 1, j + 1, k + 1, 1] for k in range(z) for strip in strips for j in range(y) for i in strip]


@pytest.mark.sample(0.5, of="mode")
@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize("extents", [(1, 1, 1), (2, 1, 1), (1, 3, 2), (5, 3, 1), (4, 2, 2), (7, 1, 3)])
@pytest.mark.parametrize("group", [1, 2, 3, 4])
def test_every_tile_is_visited_once_at_its_place(mode: str, extents: tuple[int, int, int], group: int) -> None:
    assert visited(mode, extents, group).tolist() == expected(extents, group)


@pytest.mark.sample(0.25, of="mode")
@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize("shape", [(2, 1, 1), (3, 1, 1), (2, 2, 2), (1, 2, 1)])
@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_a_tile_is_the_work_of_a_cluster(mode: str, shape: tuple[int, int, int], timing: str) -> None:
    x, y = 5, 3
    seen = np.zeros((x * y, 8), np.int32)
    compiled = kernel(CLUSTER, MODE=mode, **dict(zip(("CX", "CY", "CZ"), shape, strict=True)))
    result = compiled(seen, x, y, device="sim", options=LaunchOptions(Simulation(timing=timing, seed=5)))
    clusters = 3 if mode == "static" else x * y
    assert result.grid == (shape[0] * clusters, *shape[1:])
    places = [1000 + 10 * (i - 1) + j for i, j, _, _ in expected((x, y, 1), 2)]
    ctas = int(np.prod(shape))
    np.testing.assert_array_equal(seen, np.outer(places, np.arange(8) < ctas))


def test_answers_in_a_cluster_are_given_back_to_its_first_cta() -> None:
    compiled = kernel(CLUSTER, MODE="clc", CX=2, CY=2)
    counts = {(one.pipeline, one.side): one.count for one in compiled.report.barriers}
    assert counts["tiles", "full"] == 1
    assert counts["tiles", "empty"] == 4 * (32 + 64 + 1)
    assert compiled.ptx.count("multicast::cluster::all") == 1


@pytest.mark.parametrize("seed", range(6))
def test_tiles_that_the_hardware_does_not_hand_out_start_as_blocks(seed: int) -> None:
    assert visited("clc", (5, 4, 1), 2, Simulation(timing="random", seed=seed)).tolist() == expected((5, 4, 1), 2)


@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_roles_stay_on_the_same_tile(mode: str, timing: str) -> None:
    a = np.random.default_rng(0).integers(-4, 5, (110, 40)).astype(np.float32)
    b, c = np.zeros_like(a), np.zeros_like(a)
    kernel(SUMS, MODE=mode)(a, b, c, device="sim", options=LaunchOptions(Simulation(timing=timing, seed=3)))
    factor = np.arange(110)[:, None] // 32 % 3 + 1
    np.testing.assert_array_equal(b, a * factor)
    np.testing.assert_array_equal(c, 2 * a)


# Work in front of the tiles and behind them, whose pipeline the loop does not touch; the number of loads depends on the tile.
AROUND = """kernel around[MODE: str = "clc"](a: tensor[f32, M, N], b: tensor[f32, M, N], c: tensor[f32, M, N]):
    tiles = TileScheduler(ceildiv(M, 32), mode=MODE, blocks=2)
    first = InputTilePipeline(TilePayload(a=tile[f32, 32, 32]), stages=1)
    ring = InputTilePipeline(TilePayload(a=tile[f32, 32, 32]), stages=2)
    last = ProducerConsumerPipeline(stages=1)
    role load(warps=1) produces first, ring consumes last:
        with first.produce() as s:
            tma.load(s.a, a[0, 0])
        for tile in tiles:
            if tile.x % 2 == 0:
                with ring.produce() as s:
                    tma.load(s.a, a[tile.x * 32, 0])
        last.consumer_signal_and_step()
    role work(warps=2) consumes first, ring produces last:
        with first.consume() as s:
            if block.x == 0:
                store(c[0, 0], s.a)
        for t in tiles:
            if t.x % 2 == 0:
                with ring.consume() as s:
                    store(b[t.x * 32, 0], s.a)
        last.producer_signal_and_step()
"""


@pytest.mark.parametrize("mode", ["static", "clc"])
@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_work_around_the_tiles(mode: str, timing: str) -> None:
    a = np.random.default_rng(1).integers(-9, 9, (170, 32)).astype(np.float32)
    b, c = np.zeros_like(a), np.zeros_like(a)
    kernel(AROUND, MODE=mode)(a, b, c, device="sim", options=LaunchOptions(Simulation(timing=timing, seed=2)))
    even = np.arange(170)[:, None] // 32 % 2 == 0
    np.testing.assert_array_equal(b, np.where(even, a, 0))
    np.testing.assert_array_equal(c[:32], a[:32])


def test_without_a_role_that_only_produces_nothing_holds_the_requests_back() -> None:
    """Each role of AROUND waits for the other somewhere; the ring of answers alone is the limit then."""
    pipelines = {one.pipeline for one in kernel(AROUND, MODE="clc").report.barriers}
    assert "tiles" in pipelines and "tiles.throttle" not in pipelines


PROVED = [(mode, source) for source in (VISITS, AROUND, SUMS, CLUSTER) for mode in ("static", "clc")]


@pytest.mark.sample(0.4, of="mode")
@pytest.mark.parametrize(("mode", "source"), PROVED)
def test_kernels_that_walk_over_tiles_are_proved(mode: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # however long the search takes
    (found,) = pipec.compile(source, constants={"MODE": mode}).values()
    assert found.report.undecided == ()


def test_the_scheduler_is_a_role_with_pipelines_of_its_own() -> None:
    report = kernel(SUMS, MODE="clc").report
    assert {role.name: role.warps for role in report.roles} == {"load": 1, "once": 1, "twice": 2, "tiles.scheduler": 1}
    counts = {(one.pipeline, one.side): (one.stages, one.count) for one in report.barriers}
    # Answers: one arrival and 16 bytes; read by one thread of `load`, 32 of `once`, 64 of `twice`, one of the scheduler.
    assert counts["tiles", "full"] == (3, 1)
    assert counts["tiles", "empty"] == (3, 1 + 32 + 64 + 1)
    assert counts["tiles.throttle", "full"] == counts["tiles.throttle", "empty"] == (3, 1)
    assert [item.bytes for item in report.shared_items if item.name == "tiles responses"] == [48]
    assert report.tiles == "`tiles`, handed out by cluster launch control, in strips of 2 rows"
    static = kernel(SUMS, MODE="static").report
    assert "tiles.scheduler" not in {role.name for role in static.roles}
    assert static.tiles == "`tiles`, shared out to at most 2 blocks, in strips of 2 rows"


def test_a_tile_is_claimed_at_most_one_ahead_of_the_loads() -> None:
    """The first request waits for the first load, however far the ring of answers would reach."""
    # Unchecked: that the search for its proof does not end is told above, of the kernel with two stages.
    compiled = pipec.compile(SUMS, constants={"MODE": "clc", "STAGES": 1}, unchecked=True)["sums"]
    a = np.zeros((32 * 6, 32), np.float32)
    result = compiled(a, np.zeros_like(a), np.zeros_like(a), device="sim")
    assert result.simulation is not None
    addresses = {(one.pipeline, one.side): 0x400 + one.offset for one in compiled.interface.barriers}

    def times(pipeline: str, side: str) -> list[int]:
        first = addresses[pipeline, side]
        found = (one for one in result.simulation.trace if one.kind == "phase")
        return [one.time for one in found if first <= one.details["address"] < first + 24]

    granted, begun = times("tiles", "full"), times("tiles.throttle", "full")
    assert len(granted) == len(begun) == 6
    assert all(answer > begin for answer, begin in zip(granted, begun, strict=True))


def test_the_default_number_of_blocks_is_that_of_the_gpu() -> None:
    program = pipec.compile(VISITS.replace(", blocks=BLOCKS", ""))
    seen = np.zeros((200, 4), np.int32)
    result = program["visits"](seen, 200, 1, 1, device="sim")
    assert result.grid == (148, 1, 1)
    assert seen.tolist() == expected((200, 1, 1), 1)


def test_the_default_number_of_clusters_is_what_fits_on_the_gpu() -> None:
    program = pipec.compile(CLUSTER.replace(", blocks=3 * CX * CY * CZ + 1", ""), constants={"CX": 3})
    result = program["visits"](np.zeros((200, 8), np.int32), 200, 1, device="sim")
    assert result.grid == (147, 1, 1)


def test_no_tiles_no_launch() -> None:
    result = kernel(VISITS)(np.zeros((4, 4), np.int32), 0, 5, 1, device="sim")
    assert not result.launched


@pytest.mark.parametrize(("x", "y"), [(1, 1), (5, 3), (5, 70)])
def test_as_many_blocks_as_the_gpu_has_multiprocessors_count_their_tiles_without_a_sign(x: int, y: int) -> None:
    """What is divided is taken as at least 0, for which the quotient is half as long."""
    source = """kernel visits(seen: tensor[i32, T, 2], x: i32, y: i32):
    tiles = TileScheduler(x, y, group=2)
    role look(warps=2):
        for tile in tiles:
            store.direct(seen[tile.index, 0], fill(1, i32, 1, 1) * (100 * tile.x + tile.y), reduce="add")
            store.direct(seen[tile.index, 1], fill(1, i32, 1, 1), reduce="add")
"""
    compiled = kernel(source)
    assert "div.u32" in compiled.ptx and "div.s32" not in compiled.ptx
    seen = np.zeros((x * y, 2), np.int32)
    compiled(seen, x, y, device="sim")
    assert seen.tolist() == [[100 * (i - 1) + j - 1, 1] for i, j, _, _ in expected((x, y, 1), 2)]
