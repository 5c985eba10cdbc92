"""Fits the constants of a device in pipec.predict.device to recorded times of tiles, and says how well tiles are chosen elsewhere.

    python benchmarks/prediction/fit_model.py [--record h200_gemm] [--judge h200 h200_tiles] [--device h200]

The shapes of the record are dealt into three parts. A part is fitted and the other two are judged, for each of the three; the constants
that stand in the table are those of the first. The loss is the mean of |log(estimated / measured)|, tiles far from the best counting less:
what matters is telling the good ones apart. A time is estimated twice, at the clock that was read while it was measured and at the one that
the model expects, so that neither makes up for the other; and the two clocks of each shape's best tile are compared. `--judge` names other
records: shapes that were fitted to are left out there, too.
"""

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from statistics import median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.gemm.gemm_shapes import SHAPES
from benchmarks.prediction.measured import Measured, measured
from pipec.predict.closed import sustained_clock
from pipec.predict.device import DEVICES, Device
from pipec.record import replace

OF_DEVICE = (
    *("launch", "product", "memory", "loaded", "loaded_rate", "multicast_rate", "outside", "split"),
    *("meet", "tile", "element"),
)
OF_MACHINE = ("dram",)
OF_POWER = ("idle", "products", "memory", "exponent")
RECORD = "h200_gemm"  # the newest, to a part of whose shapes the constants are fitted
PARTS = 3
DOZEN, DRAWS = 12, 20
_NEAR = 1.3  # tiles within this factor of the best count in full
_FAR = 2.0  # and beyond this one not at all


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


def loss(device: Device, rows: Sequence[Measured], best: Mapping[str, float]) -> float:
    total = weights = 0.0
    for one in rows:
        if one.seconds >= _FAR * best[one.shape]:
            continue
        weight = 1.0 if one.seconds < _NEAR * best[one.shape] else 0.25
        expected, noted = seconds(device, one), one.estimate(device, one.clock)
        total += weight * (abs(log(expected / one.seconds)) + abs(log(noted / one.seconds)))
        weights += weight
    return total / weights + sum(map(abs, clocks(device, rows, best))) / len(best)


def clocks(device: Device, rows: Sequence[Measured], best: Mapping[str, float]) -> list[float]:
    """Of the best tile of each shape, the logarithm of the clock that is expected over the one that was read."""
    fastest = [one for one in rows if one.seconds == best[one.shape] and one.clock]
    return [log(sustained_clock(one.work, device) / one.clock) for one in fastest if one.clock]


def changed(device: Device, group: str, name: str, factor: float) -> Device:
    if group == "power":
        power = device.machine.sustained
        assert power is not None, "nothing is known of how its clock falls"
        power = replace(power, **{name: getattr(power, name) * factor})
        return replace(device, machine=replace(device.machine, sustained=power))
    if group == "machine":
        machine = device.machine
        return replace(device, machine=replace(machine, **{name: getattr(machine, name) * factor}))
    return replace(device, **{name: getattr(device, name) * factor})


def fitted(device: Device, rows: Sequence[Measured], best: Mapping[str, float], rounds: int = 8) -> Device:
    """Coordinate descent; each constant's step grows where it helps and shrinks where it does not."""
    least = loss(device, rows, best)
    named = [
        *(("device", one) for one in OF_DEVICE),
        *(("machine", one) for one in OF_MACHINE),
        *(("power", one) for one in OF_POWER),
    ]
    steps = dict.fromkeys(named, 0.1)
    for _ in range(rounds):
        for (group, name), step in steps.items():
            better = False
            for factor in (1 + step, 1 / (1 + step)):
                tried = changed(device, group, name, factor)
                if tried.product >= 1 and (found := loss(tried, rows, best)) < least - 1e-6:
                    device, least, better = tried, found, True
            steps[group, name] = step * 1.3 if better else step / 2
    return device


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
        device = fitted(start, [one for one in rows if one.shape in shapes], best_of(rows))
        for name, record in records.items():
            print(f"fitted to part {number}, {name}: {figures(device, left_out(record, shapes))}")
        print(*(f"        {name}={getattr(device, name):.4g}," for name in OF_DEVICE), sep="\n")
        print(*(f"        {name}={getattr(device.machine, name):.4g}," for name in OF_MACHINE), sep="\n")
        print(*(f"        {name}={getattr(device.machine.sustained, name):.4g}," for name in OF_POWER), sep="\n")


if __name__ == "__main__":
    main()
