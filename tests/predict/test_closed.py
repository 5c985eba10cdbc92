"""The closed form against the events that it stands for, against times on record, and its terms against what each of them is about."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean
from types import MappingProxyType

import pytest

from benchmarks.prediction.fit_model import RECORD, best_of, figures, geomean, left_out, parts, seconds
from benchmarks.prediction.heuristics import ANSWERS, costs
from benchmarks.prediction.measured import RESULTS, compared, measured
from pipec.api.files import read_source
from pipec.driver import Options, compile_source
from pipec.predict import closed
from pipec.predict.bounds import dram_bytes, dram_rate
from pipec.predict.closed import estimate, sustained_clock
from pipec.predict.counting import workload
from pipec.predict.device import BY_ARCH, DEVICES, Device
from pipec.predict.launch import Launch
from pipec.predict.tile_loops import written
from pipec.predict.work import transfer
from pipec.predict.workload import Workload
from pipec.record import replace
from pipec.sema import tree

EXAMPLES = Path(__file__).parents[2] / "examples"
H200 = DEVICES["h200"]


def gemm(name: str, m: int, n: int, k: int, **constants: object) -> Workload:
    return example(name, constants, M=m, N=n, K=k)


def example(name: str, constants: Mapping[str, object] = MappingProxyType({}), **sizes: int) -> Workload:
    state = compile_source(read_source(str(EXAMPLES / f"{name}.pipe")), Options(None, constants), until="analyse")
    assert state.trees, state.diagnostics
    return workload(state.trees[0], sizes, H200.machine.multiprocessors)


# ---------------------------------------------------------------------------------------------------------------- events

KERNELS = {
    "gemm_sm90": {"BM": (128,), "BN": (64, 128, 192), "STAGES": (3, 4)},
    "gemm_sm90_persistent": {"BM": (64, 128), "BN": (64, 128, 176), "STAGES": (3, 5)},
    "gemm_sm90_cluster": {"BN": (128, 256), "STAGES": (3, 4)},
    "gemm": {"BM": (64, 128), "BN": (64, 128), "STAGES": (2, 3, 6)},
    "gemm_persistent": {"BN": (128, 256), "STAGES": (3, 4)},
}


@pytest.mark.parametrize("example", KERNELS)
@pytest.mark.parametrize("seed", range(4))
def test_the_closed_form_says_what_the_events_say(example: str, seed: int) -> None:
    """Two evaluations of one model, at sizes from a fraction of a wave to many; they differ where blocks that share a multiprocessor fill
    each other's gaps."""
    chance = random.Random(f"{example} {seed}")
    constants = {name: chance.choice(values) for name, values in KERNELS[example].items()}
    sizes = {"M": chance.choice((256, 1000, 4096)), "N": chance.choice((1024, 3000, 8192)), "K": chance.choice((512, 2048, 6000))}
    state = compile_source(read_source(str(EXAMPLES / f"{example}.pipe")), Options(None, constants), "plan")
    assert state.trees is not None and state.plans is not None, state.diagnostics
    device = BY_ARCH[state.arch]
    events = Launch(state.trees[0], state.plans[0], sizes, device, None).predict()
    assert estimate(events.work, device).seconds == pytest.approx(events.seconds, rel=0.16), (constants, sizes)


@pytest.mark.parametrize("splits", [2, 4])
@pytest.mark.parametrize("rows", [16, 64, 128])
def test_both_count_what_ctas_read_from_each_other(rows: int, splits: int) -> None:
    constants = {"BM": rows, "BN": 64, "BK": 64, "SPLITS": splits, "STAGES": 5}
    state = compile_source(read_source(str(EXAMPLES / "gemm_sm90_narrow.pipe")), Options(None, constants), "plan")
    assert state.trees is not None and state.plans is not None, state.diagnostics
    events = Launch(state.trees[0], state.plans[0], {"M": rows, "N": 4096, "K": 4096}, H200, None).predict()
    free = replace(H200, remote=0.0)
    alone = Launch(state.trees[0], state.plans[0], {"M": rows, "N": 4096, "K": 4096}, free, None).predict()
    assert estimate(events.work, H200).seconds == pytest.approx(events.seconds, rel=0.16)
    assert events.seconds > alone.seconds and estimate(events.work, H200).seconds > estimate(events.work, free).seconds


@pytest.mark.parametrize("example", ["gemm_mxfp8", "gemm_mxfp8_2cta", "gemm_mxfp4", "gemm_nvfp4", "gemm_nvfp4_2cta"])
@pytest.mark.parametrize("size", [1024, 4096])
def test_chunks_of_scale_factors_are_few_rows_to_both(example: str, size: int) -> None:
    """512 bytes of factors for 128 rows of a tile are four rows to the copy engine, not 128, and all of them lie in the tensor."""
    chunks = {"M_CHUNKS": size // 128, "N_CHUNKS": size // 128, "K_CHUNKS": size // (64 if "nv" in example else 128)}
    state = compile_source(read_source(str(EXAMPLES / f"{example}.pipe")), Options(), "plan")
    assert state.trees is not None and state.plans is not None
    found = Launch(state.trees[0], state.plans[0], {"M": size, "N": size, "K": size, **chunks}, DEVICES["b200"], None).predict()
    assert estimate(found.work, DEVICES["b200"]).seconds == pytest.approx(found.seconds, rel=0.05)
    assert any("scale factors" in what for what in found.unknown)
    factors = next(load for load in found.work.loads if load.tensor == "sfa")
    operations = (one for one in state.plans[0].tma if isinstance(one, tree.TmaLoad))
    operation = next(one for one in operations if one.source.tensor.name == "sfa")
    plan = state.plans[0].tma[operation]
    copy = transfer(operation, plan)
    assert (copy.rows, copy.bytes) == (factors.rows, factors.bytes) and factors.inside == 1.0
    assert copy.bytes == 512 * plan.box_rows * plan.row_boxes * plan.layout.panels


# ---------------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize(("record", "shapes", "clocks"), [("h200_gemm", 32, 0.04), ("h200", 31, 0.04), ("h200_tiles", 16, 0.08)])
def test_tiles_at_shapes_that_nothing_was_fitted_to(record: str, shapes: int, clocks: float) -> None:
    """Two parts of three of the newest record, what the one before has of these shapes, and a record of others, in which the GPU was
    cooler; docs/tuning.md has the figures."""
    known = parts(measured(RECORD))[0]
    found = figures(H200, left_out(measured(record), known))
    # A clock was read beside the fastest tile, which may be one of a kernel that has changed since.
    # A run that ended early names the shapes that it left out.
    lacks = set(json.loads((RESULTS / f"{record}.json").read_text(encoding="utf-8")).get("left_out", ())) - known
    assert found["shapes"] == shapes - len(lacks) and found["error_of_good_tiles"] < 0.04
    assert found["error_of_clocks"] < clocks
    assert found["regret_of_a_dozen"] < 1.02 and found["regret_of_all"] < 1.03 and found["worst_of_all"] < 1.15


def test_rows_of_a_tile_cost_more_than_columns_in_long_launches() -> None:
    """Neighbours have tiles below each other, which share columns: of as many bytes and products, wide tiles ask the L2 for less. In a
    launch of one tile each, all blocks keep in step. The record says so too."""
    tiles = {
        (one.shape, one.name): one for one in measured(RECORD) if one.example == "gemm_sm90_persistent" and one.kind == "bf16"
    }

    def ratio(shape: str) -> tuple[float, float]:
        tall = tiles[shape, "pipec persistent BM=128 BN=64 STAGES=8"]
        wide = tiles[shape, "pipec persistent BM=64 BN=128 STAGES=8 WARPS=4"]
        return estimate(tall.work, H200).seconds / estimate(wide.work, H200).seconds, tall.seconds / wide.seconds

    for shape in ("4096x4096x4096", "8192x8192x8192", "2048x28672x4096"):
        said, measured_there = ratio(shape)
        assert measured_there > 1.2 and said > 1.04
    said, measured_there = ratio("1024x1024x1024")
    assert said == pytest.approx(1.0, abs=0.03) and measured_there < 1.05


def test_overlapping_launches_that_leave_multiprocessors_idle_load_more_slowly() -> None:
    """Of the shapes that the factor was not fitted to: tiles that memory bounds, with more blocks than TPCs, but not one everywhere."""
    known, apart = parts(measured(RECORD))[0], replace(H200, machine=replace(H200.machine, crowded=0.0))
    rows = measured("h200_overlap")
    best = best_of(rows)
    good = [one for one in left_out(rows, known) if one.work.programmatic and one.seconds < 1.3 * best[one.shape]]
    crowded = [one for one in good if 66 < one.work.blocks < 128 and estimate(one.work, H200).bound == "memory"]

    def error(device: Device) -> float:
        return fmean(abs(seconds(device, one) / one.seconds - 1) for one in crowded)

    assert len(crowded) > 20 and error(H200) < 0.85 * error(apart)
    others = [one.work for one in good if one not in crowded and (one.work.blocks <= 66 or one.work.blocks >= 132)]
    assert others and all(estimate(work, H200) == estimate(work, apart) for work in others)


def test_overlapping_blocks_of_which_two_fit_do_not_crowd() -> None:
    """The launch in front then leaves room for all of them everywhere, as it does where it has fewer blocks than there are TPCs."""
    tile = {"BM": 8, "BN": 64, "BK": 128, "SPLITS": 1, "STAGES": 5}
    (alone, beside), (full, crowded) = (
        [gemm("gemm_sm90_narrow", 1, 6144, 4096, **values, OVERLAP=overlap) for overlap in (False, True)]
        for values in (tile, tile | {"BM": 16, "BK": 64, "STAGES": 12})
    )
    assert alone.held == 2 and full.held == 1 and alone.blocks == full.blocks == 96
    assert dram_rate(beside, H200) == dram_rate(alone, H200) and dram_rate(crowded, H200) < 0.95 * dram_rate(full, H200)
    # What overlapping launches gain and lose there (on an H200 0.95 of the time, and 1.09 for 16 rows).
    assert estimate(beside, H200).seconds < estimate(alone, H200).seconds
    assert estimate(crowded, H200).seconds > estimate(full, H200).seconds


def test_its_tiles_beside_those_of_a_peer() -> None:
    """nvMatmulHeuristics has answered; a tile that is on record has a time, and every shape has one."""
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))["tiles"]
    theirs, ours, missing = costs("h200_tiles", answers)
    assert len(theirs) == len(ours) == 13 and not missing and min(*theirs, *ours) >= 1.0
    assert geomean(ours) < 1.02 < geomean(theirs)


def test_dropped_candidates_were_slower_than_kept_ones() -> None:
    """Medians over other rounds do not compare: what was dropped first ran while the GPU was cool."""
    screened = {
        "microseconds": {"stayed": 100.0, "late": 95.0, "early": 120.0, "slow": 300.0},
        "dropped": {"late": 3, "early": 1, "slow": 1},
    }
    assert compared(screened) == {"stayed": 100.0, "late": pytest.approx(102.0), "early": pytest.approx(150.0), "slow": 300.0}
    assert compared({"microseconds": {"a": 2.0, "b": 1.0}}) == {"a": 2.0, "b": 1.0}


@pytest.mark.parametrize("record", ["h200_gemm", "h200", "h200_fixed_order"])
def test_its_choice_is_no_worse_than_the_tile_in_the_file(record: str) -> None:
    assert (RESULTS / f"{record}.json").exists()
    ratios = []
    rows = measured(record)
    for shape in best_of(rows):
        group = [one for one in rows if one.shape == shape and one.example == "gemm_sm90_persistent"]
        default = [one for one in group if one.name in ("pipec persistent", "pipec persistent BK=128")]
        if default:
            ratios.append(min(group, key=lambda one: seconds(H200, one)).seconds / default[0].seconds)
    assert len(ratios) >= 10 and geomean(ratios) < 1.0 and max(ratios) < 1.2


# ------------------------------------------------------------------------------------------------------------------ terms


def bound(*size: int, **constants: object) -> str:
    return estimate(gemm("gemm_sm90_persistent", *size, **constants), H200).bound


def test_bounds_of_a_launch() -> None:
    assert bound(8192, 8192, 8192) == "power"
    assert bound(64, 8192, 28672, BM=64, BN=64, WARPS=4, STAGES=12) == "memory"
    assert bound(256, 256, 8192) == "multiprocessors"


def test_few_stages_cost_time_where_the_way_to_memory_is_what_counts() -> None:
    small = [
        estimate(gemm("gemm_sm90_persistent", 64, 4096, 8192, BM=64, BN=64, WARPS=4, STAGES=s), H200).seconds for s in (2, 4, 8)
    ]
    assert small[0] > small[1] > small[2]
    large = [estimate(gemm("gemm_sm90_persistent", 8192, 8192, 8192, STAGES=s), H200).seconds for s in (3, 4)]
    assert large[0] < 1.06 * large[1]


def test_a_last_wave_that_is_not_full_costs_a_whole_one() -> None:
    full, more = (estimate(gemm("gemm_sm90_persistent", 128 * 132, n, 4096, BN=128), H200).seconds for n in (128, 136))
    assert more > 1.5 * full


def test_clusters_that_find_no_room_start_when_others_have_ended() -> None:
    """Of four CTAs, thirty at a time: of 33 that stay, three begin when the first have done all their tiles."""
    work = gemm("gemm_sm90_cluster", 4096, 4096, 4096, CX=2, CY=2, BN=80, STAGES=7)
    roomy = replace(H200, machine=replace(H200.machine, groups=(20,) * 6 + (12,)))
    assert work.cluster == 4 and roomy.machine.at_a_time(4) == H200.machine.multiprocessors
    late, at_once = (estimate(work, device, H200.clock).terms["multiprocessors"] for device in (H200, roomy))
    assert late > 1.8 * at_once
    pairs = gemm("gemm_sm90_cluster", 4096, 4096, 4096, CX=2, CY=1, BN=128, STAGES=6)
    assert estimate(pairs, H200, H200.clock).seconds == estimate(pairs, roomy, H200.clock).seconds


def test_ctas_of_a_cluster_load_behind_the_end_of_the_tensor_together() -> None:
    """64 rows in tiles of 128: half a tile is outside, and all of the tile of the cluster's second CTA."""
    alone, second = (gemm("gemm_sm90_cluster", 64, 4096, 1024, CX=x, CY=1, BN=128, STAGES=6) for x in (1, 2))
    assert [next(load.inside for load in work.loads if load.tensor == "a") for work in (alone, second)] == [0.5, 0.25]


def test_products_of_zeros_take_no_power() -> None:
    whole, part = (gemm("gemm_sm90_persistent", m, 8192, 8192) for m in (8192, 8192 - 64))
    powers = [estimate(one, H200).terms["power"] for one in (part, whole)]
    assert powers[0] == pytest.approx(powers[1] * (8192 - 64) / 8192, rel=0.001)  # memory takes some, too


def test_the_clock_falls_where_products_and_memory_take_more_power_than_there_is() -> None:
    """Not for one product after another of few tiles, nor for memory alone; a clock that is stated stays."""
    large, small, narrow = (
        gemm("gemm_sm90_persistent", 8192, 8192, 8192),
        gemm("gemm_sm90", 512, 512, 512),
        gemm("gemm_sm90", 8, 8192, 8192),
    )
    clocks = [sustained_clock(work, H200) / H200.clock for work in (large, small, narrow)]
    assert 0.65 < clocks[0] < 0.85 and clocks[1] == clocks[2] == 1.0
    fast, slow = (estimate(large, H200, H200.clock * part) for part in (1.0, clocks[0]))
    assert fast.seconds < slow.seconds == pytest.approx(estimate(large, H200).seconds)
    assert estimate(small, H200).seconds == estimate(small, H200, H200.clock).seconds


def test_rows_that_do_not_start_on_a_request_cost_more() -> None:
    slow = replace(H200, split=4.0, sector=0.0, memory=0.0, loaded=0.0)
    whole, crooked = (gemm("gemm_sm90_persistent", 64, 4096, k, BM=64, BN=64, WARPS=4, STAGES=8) for k in (8192, 8200))
    assert estimate(crooked, slow).seconds > 1.5 * estimate(whole, slow).seconds


def test_nothing_to_do_costs_a_launch() -> None:
    assert estimate(gemm("gemm_sm90", 0, 128, 128), H200).seconds == H200.launch - H200.overlap


@pytest.mark.parametrize("name", ["gemm", "gemm_2cta_persistent", "gemm_persistent"])
def test_kernels_for_blackwell_get_a_time_near_their_bound(name: str) -> None:
    """Nobody could measure: at least no term is out of its order of magnitude."""
    found = estimate(gemm(name, 8192, 8192, 8192), DEVICES["b200"])
    assert 2 * 8192**3 / 4.5e15 < found.seconds < 2 * 8192**3 / 0.4e15


# ------------------------------------------------------------------------------------------------ beside the main loop


def starts(shape: str, name: str) -> tuple[float, float]:
    """Seconds as estimated, and as measured."""
    (one,) = (one for one in measured("h200_starts") if (one.shape, one.name) == (shape, f"pipec {name}"))
    return estimate(one.work, H200).seconds, one.seconds


@pytest.mark.parametrize("tile", ["BN=64 STAGES=8", "BM=64 BN=128 STAGES=8 WARPS=4"])
def test_a_launch_of_next_to_nothing(tile: str) -> None:
    """What it takes is read off this record, and what a persistent one takes longer."""
    alone, measured_alone = starts("896x1152x64", f"sm90 {tile}")
    stays, measured_stays = starts("896x1152x64", f"persistent {tile if 'BM' in tile else 'BM=128 ' + tile}")
    assert alone == pytest.approx(measured_alone, rel=0.15)
    assert stays - alone == pytest.approx(measured_stays - measured_alone, abs=0.08e-6)


def test_rows_outside_that_many_share_cost_no_more_than_those_of_two() -> None:
    for cluster, error in ((1, 0.25), (2, 0.25), (4, 0.25), (8, 0.25)):
        said, took = starts("8x6400x12288", f"swapped CX=1 CY={cluster} BM=128 BN=64 STAGES=8 ONCE=True")
        assert said == pytest.approx(took, rel=error)


def test_splits_that_differ_by_a_step_run_in_waves() -> None:
    """44 splits of four tiles are a wave and a third, 33 are one wave of longer blocks: h200_overlap.json has 14.3 us for 11.8."""
    tile = {"BM": 64, "BN": 64, "STAGES": 12, "WARPS": 4}
    two, one = (gemm("gemm_sm90_split_k_sums", 128, 128, 65536, SPLITS=splits, **tile) for splits in (44, 33))
    assert two.evenness < 0.99
    assert estimate(two, H200).seconds > 1.1 * estimate(one, H200).seconds


# --------------------------------------------------------------------------------------------------------------- stores


def test_ctas_that_add_up_each_others_sums_wait_for_each_other() -> None:
    """Where that is most of the time: in pairs, which were predicted 0.5 us too short."""
    rows = [
        one for one in measured("h200_random") if one.shape == "34x608x1824" and " SPLITS=2 " in one.name and "narrow" in one.name
    ]
    assert len(rows) > 8 and abs(fmean(seconds(H200, one) - one.seconds for one in rows)) < 0.15e-6


def test_rows_that_are_stored_off_lines_cost_more_whether_the_tensor_is_so_or_the_tile() -> None:
    """Beside products of other tiles (ping-pong) and not."""
    for example in ("gemm_sm90_persistent", "gemm_sm90_pingpong"):
        aligned, off, wide = (
            estimate(gemm(example, 4224, n, 256, BN=bn), H200).seconds for n, bn in ((6144, 128), (6136, 128), (6144, 176))
        )
        assert off > 1.04 * aligned
        (stored, *_) = (one for role in gemm(example, 4224, 6144, 256, BN=176).roles for one in role.epilogues)
        assert stored.crooked == 0.75 and stored.cut == 0 and wide > aligned * 0.9


def test_pairs_of_ctas_whose_roles_take_turns_wait_for_each_other_at_each_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which counts where a tile has few blocks of K; not fitted to: `meet` is read off where clusters start."""
    short = [
        one for one in measured("h200_products") if one.work.in_turn and int(one.shape.partition(":")[0].split("x")[2]) <= 600
    ]
    best = best_of(short)
    pairs = [one for one in short if one.work.cluster == 2 and one.seconds < 1.3 * best[one.shape]]

    def error() -> float:
        return fmean(abs(seconds(H200, one) / one.seconds - 1) for one in pairs)

    waiting = error()
    monkeypatch.setattr(closed, "taken_over", lambda work, device: 0.0)
    assert len(pairs) > 30 and waiting < 0.75 * error()


def test_stores_take_the_copy_engine_from_loads_of_other_tiles() -> None:
    """What the products of other tiles hide is not free, where threads are quick enough for the copy engine to be what counts."""
    work = gemm("gemm_sm90_pingpong", 8192, 8192, 128, CX=2, BN=128)
    quick = replace(H200, element=0.04)
    apart = replace(quick, served_rate=1e9)
    slower, faster = (estimate(work, device, H200.clock).terms["multiprocessors"] for device in (quick, apart))
    assert slower > 1.03 * faster


def test_products_and_the_l2_are_slower_where_both_are_nearly_as_busy() -> None:
    """Ping-pong in tiles of 128 x 128, with clusters and without: 0.65 and about all of the time of products. It takes 1.12 times as long
    in h200_choice.json."""
    shared, each = (gemm("gemm_sm90_pingpong", 4096, 4096, 4096, CX=x, CY=1, BN=128) for x in (2, 1))
    hard = replace(H200, stalling=100.0)

    def ratio(device: Device) -> float:
        return estimate(each, device, 1.35e9).seconds / estimate(shared, device, 1.35e9).seconds

    assert ratio(hard) < 1.02 and 1.03 < ratio(H200) < 1.13


def test_products_and_copies_are_slower_where_both_are_nearly_as_busy() -> None:
    """64 rows and 192 columns, whose rows take 0.96 of the time of their products, beside 128 and 96, where it is 0.84. They take 1.06 to
    1.09 times as long in h200_overlap.json and h200_products.json."""
    wide, square = (
        gemm("gemm_sm90_persistent", 256, 6144, 4096, BM=rows, BN=columns, STAGES=6) for rows, columns in ((64, 192), (128, 96))
    )
    hard = replace(H200, jamming=100.0)

    def ratio(device: Device) -> float:
        return estimate(wide, device, 1.36e9).seconds / estimate(square, device, 1.36e9).seconds

    assert ratio(hard) < 1.0 < ratio(H200) < 1.09 and ratio(H200) > 1.01 * ratio(hard)


def test_the_l2_has_a_clock_of_its_own() -> None:
    """At two thirds of the clock, a launch that it bounds takes less than 1.5 times as long, and one that products bound 1.5 times."""
    served, multiplied = (
        gemm("gemm_sm90_persistent", 8192, 8192, 8192, BN=64, STAGES=8),
        gemm("gemm_sm90_pingpong", 8192, 8192, 8192),
    )
    slow = replace(H200, served_rate=20.0)
    ratios = [
        estimate(work, device, H200.clock / 1.5).terms["multiprocessors"]
        / estimate(work, device, H200.clock).terms["multiprocessors"]
        for work, device in ((served, slow), (multiplied, H200))
    ]
    assert ratios[0] < 1.35 and 1.46 < ratios[1] < 1.51


def test_power_of_products_by_their_operands() -> None:
    """8 bits take more than 16 in the same time, a first operand in registers takes less, and arithmetic of threads takes some too."""
    machine, power = H200.machine, H200.machine.sustained
    assert power is not None
    wide, narrow = (gemm("gemm_sm90_persistent", 8192, 8192, k, **more) for k, more in ((4096, {}), (8192, {"AB": "e4m3"})))
    assert narrow.flops == wide.flops == narrow.narrow_flops and wide.narrow_flops == 0.0
    powers = [estimate(work, H200).terms["power"] for work in (wide, narrow)]
    assert 1.05 < powers[1] / powers[0] < power.narrow  # memory takes some, too
    scaled = example("gemm_sm90_blockwise_fp8", M=4096, N=4096, K=4096, KB=32, NB=32)
    attention = example("attention_sm90", H=8, S=4096, T=4096)
    assert scaled.arithmetic > 0.0 == scaled.near_flops and attention.near_flops == attention.flops / 2
    for name, work, less in (("arithmetic", scaled, True), ("near", attention, False)):
        other = replace(H200, machine=replace(machine, sustained=replace(power, **{name: 0.0 if less else 1.0})))
        assert (estimate(work, other).terms["power"] < estimate(work, H200).terms["power"]) == less


def test_a_short_ring_runs_dry_while_a_tile_is_stored() -> None:
    """Four stages of 192 columns last for less time than 48 KB take to be stored, five last longer; in long sums it happens rarely."""

    def ratio(k: int) -> float:
        four, five = (gemm("gemm_sm90_pingpong", 8192, 8192, k, CX=2, BN=192, STAGES=stages) for stages in (4, 5))
        return estimate(four, H200, H200.clock).seconds / estimate(five, H200, H200.clock).seconds

    assert 1.04 < ratio(512) < 1.1 and 1.0 <= ratio(8192) < 1.01


def test_data_that_leaves_other_data_in_the_l2_comes_faster() -> None:
    """With `evict_first`, the narrow kernel's B does; a copy has nothing else to leave there."""
    streams = gemm("gemm_sm90_narrow", 128, 8192, 8192, BM=128, BN=64, BK=64, SPLITS=1, STAGES=8)
    plain = gemm("gemm_sm90", 128, 8192, 8192, BM=128, BN=64, STAGES=8)
    state = compile_source(read_source(str(EXAMPLES / "copy_tma.pipe")), Options(), until="analyse")
    assert state.trees, state.diagnostics
    copy = workload(state.trees[0], {"M": 8192, "N": 8192}, H200.machine.multiprocessors)
    assert plain.blocks == streams.blocks and all(load.fleeting for load in copy.loads)
    assert dram_rate(streams, H200) == pytest.approx(H200.machine.streamed * dram_rate(replace(plain, programmatic=False), H200))
    assert dram_rate(copy, H200) <= H200.machine.dram
    # 39.2 and 40.6 us in h200_overlap.json, 38.9 and 40.3 in h200_choice.json
    assert estimate(streams, H200).seconds < estimate(plain, H200).seconds


def test_rows_of_two_lines_come_from_memory_faster_than_of_one() -> None:
    """K blocks of 128 and of 64 are predicted alike, of the GEMM for few rows."""
    rows = [one for one in measured("h200_products") if "narrow" in one.name]
    best = best_of(rows)
    good = [one for one in rows if one.seconds < 1.15 * best[one.shape] and estimate(one.work, H200).bound == "memory"]
    apart = replace(H200, machine=replace(H200.machine, long_rows=1.0))

    def difference(device: Device) -> float:
        one, two = (
            [one for one in good if (min(load.row_bytes for load in one.work.loads) >= 256) == long] for long in (False, True)
        )
        assert len(one) > 10 and len(two) > 10
        return abs(
            fmean(seconds(device, tile) / tile.seconds for tile in two)
            - fmean(seconds(device, tile) / tile.seconds for tile in one)
        )

    assert difference(H200) < 0.3 * difference(apart)


def test_of_tiles_that_store_much_one_near_the_best_comes_first() -> None:
    """Of the finalists that h200_tuned.json timed in rounds of their own, the model puts one first that is within 5 % of the fastest."""
    figures = json.loads((RESULTS / "h200_tuned.json").read_text(encoding="utf-8"))["figures"]
    times = figures["8192x8192x512"]["microseconds"]

    def predicted(name: str) -> float:
        kernel, *values = name.split()
        return estimate(gemm(f"gemm_sm90_{kernel}", 8192, 8192, 512, **dict(value.split("=") for value in values)), H200).seconds

    assert times[min(times, key=predicted)] < 1.05 * min(times.values())


def test_what_is_added_up_is_so_in_the_l2_and_what_is_outside_is_not_added() -> None:
    one, eight = (gemm("gemm_sm90_split_k_sums", m, 4096, 14336, SPLITS=8, BM=64, BN=128, STAGES=8) for m in (1, 64))
    read = (4096 + 1) * 14336 * 2
    assert dram_bytes(one, H200) == pytest.approx(read + 4096 * 4)
    plain = replace(H200, added_element=H200.element)
    late = [
        estimate(work, H200).terms["multiprocessors"] - estimate(work, plain).terms["multiprocessors"] for work in (one, eight)
    ]
    assert 0 < late[0] < 0.05 * late[1]


def test_a_kernel_finds_what_the_one_in_front_has_written_in_the_l2() -> None:
    state = compile_source(read_source(str(EXAMPLES / "gemm_sm90_split_k_sums.pipe")), Options(None, {}), until="analyse")
    assert state.trees is not None
    first, second = state.trees
    assert written(first) == {"sums"} and written(second) == {"sums", "d"}
    cold = workload(second, {"M": 128, "N": 1024}, 132)
    warm = replace(cold, warm=written(first))
    assert dram_bytes(cold, H200) - dram_bytes(warm, H200) == 128 * 1024 * 4
    gain = estimate(cold, H200, H200.clock).terms["multiprocessors"] - estimate(warm, H200, H200.clock).terms["multiprocessors"]
    assert gain == pytest.approx((H200.memory + H200.loaded) / H200.clock, rel=0.05)
