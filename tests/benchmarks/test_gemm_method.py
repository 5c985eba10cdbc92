"""The method of benchmarks/gemm/h200.py on a pretended GPU: what is timed against what, in which order, and what the record says."""

import json
from collections import Counter
from pathlib import Path
from statistics import median

import pytest
from samples import some

from benchmarks.gemm import h200
from benchmarks.gemm.gemm_automatic import automatic, plan
from benchmarks.gemm.gemm_dry import DryField
from benchmarks.gemm.gemm_method import BASE, Settings, measure
from benchmarks.gemm.gemm_shapes import GROUPS, KERNEL, SHAPES, WAVES, Shape, Tile, named, tiles
from pipec.api.files import read_source
from pipec.driver import Options, compile_source

SHAPE = next(shape for shape in SHAPES if str(shape) == "4096x4096x4096")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured() -> tuple[DryField, dict]:
    field = DryField(SHAPE)
    return field, measure(SHAPE, field, Settings(rounds=25, seed=3))


def test_each_contender_goes_in_with_its_best(measured: tuple[DryField, dict]) -> None:
    """The pretended library's first suggestion is not its fastest."""
    field, row = measured
    names = {column: figures["name"] for column, figures in row["columns"].items()}
    tuned = [name for name in field.true if name.startswith("cublaslt")]
    assert field.true[names["cublaslt"]] == min(field.true[name] for name in tuned) < field.true[tuned[0]]
    assert names["triton"] == "triton 128x256" and names["torch"] == "torch"
    assert names["default"] == "pipec persistent" and names["automatic"] == f"pipec {automatic(SHAPE).name}"
    for column, tiles_of in (("dozen", plan(SHAPE).dozen), ("tuned", plan(SHAPE).searched)):
        offered = {f"pipec {tile.name}" for tile in tiles_of} - row["failed"].keys()
        screened = row["screened"]["pipec"]
        ranked = (*screened["close"]["microseconds"], *screened["microseconds"])
        assert names[column] == next(name for name in ranked if name in offered)
    assert names["best"].startswith("pipec persistent") and field.kernel(names["best"]) and not field.kernel(names["any"])
    assert names["serial"] == f"{names['any']}, serial"


def test_the_final_rounds_are_shuffled_and_recorded(measured: tuple[DryField, dict]) -> None:
    field, row = measured
    rounds = row["rounds"]
    assert len(rounds["orders"]) == len(rounds["microseconds"]) == 25
    everybody = list(range(len(rounds["names"])))
    assert all(sorted(order) == everybody for order in rounds["orders"])  # interleaved: one turn each in every round
    first = Counter(order[0] for order in rounds["orders"])
    assert len(first) > len(everybody) // 2 and max(first.values()) < 12
    ran = [tuple(name.removesuffix(" (again)") for name in (rounds["names"][i] for i in order)) for order in rounds["orders"]]
    assert field.rounds[-25:] == ran


def test_ratios_are_those_of_the_recorded_rounds(measured: tuple[DryField, dict]) -> None:
    """Computed anew from the turns, so that anybody can."""
    _, row = measured
    rounds, columns = row["rounds"], row["columns"]
    taken = [
        {rounds["names"][index]: time for index, time in zip(order, times, strict=True)}
        for order, times in zip(rounds["orders"], rounds["microseconds"], strict=True)
    ]
    base = columns[BASE]["name"]
    for column, figures in columns.items():
        if column == BASE:
            continue
        ratios = sorted(one[base] / one[figures["name"]] for one in taken)
        assert figures["ratio"]["median"] == pytest.approx(median(ratios), rel=2e-4)
        assert figures["ratio"]["low"] == pytest.approx(ratios[7], rel=2e-4)  # 25 rounds: sign test, 95 %
        assert figures["ratio"]["most"] == pytest.approx(ratios[-1], rel=2e-4)


def test_ratios_are_true_though_the_device_drifts(measured: tuple[DryField, dict]) -> None:
    """1 % a turn and 0.2 % of noise; a fixed order of ten turns would be off by up to 9 %."""
    field, row = measured
    for column, figures in row["columns"].items():
        if column != BASE:
            wanted = field.true[row["columns"][BASE]["name"]] / field.true[figures["name"]]
            assert figures["ratio"]["median"] == pytest.approx(wanted, rel=0.03)
    assert row["noise"]["low"] < 1 < row["noise"]["high"]


def test_failures_are_in_the_record_and_not_among_the_figures(measured: tuple[DryField, dict]) -> None:
    _, row = measured
    assert list(row["failed"].values()) == ["ValueError: pretended"]
    (name,) = row["failed"]
    assert name not in row["screened"]["pipec"]["microseconds"] and len(row["screened"]["pipec"]["microseconds"]) > 20


def test_another_seed_gives_another_order() -> None:
    orders = [measure(SHAPE, DryField(SHAPE), Settings(rounds=9, seed=seed))["rounds"]["orders"] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


# ------------------------------------------------------------------------------------------------------------ the program


def test_a_dry_run_writes_the_whole_record(tmp_path: Path) -> None:
    out = tmp_path / "dry.json"
    assert h200.main(["--dry-run", "--shapes", f"{SHAPE},16x4096x14336", "--rounds", "7", "--commit", "abc", "-o", str(out)]) == 0
    record = json.loads(out.read_text())
    assert record["method"] == 2 and record["seed"] == 0 and record["rounds"] == 7 and record["left_out"] == []
    assert record["source"]["commit"] == "abc" and len(record["source"]["sha256"]) == 64
    assert list(record["figures"]) == [str(SHAPE), "16x4096x14336"]
    assert {"date", "machine", "versions", "gpu"} <= set(record)


def test_what_there_is_no_time_for_is_said(tmp_path: Path) -> None:
    out = tmp_path / "dry.json"
    assert h200.main(["--dry-run", "--shapes", "odd", "--budget", "0", "-o", str(out)]) == 1
    assert len(json.loads(out.read_text())["left_out"]) == len(named("odd"))


def test_a_dry_run_does_not_replace_measured_results() -> None:
    with pytest.raises(SystemExit):
        h200.main(["--dry-run"])


def test_shapes_that_do_not_exist_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        h200.main(["--shapes", "1x2x3"])
    assert "1x2x3" in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------------- tables


def test_what_is_planned_is_measured_under_its_name() -> None:
    """At this shape, the choice is a tile that is listed with its values in another order."""
    planned = plan(next(shape for shape in SHAPES if str(shape) == "16x4096x14336"))
    names = [tile.name for tile in planned.contending]
    assert {tile.name for tile in (planned.automatic, planned.chosen, *planned.searched)} <= {*names} and len({*names}) == len(
        names
    )


def test_shapes() -> None:
    every = (*SHAPES, *WAVES)
    assert len({str(shape) for shape in every}) == len(every)
    held_out = [shape for shape in SHAPES if shape.group != "published"]
    assert len(SHAPES) - len(held_out) == 12 and len(held_out) >= 36
    projections = {shape.m for shape in named("projections")}
    assert {1, 16, 128, 2048} <= projections
    # Tensor maps take rows of whole 16 bytes only.
    assert all(shape.k * (1 if shape.kind == "fp8" else 2) % 16 == 0 and shape.n * 2 % 16 == 0 for shape in every)
    assert {shape.group for shape in every} == set(GROUPS)


def _all_tiles() -> list[Tile]:
    """Those that are listed, and what the model chooses, which takes a second for each shape."""
    listed = [tile for shape in SHAPES for tile in tiles(shape)]
    chosen = [automatic(shape) for shape in some("automatic tiles", SHAPES, 0.03)]
    found = {(tile.example, str(tile.constants)): tile for tile in (*listed, *chosen)}
    return list(found.values())


def test_every_tile_passes_the_checks() -> None:
    refused = {}
    for tile in some("tiles of the method", _all_tiles(), 0.15):
        source = read_source(str(ROOT / "examples" / f"{tile.example}.pipe"))
        state = compile_source(source, Options(None, dict(tile.constants)), until="limits")
        if state.failed:
            refused[f"{tile.example} {tile.name}"] = [one.title for one in state.diagnostics]
    assert refused == {}


def test_names_of_tiles_are_their_own() -> None:
    for shape in (*named("published"), Shape(256, 256, 16384, "narrow")):
        names = [tile.name for tile in tiles(shape)]
        assert len(set(names)) == len(names) > 20
        assert tiles(shape)[0].example == KERNEL
