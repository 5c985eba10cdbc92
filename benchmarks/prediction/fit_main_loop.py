"""Fits the main-loop constants of pipec.predict.device to published loops of a B200, and says how well rows that were left out are met.

    python benchmarks/prediction/fit_main_loop.py

The time of a row is in closed form: the slowest of the issuing thread, the copy engine, the tensor cores, and a stage's way round the ring
over the number of stages, as tests/predict holds the event-by-event run to it. Only rows whose data stays in the near half of the L2 count.
The loss is the mean of the relative errors; tiles are left out whole, with all their numbers of stages.
"""

import random
import sys
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.prediction.predict import MOST_STAGES, SHARED_BYTES, SWEEP_CLOCK, main_loops
from pipec.predict.device import DEVICES, Device
from pipec.record import replace

FITTED = {"launch": 1e-6, "issue": 3.0, "issue_row": 0.05, "turn": 4.0, "load": 20.0, "load_row": 0.03, "load_line": 0.04}
FILL = 1.35e-6  # seconds of the first stage and the epilogue at the sweep's clock, which the event-by-event run adds to a launch
Row = dict[str, int | float]


def seconds(device: Device, row: Row) -> float:
    m, n, bytes_ = int(row["m"]), int(row["n"]), int(row["block"]) * 2
    stages = row["stages"] or min(MOST_STAGES, SHARED_BYTES // ((m + n) * bytes_ + 16))
    boxes, rows = 2 * ceil(bytes_ / 128), (m + n) * ceil(bytes_ / 128)
    products = bytes_ / 32 * device.interval(m, n, 1, False)
    issue = boxes * device.issue + rows * device.issue_row + device.turn
    way = device.turn + rows * device.row + device.load + rows * device.load_row + (m + n) * bytes_ / 128 * device.load_line
    way += device.latency(m, n, 1, False) + products
    pace = max(issue, rows * device.row, products, way / stages)
    return device.launch + FILL + pace * row["k"] / row["block"] / SWEEP_CLOCK


def errors(device: Device, rows: Sequence[Row]) -> list[float]:
    return [abs(seconds(device, row) / row["seconds"] - 1) for row in rows]


def fitted(device: Device, rows: Sequence[Row], rounds: int = 25) -> Device:
    """Coordinate descent with steps that halve where none helps."""
    least, steps = sum(errors(device, rows)), dict(FITTED)
    for _ in range(rounds):
        for name, step in steps.items():
            for change in (step, -step):
                tried = replace(device, **{name: max(0.0, getattr(device, name) + change)})
                if (found := sum(errors(tried, rows))) < least:
                    device, least = tried, found
                    break
            else:
                steps[name] = step / 2
    return device


def said(device: Device, rows: Sequence[Row]) -> str:
    found = sorted(errors(device, rows))
    return f"{len(found)} rows: median {median(found):.2%}, p90 {found[int(0.9 * (len(found) - 1))]:.2%}, largest {found[-1]:.1%}"


def main() -> None:
    device = DEVICES["b200"]
    rows = [row for row in main_loops() if (row["m"] + row["n"]) * row["k"] * 2 < device.near_bytes]
    print(f"as it is: {said(device, rows)}")
    tiles = sorted({(row["m"], row["n"], row["block"]) for row in rows})
    for seed in range(4):
        known = set(random.Random(seed).sample(tiles, len(tiles) // 2))
        half = fitted(device, [row for row in rows if (row["m"], row["n"], row["block"]) in known])
        print(f"left out, half {seed}: {said(half, [row for row in rows if (row['m'], row['n'], row['block']) not in known])}")
    for m in (64, 128):
        one = fitted(device, [row for row in rows if row["m"] == m])
        print(f"fitted to M = {m}, the other left out: {said(one, [row for row in rows if row['m'] != m])}")
    device = fitted(device, rows)
    print(f"all fitted: {said(device, rows)}")
    for name in FITTED:
        print(f"        {name}={getattr(device, name):.4g},")


if __name__ == "__main__":
    main()
