"""Random kernels with two stores in a role: one in loops and under conditions, and another behind them, at indices of their own.

Whether two blocks store the same element is counted. Sizes may be negative, so that bounds, divisors and strides are as odd as callers can
make them.
"""

import itertools
import random
from dataclasses import dataclass

from index_kernels import TEMPLATES, Element, Filled, Template, Values, filled

_MOST_TILES = (120, 60)  # of the first store, of the second

FIRST = (
    Template(
        "straight",
        ("{n|m|3|min(n, m)|n * m|ceildiv(C, 64)|m + 1}", "{1|m|2|n|C}"),
        (
            (
                "{if block.x < m|if block.x // n == block.y|if block.x % m == 0|if block.x >= n and block.y < m|"
                "if not (block.x == n or block.y == m)|if block.x * n < m + block.y|if block.x + n < m}"
            ),
        ),
        (
            (
                "({block.x|block.x // m|block.x - n|n - block.x|block.x * m|block.x // b|block.x % b} {+|-} "
                "{block.y|block.y * n|0|block.y * b|block.y * C|block.x * n|min(block.y, m) * n|max(block.x, m)}) * 8"
            ),
            "{block.y|block.x % m|block.x % n|block.x % b|block.y % b|0|block.x // n % m|min(block.x, n)} * {64|-64|32}",
        ),
    ),
    Template(
        "nested",
        ("{n|m|3|min(n, m)|n * m}", "{1|m|2}"),
        (
            "for i in range({block.x|0|b|block.y|n}, {n|m|n * m|min(n, 2)|min(m, C)|b}, {1|2|3})",
            "for j in range({0|i|b|block.x|m}, {n|m|i|b|i + 2|min(i, m)}, {1|2})",
            "{if i < m|if i // m == j|if j == block.x|if i % 2 == block.x|if i >= j|if j < n}",
        ),
        (
            "({i|i // m|i * m|i * b|j|block.x|u} {+|-} {j|j * n|block.x|block.x * m|block.y * n|0|block.x * (b - 1)|u}) * 8",
            "({j|i % m|block.y|block.x|0|i % b} {+|-} {0|block.y * 2|j * n|u % m}) * 64",
        ),
        lets=("u = {i + block.x * n|i * n + j|block.x // n + block.y * m|(i - b) % m|min(i, b) + max(j, m)}",),
    ),
    Template(
        "backwards",
        ("{n|m|3|4}", "{1|m}"),
        (
            "for i in range({n|m|block.x + n|b|n * m}, {0|block.x|b|block.y - 1|m}, {-1|-2|-3})",
            "{if i != block.x|if i > block.y|if i // n != 1|if i % n == block.y}",
        ),
        (
            "{i|block.x|(i - block.x)|(block.x * n + i)|(i // n)|(i // b)|(i * grid.x + block.x)} * 8",
            "{block.y|i % n|i % b|(block.x - i)|block.x|(block.x + block.y * grid.x)} * 64",
        ),
    ),
    Template(
        "pairs",
        ("{2 * n|2 * m|4}", "{m|2|n}"),
        (
            "for i in range({cta.x|0|cluster.x|block.x}, {n|m|2|n + cta.x}, {1|2})",
            "{if cta.x == 0|if cta.x == i % 2|if cluster.x < m|if i < n}",
        ),
        (
            "({cluster.x|block.x|cluster.x * n|i} {+|-} {i * clusters.x|i|i * grid.x|cta.x|cta.x * n}) * 8",
            "({block.y|cta.x|i|i % n} + {0|cta.x * m|block.y * n|cta.x * grid.y}) * 64",
        ),
        cluster=(2, 1),
    ),
)
_SECOND = Template(
    "behind",
    ("1", "1"),
    (
        "{|if block.x < m|if block.x % 2 == 0 and block.y < n|if n > block.x * m|if block.x == 0 and block.y == 0|if block.y == 0}",
    ),
    (
        (
            "({block.x|block.x // m|n - block.x|block.x * m|block.x // b|block.x % b} {+|-} "
            "{block.y|block.y * n|0|block.y * b|block.y * C|block.x * n|min(block.y, m) * n}) * 8"
        ),
        "({block.y|block.x % m|block.x % n|block.x % b|0|min(block.x, n)} * {64|32} + {0|3|11|320|320})",
    ),
)
_STRAIGHT = [one for one in TEMPLATES if one.name in ("plain", "shifted", "counted", "digits", "decoded", "pair", "two_loops")]
SIZES = [
    {"n": n, "m": m, "b": b, "R": 400, "C": columns}
    for n, m, b, columns in itertools.product((-2, -1, 0, 1, 2, 3, 5), (-1, 0, 1, 2, 3, 4), (-3, -1, 0, 1, 2, 3), (1, 2, 700))
]


@dataclass(frozen=True)
class Pair:
    first: Filled
    second: Filled  # of the same grid

    @property
    def text(self) -> str:
        lines = [f"        {one}:\n    " for one in self.second.loops] or [""]
        return (
            self.first.text.replace("m: i32)", "m: i32, b: i32)")
            + f"{lines[0]}        store(y[{', '.join(self.second.corner)}], load(x[0, 0], 8, 64))\n"
        )

    def collision(self, sizes: Values) -> tuple[Element, Element] | None:
        """Two blocks that store the same element, if there are any: both, and their iterations."""
        stored = [*itertools.islice(self.first.tiles(sizes), _MOST_TILES[0])]
        stored += itertools.islice(self.second.tiles(sizes), _MOST_TILES[1])
        for (one, tile), (other, another) in itertools.combinations(stored, 2):
            if one[:-1] != other[:-1] and all(_common(*pair) for pair in zip(tile, another, strict=True)):
                return one, other
        return None


def _common(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


def drawn(draw: random.Random) -> Pair:
    # (Of templates that know what is right every other store is one that can be shown.)
    template, right = draw.choice([(one, 0.1) for one in FIRST] + [(one, 0.95) for one in _STRAIGHT])
    first, second = filled(template, draw, right), filled(_SECOND, draw, 0.1)
    loops = tuple(one for one in second.loops if one)
    return Pair(first, Filled(first.template, first.grid, loops, second.corner, ()))
