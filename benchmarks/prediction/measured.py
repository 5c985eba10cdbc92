"""Times of tiles on record, and what a block of each does: for fitting the constants of pipec.predict and for its tests."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as with_other
from functools import cache
from pathlib import Path

from benchmarks.gemm.gemm_shapes import Kind
from pipec.api.files import read_source
from pipec.driver import Options, compile_source
from pipec.predict.closed import estimate
from pipec.predict.counting import workload
from pipec.predict.device import Device
from pipec.predict.tile_loops import written
from pipec.predict.workload import Workload
from pipec.record import replace
from pipec.sema import tree
from pipec.tune.rounds import Patience

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
MULTIPROCESSORS = 132  # of the H200 that all of it was measured on
# Examples whose kernel does something else since then: older records have other tiles of the same names, and no time of these.
CHANGED = {"gemm_sm90_pingpong": "2026-11-24T17:40"}
OVERLAPPING = (
    "2026-11-24T21:00"  # older records were measured with launches one after the other, whatever their kernels allow now
)
PATIENCE = Patience()  # of the screenings on record
# What multiprocessors note of their clock, for what the driver reports after the turns: the median over the shapes of h200_cycles.json.
NOTED = 0.9


@dataclass(frozen=True, slots=True)
class Measured:
    """A tile of an example at a shape; `name` as the record has it. Seconds per launch, inputs in DRAM; of all the kernels of a file,
    those `behind` the first one included."""

    shape: str
    kind: Kind
    example: str
    name: str
    sizes: tuple[int, int, int]
    seconds: float
    work: Workload
    clock: float | None  # Hz, by what the driver reported while tiles of the shape were measured
    behind: tuple[Workload, ...] = ()

    def estimate(self, device: Device, clock: float | None = None) -> float:
        """Seconds by the closed form."""
        return sum(estimate(work, device, clock).seconds for work in (self.work, *self.behind))


@cache
def measured(name: str) -> tuple[Measured, ...]:
    """Every tile of a record, `h200` (method 2) or `h200_fixed_order`; examples with splits of K are left out, and tiles of kernels that
    have changed since. Empty without the record."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return ()
    record = json.loads(path.read_text(encoding="utf-8"))
    overlapping = record["date"] >= OVERLAPPING
    found = (one for shape, row in record["figures"].items() for one in _of_shape(shape, row, overlapping))
    return tuple(one for one in found if record["date"] >= CHANGED.get(one.example, ""))


@cache
def noted(*, long: bool = True) -> tuple[Measured, ...]:
    """Tiles of `h200_cycles` in short turns, and in long ones, with the clock that multiprocessors noted meanwhile."""
    tiles = {
        (one.shape, one.name): one for record in ("h200", "h200_gemm", "h200_choice", "h200_overlap") for one in measured(record)
    }
    found = []
    for title, row in json.loads((RESULTS / "h200_cycles.json").read_text(encoding="utf-8"))["figures"].items():
        shape = title.partition(",")[0]
        for name, one in (*row["short"].items(), *(row.get("long", {}).items() if long else ())):
            if (shape, f"pipec {name}") in tiles:
                tile = tiles[shape, f"pipec {name}"]
                found.append(with_other(tile, seconds=one["microseconds"] / 1e6, clock=one["clock_mhz"] * 1e6))
    return tuple(found)


def _of_shape(shape: str, row: dict, overlapping: bool) -> Iterator[Measured]:
    size, _, kind = shape.partition(":")
    m, n, k = (int(part) for part in size.split("x"))
    if "screened" in row:
        times = compared(row["screened"].get("pipec", {"microseconds": {}}))
    else:
        times = {name: one["microseconds"] for name, one in row.items() if isinstance(one, dict) and "microseconds" in one}
    for name, microseconds in times.items():
        found = re.fullmatch(r"pipec (\w+)((?: \w+=\w+)*)", name)
        if found is None or found[1] == "split_k":
            continue
        example = "gemm_sm90" if found[1] == "sm90" else f"gemm_sm90_{found[1]}"
        constants = found[2].strip() + (" AB=e4m3" if kind == "fp8" else "")
        kernels = _kernels(example, constants.strip())
        counted = (workload(kernel, {"M": m, "N": n, "K": k}, MULTIPROCESSORS) for kernel in kernels)
        work, *behind = (one if overlapping else replace(one, programmatic=False) for one in counted)
        behind = [replace(one, warm=written(kernel)) for kernel, one in zip(kernels, behind, strict=False)]
        clock = row["clock_mhz"] * 1e6 * NOTED if row.get("clock_mhz") else None
        dtype: Kind = "fp8" if kind == "fp8" else "bf16"
        yield Measured(shape, dtype, example, name, (m, n, k), microseconds / 1e6, work, clock, tuple(behind))


def compared(screened: dict) -> dict[str, float]:
    """Microseconds of each candidate beside those that stayed to the end of a screening.

    Who is dropped has taken part in the first rounds only, in which the clock may have been higher, and was slower in each of them than
    the leader by a factor that the screening knows: its median does not say less than that.
    """
    times, dropped = screened["microseconds"], screened.get("dropped", {})
    best = min((one for name, one in times.items() if name not in dropped), default=0.0)
    behind = {name: PATIENCE.first if rounds == 1 else PATIENCE.behind for name, rounds in dropped.items()}
    return {name: max(one, best * behind[name]) if name in behind else one for name, one in times.items()}


@cache
def _kernels(example: str, constants: str) -> tuple[tree.Kernel, ...]:
    given = dict(word.split("=") for word in constants.split())
    state = compile_source(read_source(str(ROOT / "examples" / f"{example}.pipe")), Options(None, given), until="analyse")
    assert state.trees is not None, state.diagnostics
    return tuple(state.trees)
