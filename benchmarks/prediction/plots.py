"""Draws the plots of docs/time.md from benchmarks/results/predict.json.

    python benchmarks/prediction/plots.py

Writes docs/plots/*.svg: plain SVG, the same bytes for the same figures, so that a diff shows when they change.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLOTS = ROOT / "docs" / "plots"
WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 34, 44
COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#b8860b", "#8a8a8a")


@dataclass(frozen=True, slots=True)
class Series:
    """Points of one kind; `x` in microseconds, `y` the ratio of predicted to measured time."""

    name: str
    points: tuple[tuple[float, float], ...]


def series(points: Sequence[str], names: dict[str, str]) -> list[Series]:
    """`names`: kind of point -> what the legend says, in its order."""
    split = [point.split() for point in points]
    return [Series(said, tuple((float(x), float(y)) for x, y, kind in split if kind == name)) for name, said in names.items()]


def scatter(title: str, found: Sequence[Series], low: float, high: float) -> str:
    """Ratios over times on a logarithmic axis; points beyond `low` and `high` lie on the rim."""
    times = [x for one in found for x, _ in one.points]
    first, last = log10(min(times)), log10(max(times))

    def across(microseconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (log10(microseconds) - first) / (last - first)

    def down(ratio: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - min(high, max(low, ratio))) / (high - low)

    lines = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
            ' font-family="sans-serif" font-size="12">'
        ),
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    lines += _axes(across, down, min(times), max(times), low, high)
    left = LEFT + 8
    for place, one in enumerate(found):
        colour = COLOURS[place % len(COLOURS)]
        lines += [
            f'<circle cx="{across(x):.1f}" cy="{down(y):.1f}" r="2.2" fill="{colour}" fill-opacity="0.6"/>' for x, y in one.points
        ]
        entry = f"{one.name} ({len(one.points)})"
        lines.append(f'<circle cx="{left}" cy="18" r="4" fill="{colour}"/>')
        lines.append(f'<text x="{left + 9}" y="22" fill="#222222">{entry}</text>')
        # Few characters of a sans-serif font of 12 pixels are wider than 7.
        left += 30 + 7 * len(entry)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _axes(
    across: Callable[[float], float], down: Callable[[float], float], least: float, most: float, low: float, high: float
) -> list[str]:
    lines = []
    step = 0.1 if high - low > 0.25 else 0.05
    for number in range(round(low / step), round(high / step) + 1):
        ratio = number * step
        colour = "#444444" if abs(ratio - 1) < step / 10 else "#dddddd"
        lines.append(f'<path d="M{LEFT} {down(ratio):.1f}H{WIDTH - RIGHT}" stroke="{colour}"/>')
        lines.append(f'<text x="{LEFT - 6}" y="{down(ratio) + 4:.1f}" text-anchor="end" fill="#222222">{ratio:.2f}</text>')
    ticks = [digit * 10**power for power in range(8) for digit in (1, 2, 5) if least <= digit * 10**power <= most]
    for tick in ticks:
        lines.append(f'<path d="M{across(tick):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#eeeeee"/>')
        lines.append(
            f'<text x="{across(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle" fill="#222222">{tick:,}</text>'
        )
    lines.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 8}" text-anchor="end" fill="#222222">measured, microseconds</text>')
    lines.append(f'<text x="{LEFT}" y="{HEIGHT - 8}" fill="#222222">predicted over measured time</text>')
    return lines


def plots(figures: dict[str, Any]) -> dict[str, str]:
    """File name -> SVG."""
    bounds = {"products": "bound by products", "copies": "by copies", "issue": "by issue", "stages": "by stages"}
    b200 = series(figures["one_multiprocessor_b200"]["points"], bounds)
    tiles = {"good": "within 1.3 of the best tile", "other": "other tiles"}
    h200 = series(figures["gemm_h200_tiles"]["points"], tiles)
    return {
        "b200_main_loops.svg": scatter("Main loops on one multiprocessor of a B200", b200, 0.8, 1.2),
        "h200_tiles.svg": scatter("GEMM tiles on an H200, at shapes that nothing was fitted to", h200, 0.5, 1.5),
    }


def main() -> None:
    figures = json.loads((ROOT / "benchmarks" / "results" / "predict.json").read_text(encoding="utf-8"))["figures"]
    PLOTS.mkdir(exist_ok=True)
    for name, text in plots(figures).items():
        (PLOTS / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
