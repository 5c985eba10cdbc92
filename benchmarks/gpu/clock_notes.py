"""The pace of main loops as kernels note it themselves, beside the pace that is predicted for them.

    python benchmarks/gpu/clock_notes.py [--device cuda] [-o FILE]

Kernels are compiled with time stamps (pipec.timestamps). The pace of a loop is the median of the cycles from the end of one wait of the
multiplying role for a stage to the end of the next one, in the first blocks, without the first round of the ring; noting the clock takes
part of it. Counts cycles, so the clock's rate does not matter.
"""

import argparse
import json
import statistics
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import pipec
from benchmarks.common import RESULTS, surroundings
from pipec.runtime import random_arguments
from pipec.timestamps import stamped, words

TILES: tuple[dict[str, object], ...] = (
    {"BM": 128, "BN": 256, "STAGES": 4},
    {"BM": 128, "BN": 128, "STAGES": 3},
    {"BM": 128, "BN": 128, "STAGES": 6},
    {"BM": 128, "BN": 64, "STAGES": 8},
    {"BM": 64, "BN": 64, "STAGES": 4, "WARPS": 4},
    {"BM": 64, "BN": 128, "STAGES": 8, "WARPS": 4},
)
BLOCKS = 4  # that note the clock


def paces(constants: dict[str, object], sizes: dict[str, int], device: str) -> dict[str, Any]:
    path = ROOT / "examples" / "gemm_sm90_persistent.pipe"
    noting = pipec.compile(path, constants=constants, timestamps=True)["gemm_sm90_persistent"]
    given = {**sizes, "TIMESTAMPS": words(noting.interface, BLOCKS)}
    arguments = random_arguments(noting.interface, given, 0)
    arguments["timestamps"][...] = 0
    noting(**arguments, device=device)
    found = list(stamped(noting.interface, arguments["timestamps"].tolist()))
    steps = []
    for block in range(BLOCKS):
        ends = [one.end for one in found if (one.block, one.role, one.what) == (block, "compute", "wait for input")]
        steps += [after - before for before, after in pairwise(ends[2 * int(str(constants["STAGES"])) :])]
    loop = pipec.compile(path, constants=constants)["gemm_sm90_persistent"].predict(**sizes).loops[0]
    noted = statistics.median(steps)
    return {"noted": noted, "predicted": round(loop.period, 1), "ratio": round(loop.period / noted, 3), "steps": len(steps)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "sim"), default="cuda")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_clock.json")
    options = parser.parse_args()
    sizes = {"M": 256, "N": 256, "K": 2048} if options.device == "sim" else {"M": 4096, "N": 4096, "K": 4096}
    figures = {}
    for constants in TILES:
        name = " ".join(f"{key}={value}" for key, value in constants.items())
        figures[name] = paces(constants, sizes, options.device)
        print(name, figures[name], flush=True)
    options.output.write_text(json.dumps(surroundings() | {"sizes": sizes, "figures": figures}, indent=2) + "\n")


if __name__ == "__main__":
    main()
