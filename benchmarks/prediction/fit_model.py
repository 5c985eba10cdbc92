"""Fits the constants of a device in pipec.predict.device to recorded times of tiles, and says how well tiles are chosen elsewhere.

    python benchmarks/prediction/fit_model.py [--record h200_gemm] [--judge h200 h200_tiles] [--device h200]

The shapes of the record are dealt into three parts. A part is fitted, with what two other records have of its shapes, and the shapes of
the other two are judged, for each of the three; the constants that stand in the table are those of the first, held near those that stood
there before, which this script does not. The loss has a logarithm of what is estimated over what was measured for each tile; the same
less its mean over the shape, which is what tells tiles apart; that mean; and cycles, by the times of `h200_cycles` at the clock that
multiprocessors noted. Tiles far from the best count less. `--judge` names other records: shapes that were fitted to are left out there,
too.
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.gemm.gemm_shapes import SHAPES
from benchmarks.prediction.measured import Measured, measured, noted
from pipec.predict.closed import sustained_clock
from pipec.predict.device import DEVICES, Device
from pipec.record import replace

OF_DEVICE = (
    *("memory", "loaded_rate", "served_rate", "multicast_rate", "stalling", "l2_follows"),
    *("outside", "tile", "element"),
)
OF_POWER = ("idle", "products", "memory", "exponent")
RECORD = "h200_gemm"  # the newest, to a part of whose shapes the constants are fitted
BESIDE = ("h200_choice", "h200_overlap")  # what they have of the same shapes is fitted to as well
PARTS = 3
DOZEN, DRAWS = 12, 20
_NEAR = 1.3  # tiles within this factor of the best count in full
_FAR = 2.0  # and beyond this one not at all
_LITTLE = 0.25  # what tiles between the two count
_OF_MEANS = 0.5  # what the means of shapes count, and every other kind of term 1
_SMALL = 0.01  # residuals whose squares count
_STEP = 0.03
_DAMPING = 0.01
_POWER = "power "
NAMED = (*OF_DEVICE, *(_POWER + name for name in OF_POWER))
Residuals = np.ndarray[Any, Any]


class Estimated(NamedTuple):
    """A tile and the seconds that a device is estimated to take for it."""

    measured: Measured
    estimate: float


def seconds(device: Device, one: Measured) -> float:
    return one.estimate(device)


def best_of(rows: Sequence[Measured]) -> dict[str, float]:
    """Shape -> seconds of its fastest tile."""
    found: dict[str, float] = {}
    for one in rows:
        found[one.shape] = min(found.get(one.shape, one.seconds), one.seconds)
    return found


def parts(rows: Sequence[Measured]) -> list[set[str]]:
    """Shapes, dealt out in an order drawn once and for all: one of `SHAPES` that the record lacks keeps its place."""
    found, listed = {one.shape for one in rows}, {str(shape) for shape in SHAPES}
    shapes = sorted(found | listed if found <= listed else found)
    random.Random(0).shuffle(shapes)
    return [set(shapes[part::PARTS]) for part in range(PARTS)]


def clocks(device: Device, rows: Sequence[Measured], best: Mapping[str, float]) -> list[float]:
    """Of the best tile of each shape, the logarithm of the clock that is expected over the one that was read."""
    fastest = [one for one in rows if one.seconds == best[one.shape] and one.clock]
    return [log(sustained_clock(one.work, device) / one.clock) for one in fastest if one.clock]


class Fit:
    """Least squares, each time weighted by the last residuals, so that it is their absolute values that become least; a step is taken from
    the derivatives by the logarithm of each constant, and halved until it helps."""

    def __init__(self, records: Sequence[Sequence[Measured]], cycles: Sequence[Measured]) -> None:
        self._tiles: list[Measured] = []
        self._cycles = cycles
        weights: list[float] = []
        groups: list[list[int]] = []
        for rows in records:
            best, places = best_of(rows), defaultdict(list)
            for one in rows:
                if one.seconds < _FAR * best[one.shape]:
                    places[one.shape].append(len(self._tiles))
                    self._tiles.append(one)
                    weights.append(1.0 if one.seconds < _NEAR * best[one.shape] else _LITTLE)
            groups += places.values()
        each = np.array(weights)
        self._mean = np.zeros((len(groups), len(self._tiles)))
        for number, group in enumerate(groups):
            self._mean[number, group] = each[group] / each[group].sum()
        self._group = np.zeros(len(self._tiles), dtype=int)
        for number, group in enumerate(groups):
            self._group[group] = number
        each /= each.sum()
        self._weights = np.concatenate(
            [each, each, np.full(len(groups), _OF_MEANS / len(groups)), np.full(len(cycles), 1 / max(1, len(cycles)))]
        )

    def of(self, device: Device) -> Residuals:
        """All terms of the loss."""
        tiles = np.array([log(seconds(device, one) / one.seconds) for one in self._tiles])
        means = self._mean @ tiles
        cycles = np.array([log(one.estimate(device, one.clock) / one.seconds) for one in self._cycles])
        return np.concatenate([tiles, tiles - means[self._group], means, cycles])

    def loss(self, residuals: Residuals) -> float:
        return float(self._weights @ np.hypot(residuals, _SMALL))

    def fitted(self, device: Device, rounds: int = 6) -> Device:
        residuals = self.of(device)
        for _ in range(rounds):
            slopes = np.stack([(self.of(changed(device, {name: _STEP})) - residuals) / _STEP for name in NAMED], axis=1)
            weights = self._weights / np.hypot(residuals, _SMALL)
            square = (slopes.T * weights) @ slopes
            step = -np.linalg.solve(square + _DAMPING * np.diag(np.diag(square)), (slopes.T * weights) @ residuals).clip(
                -0.3, 0.3
            )
            for _ in range(5):
                tried = changed(device, dict(zip(NAMED, step.tolist(), strict=True)))
                found = self.of(tried)
                if self.loss(found) < self.loss(residuals):
                    device, residuals = tried, found
                    break
                step = step / 2
            else:
                break
        return device


def changed(device: Device, steps: Mapping[str, float]) -> Device:
    """With some constants as many times as large as these logarithms say; those of power have its name in front."""
    machine = device.machine
    assert machine.sustained is not None, "nothing is known of how its clock falls"
    power = {name.removeprefix(_POWER): step for name, step in steps.items() if name.startswith(_POWER)}
    others = {name: step for name, step in steps.items() if not name.startswith(_POWER)}
    sustained = replace(machine.sustained, **{name: getattr(machine.sustained, name) * exp(step) for name, step in power.items()})
    scaled = {name: getattr(device, name) * exp(step) for name, step in others.items()}
    return replace(device, machine=replace(machine, sustained=sustained), **scaled)


def regrets(tiles: Sequence[Estimated], *, dozen: bool = False) -> list[float]:
    """Time of the tile that is estimated to be fastest over that of the fastest: among all tiles on record at a shape, or, many times, of
    a dozen of them."""
    return [
        min(drawn, key=lambda one: one.estimate).measured.seconds / min(one.measured.seconds for one in drawn)
        for group in by_shape(tiles)
        for drawn in (_dozens(group) if dozen else [group])
    ]


def by_shape(tiles: Sequence[Estimated]) -> list[list[Estimated]]:
    found: dict[str, list[Estimated]] = defaultdict(list)
    for one in tiles:
        found[one.measured.shape].append(one)
    return list(found.values())


def _dozens(group: list[Estimated]) -> Iterator[list[Estimated]]:
    chance = random.Random(group[0].measured.shape)
    for _ in range(DRAWS):
        yield chance.sample(group, min(DOZEN, len(group)))


def geomean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values)) if values else float("nan")


def figures(device: Device, rows: Sequence[Measured]) -> dict[str, float]:
    best, tiles = best_of(rows), [Estimated(one, seconds(device, one)) for one in rows]
    good = [tile for tile in tiles if tile.measured.seconds < _NEAR * best[tile.measured.shape]]
    errors = [abs(tile.estimate / tile.measured.seconds - 1) for tile in good]
    noted = [abs(one.measured.estimate(device, one.measured.clock) / one.measured.seconds - 1) for one in good]
    every, dozens = regrets(tiles), regrets(tiles, dozen=True)
    return {
        "shapes": len(best),
        "tiles": len(rows),
        "error_of_good_tiles": round(median(errors), 4),
        "at_the_clock_on_record": round(median(noted), 4),
        "error_of_clocks": round(median(map(abs, clocks(device, rows, best))), 4),
        "regret_of_all": round(geomean(every), 4),
        "worst_of_all": round(max(every), 4),
        "regret_of_a_dozen": round(geomean(dozens), 4),
        "p99_of_a_dozen": round(sorted(dozens)[int(0.99 * (len(dozens) - 1))], 4),
        "worst_of_a_dozen": round(max(dozens), 4),
    }


def left_out(rows: Sequence[Measured], known: set[str]) -> list[Measured]:
    return [one for one in rows if one.shape not in known]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", default=RECORD)
    parser.add_argument("--judge", nargs="*", default=["h200", "h200_tiles"])
    parser.add_argument("--device", default="h200")
    options = parser.parse_args()
    rows = measured(options.record)
    records = {name: measured(name) for name in options.judge} | {options.record: rows}
    start = DEVICES[options.device]
    for name, record in records.items():
        print(f"as it stands, {name}: {figures(start, left_out(record, parts(rows)[0]))}")
    for number, shapes in enumerate(parts(rows)):
        fitted = [[one for one in some if one.shape in shapes] for some in (rows, *(measured(name) for name in BESIDE))]
        device = Fit(fitted, [one for one in noted() if one.shape in shapes]).fitted(start)
        for name, record in records.items():
            print(f"fitted to part {number}, {name}: {figures(device, left_out(record, shapes))}")
        print(*(f"        {name}={getattr(device, name):.4g}," for name in OF_DEVICE), sep="\n")
        print(*(f"        {name}={getattr(device.machine.sustained, name):.4g}," for name in OF_POWER), sep="\n")


if __name__ == "__main__":
    main()
