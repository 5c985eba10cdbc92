"""Predicted times of kernels of another compiler beside those measured on a Hopper GPU.

    python benchmarks/prediction/foreign.py FOLDER [-o FILE]

The folder is what `benchmarks/gpu/h200_foreign.py` or `h200_cuda.py` beside it writes: times, and the PTX and the launch of each kernel.
Nothing is fitted to them but what single instructions take, which is measured by itself, and how long a load from memory takes, which is
read off one copy. Two predictions are recorded: at the clock that the model expects, and at the
one that was read while the kernel ran.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gpu.cuda_kernels import cases, drawn
from pipec.commands.launching.launch_file import read_call
from pipec.predict.device import DEVICES
from pipec.predict.executed.launch import Executed, Launched, NotTimed, Timed, timed

H200 = DEVICES["h200"]


def predicted(ptx: Path, clock: float) -> tuple[Timed, Timed]:
    """At the model's clock, and at this one."""
    call = read_call(str(ptx.with_suffix(".json")), 0)
    x, y, z = (*(call.grid or ()), 1, 1, 1)[:3]
    launched = Launched(
        ptx.read_text(), str(call.kernel), (x, y, z), call.block, call.cluster, call.shared, call.arguments, call.allocations,
        call.registers,
    )  # fmt: skip
    executed = Executed(launched)
    return timed(executed, H200, None), timed(executed, H200, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "h200_foreign.json")
    options = parser.parse_args()
    measured = json.loads((options.folder / "measured.json").read_text())
    for case in cases():
        if case.name in measured["kernels"]:
            drawn(case, options.folder / "ptx")
    rows: dict[str, Any] = {}
    for name, row in measured["kernels"].items():
        try:
            found, at_clock = predicted(options.folder / "ptx" / f"{name.replace(' ', '_')}.ptx", row["clock_ghz"] * 1e9)
        except NotTimed as reason:
            rows[name] = row | {"refused": reason.what}
            continue
        rows[name] = row | {
            "predicted": found.seconds,
            "predicted_clock_ghz": found.clock / 1e9,
            "predicted_at_clock": at_clock.seconds,
            "bound_by": found.bound_by,
            "blocks_per_multiprocessor": found.held,
        }
        print(f"{name:48} {row['seconds'] * 1e6:8.2f} {found.seconds * 1e6:8.2f} {at_clock.seconds * 1e6:8.2f} us", flush=True)
    about = {"measured": {name: value for name, value in measured.items() if name not in ("kernels", "micro")}}
    record = surroundings() | about | {"kernels": rows, "instructions": measured.get("micro", {})}
    options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
