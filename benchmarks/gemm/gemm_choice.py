"""What the choice among the kernels of pipec.library.gemm would have taken at the shapes on record, beside tuned cuBLASLt.

    python benchmarks/gemm/gemm_choice.py       # needs no GPU; writes benchmarks/results/gemm_choice.json

The records (`RECORDS`, in benchmarks/results) have the times of 29 to 120 tiles at each shape, of which some are
among the candidates of the library's kernels. Two questions are asked at each shape. What is chosen among all candidates, and is it one
that was measured: if not, it is not judged. And what is chosen among those that were measured: that has a time at every shape. A
candidate is the tile on record that does the same work.

The speed of a tile relative to cuBLASLt is that of the best tile on record, which was compared with cuBLASLt in rounds of their own, over
its time relative to the best tile's in their screening.
"""

import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import json

from benchmarks.common import RESULTS, write
from benchmarks.gemm.gemm_shapes import SHAPES, Shape
from benchmarks.prediction.measured import MULTIPROCESSORS, Measured, measured
from pipec import library
from pipec.predict.workload import Workload
from pipec.record import replace
from pipec.tune.choice import Ranked
from pipec.tune.several import Several
from pipec.tune.works import Works

RECORDS = ("h200_gemm", "h200_choice", "h200_overlap", "h200_products", "h200_turns")
_EXAMPLES = {entry.kernels[0]: entry.file for entry in library.GEMM["sm_90a"]}


@cache
def several(kind: str) -> Several:
    tuned = library.gemm("sm_90a", dtype="e4m3" if kind == "fp8" else "bf16").tuned
    assert tuned is not None and isinstance(tuned.choices, Several)
    return tuned.choices


@cache
def ranked(shape: Shape) -> list[tuple[Ranked, str, Workload]]:
    """All candidates by predicted time, each with its example and its work, which a tile on record must have in common with it."""
    offer, sizes = several(shape.kind), {"M": shape.m, "N": shape.n, "K": shape.k}
    works, found = Works(sizes, MULTIPROCESSORS), []
    for one in offer.ranked(sizes, MULTIPROCESSORS):
        name, own = offer.split(one.candidate)
        found.append((one, _EXAMPLES[name.partition(".")[0]], works.of(offer.choices(name).typed[own])))
    return found


def _told(work: Workload, overlapping: bool) -> str:
    """What tells two tiles apart; not whether launches overlap, in a record that did not allow it."""
    return repr(replace(work, programmatic=work.programmatic and overlapping))


def judged(shape: Shape, rows: list[Measured], best_ratio: float) -> dict[str, Any]:
    """`rows`: every tile on record at a shape."""
    offer, candidates = several(shape.kind), ranked(shape)
    overlapping = any(row.work.programmatic for row in rows)
    # The best time of a tile that was tried twice, under two names.
    seconds: dict[tuple[str, str], float] = {}
    for row in sorted(rows, key=lambda one: -one.seconds):
        seconds[row.example, _told(row.work, overlapping)] = row.seconds
    same = [(one.candidate, (example, _told(work, overlapping))) for one, example, work in candidates]
    times = {candidate: seconds[told] for candidate, told in same if told in seconds}
    best = min(row.seconds for row in rows)
    free = offer.best_of([one for one, _, _ in candidates])
    on_record: list[Ranked] = [one for one, _, _ in candidates if one.candidate in times]
    chosen = offer.best_of(on_record)
    if chosen not in times:  # the file's own values, which stay where nothing gains on them
        chosen = on_record[0].candidate
    return {
        "group": shape.group,
        "candidates": len(candidates),
        "on_record": len(on_record),
        "best_ratio": best_ratio,
        "best_offered": round(min(times.values()) / best, 4),
        "chosen": str(free),
        "cost": round(times[free] / best, 4) if free in times else None,
        "chosen_on_record": str(chosen),
        "cost_on_record": round(times[chosen] / best, 4),
    }


def figures_of(record: dict[str, Any], name: str) -> dict[str, Any]:
    rows: dict[str, list[Measured]] = defaultdict(list)
    for one in measured(name):
        rows[one.shape].append(one)
    figures = {}
    for shape in (shape for shape in SHAPES if str(shape) in record["figures"]):
        ratio = record["figures"][str(shape)]["columns"]["any"]["ratio"]["median"]
        figures[str(shape)] = found = judged(shape, rows[str(shape)], ratio)
        print(name, shape, found, file=sys.stderr)
    return {"record": {key: record[key] for key in ("date", "gpu")}, "shapes": figures}


def main() -> None:
    records = {name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in RECORDS}
    write("gemm_choice", {name: figures_of(record, name) for name, record in records.items()})


if __name__ == "__main__":
    main()
