"""Fits the constants of pipec.tune.model to times of tiles on record, and says how well tiles are chosen at shapes that were not fitted.

    python benchmarks/fit_model.py [--record h200] [--target sm_90a]

Prints the row for MACHINES. Half of the shapes are fitted, the other half is predicted, in four random halves; then all are fitted. The
loss is the mean of |log(predicted / measured)|, tiles far from the best counting less: what matters is telling the good ones apart.
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Mapping
from math import exp, log
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from benchmarks.measured import Measured, measured
from pipec.record import fields_of, replace
from pipec.tune.model import MACHINES, Machine, predict

FITTED = (
    "launch",
    "product",
    "bubble",
    "trip",
    "tile",
    "element",
    "l2",
    "flops",
    "first",
    "outside",
    "split",
    "dram",
    "l2_capacity",
)
_NEAR = 1.3  # tiles within this factor of the best count in full


def seconds(machine: Machine, one: Measured) -> float:
    return predict(one.work, machine).seconds


def loss(machine: Machine, rows: list[Measured], best: Mapping[str, float]) -> float:
    total = weights = 0.0
    for one in rows:
        weight = 1.0 if one.seconds < _NEAR * best[one.shape] else 0.25
        total += weight * abs(log(seconds(machine, one) / one.seconds))
        weights += weight
    return total / weights


def fitted(machine: Machine, rows: list[Measured], best: Mapping[str, float], rounds: int = 16) -> Machine:
    """Coordinate descent; each constant's step grows where it helps and shrinks where it does not."""
    least = loss(machine, rows, best)
    steps = dict.fromkeys(FITTED, 0.2)
    for _ in range(rounds):
        for name, step in steps.items():
            better = False
            for factor in (1 + step, 1 / (1 + step)):
                changed = replace(machine, **{name: getattr(machine, name) * factor})
                if changed.product >= 1 and (found := loss(changed, rows, best)) < least - 1e-6:
                    machine, least, better = changed, found, True
            steps[name] = step * 1.3 if better else step / 2
    return machine


def regrets(machine: Machine, rows: list[Measured]) -> dict[str, float]:
    """Shape -> time of the tile that the model chooses over that of the best, among the tiles of one example on record."""
    found: dict[str, list[Measured]] = defaultdict(list)
    for one in rows:
        found[f"{one.shape} {one.example}"].append(one)
    several = {key: group for key, group in found.items() if len(group) > 1}
    return {
        key: min(group, key=lambda one: seconds(machine, one)).seconds / min(one.seconds for one in group)
        for key, group in several.items()
    }


def geomean(values: list[float]) -> float:
    return exp(sum(map(log, values)) / len(values)) if values else float("nan")


def said(machine: Machine, rows: list[Measured], best: Mapping[str, float]) -> str:
    errors = [abs(seconds(machine, one) / one.seconds - 1) for one in rows if one.seconds < _NEAR * best[one.shape]]
    chosen = list(regrets(machine, rows).values())
    return f"error of good tiles, median {median(errors):.1%}; regret geomean {geomean(chosen):.3f}, worst {max(chosen):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", default="h200")
    parser.add_argument("--target", default="sm_90a")
    options = parser.parse_args()
    rows = measured(options.record)
    start = MACHINES[options.target]
    shapes = sorted({one.shape for one in rows})
    best = {shape: min(one.seconds for one in rows if one.shape == shape) for shape in shapes}
    print(f"{len(rows)} tiles, {len(shapes)} shapes\nas it is: {said(start, rows, best)}")
    for seed in range(4):
        chosen = set(random.Random(seed).sample(shapes, len(shapes) // 2))
        machine = fitted(start, [one for one in rows if one.shape in chosen], best)
        print(f"held out, half {seed}: {said(machine, [one for one in rows if one.shape not in chosen], best)}")
    machine = fitted(start, rows, best)
    print(f"all fitted: {said(machine, rows, best)}")
    for name, value in fields_of(machine).items():
        print(f"        {name}={value:.4g}," if name in FITTED else f"        {name}={value!r},")


if __name__ == "__main__":
    main()
