"""Tiles that the closed form picks beside those of NVIDIA's nvMatmulHeuristics, on the H200 tiles on record; no GPU is needed.

    python benchmarks/prediction/heuristics.py --ask     # where nvidia-matmul-heuristics is installed: asks it again
    python benchmarks/prediction/heuristics.py           # what both choices cost, of bf16 shapes that no constant was fitted to

nvMatmulHeuristics is asked for kernels of CUTLASS 3, the best first, and given the fastest kernel on record of the first CTA tile (rows
and columns) that is on record; stages and clusters are left open, to its advantage. The closed form chooses among all tiles on record.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.prediction.fit_model import RECORD, geomean, left_out, parts, seconds
from benchmarks.prediction.measured import RESULTS, Measured, measured
from pipec.predict.device import DEVICES

RECORDS = (RECORD, "h200", "h200_tiles")
ANSWERS = RESULTS / "heuristics.json"
_ASKED = 8  # kernels of each shape
_LEAST_ROWS = 128  # below, it takes a tile of the transposed product

Answers = Mapping[str, list[list[int]]]  # shape -> [rows, columns] of CTA tiles, the best first


def ask() -> dict[str, object]:
    from importlib.metadata import version

    import nvMatmulHeuristics as peer  # type: ignore[import-not-found]

    interface = peer.NvMatmulHeuristicsInterfaceEx(
        backend=peer.NvMatmulHeuristicsTarget.CUTLASS3, gpu=peer.NvMatmulHeuristicsNvidiaGpu.H200_SXM
    )
    shapes = sorted({one for record in RECORDS for one in json.loads((RESULTS / f"{record}.json").read_text())["figures"]})
    found = {}
    for shape in shapes:
        if ":" not in shape:
            m, n, k = map(int, shape.split("x"))
            layout = peer.NvMatmulHeuristicsMatmulLayout.NT_ROW_MAJOR  # a @ b.T, as the examples have it
            problem = interface.makeNvMatmulHeuristicsProblem(m, n, k, layout)
            kernels = [one["kernel"] for one in interface.get(problem, _ASKED, precision="TST")]  # bf16, sums in f32
            found[shape] = [[one.cta_tile_m, one.cta_tile_n] for one in kernels]
    return {"version": version("nvidia-matmul-heuristics"), "tiles": found}


def tile_of(one: Measured) -> list[int]:
    """Rows and columns of a CTA's tile: what it loads into a stage of its first ring."""
    loads = list(one.work.loads)
    first = [load for load in loads if load.pipeline == loads[0].pipeline]
    return [sum(load.rows for load in first if load.tensor == tensor) for tensor in ("a", "b")]


def costs(record: str, answers: Answers) -> tuple[list[float], list[float], int]:
    """Of nvMatmulHeuristics' choices and of the model's at the same shapes, over the best on record; and at how many shapes none of the
    asked tiles is on record."""
    rows = [one for one in left_out(measured(record), parts(measured(RECORD))[0]) if one.kind == "bf16"]
    theirs, ours, missing = [], [], 0
    for shape in sorted({one.shape for one in rows if one.sizes[0] >= _LEAST_ROWS and one.shape in answers}):
        group = [one for one in rows if one.shape == shape]
        best = min(one.seconds for one in group)
        alike = [[one.seconds for one in group if tile_of(one) == tile] for tile in answers[shape]]
        taken = next((times for times in alike if times), None)
        if taken is None:
            missing += 1
            continue
        theirs.append(min(taken) / best)
        ours.append(min(group, key=lambda one: seconds(DEVICES["h200"], one)).seconds / best)
    return theirs, ours, missing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ask", action="store_true")
    if parser.parse_args().ask:
        ANSWERS.write_text(json.dumps(ask()) + "\n", encoding="utf-8")
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))["tiles"]
    for record in RECORDS:
        theirs, ours, missing = costs(record, answers)
        print(f"{record}: {len(ours)} shapes, {missing} more without a tile on record")
        for name, found in (("nvMatmulHeuristics", theirs), ("pipec", ours)):
            print(f"  {name:18} geometric mean {geomean(found):.3f}, worst {max(found):.2f}")


if __name__ == "__main__":
    main()
