"""The number of blocks, as the line above a kernel gives it: exact where it is linear, and never more than the bound.

Parameters may be negative, also those that only the number of blocks is made of: `grid(n * -1)` was read as a grid of one block.
"""

import json
import random
from typing import Any

import pytest
from verify.interpret import value

from pipec.verify.reader.text.interface import Interface, interface_of

_OPERATORS = ("+", "-", "*", "//", "ceildiv", "min", "max")
# By name, the ends: sizes, parameters (`u` has no sign), and what the kernel itself does not read, a size `S` and a parameter `q`.
_SIGNED, _SIZE = (-(1 << 31), (1 << 31) - 1), (0, (1 << 31) - 1)
_NUMBERS = {
    "M": _SIZE,
    "N": _SIZE,
    "S": _SIZE,
    "n": _SIGNED,
    "q": _SIGNED,
    "u": (0, (1 << 32) - 1),
    "gpu.multiprocessors": (1, 999),
}


def expression(draw: random.Random, depth: int) -> Any:
    if not depth or draw.random() < 0.2:
        return draw.choice(("M", "N", *_NUMBERS, draw.randint(0, 9), draw.randint(-9, 9)))
    sign = draw.choice(_OPERATORS)
    return [sign, expression(draw, depth - 1), draw.randint(1, 9) if sign in ("//", "ceildiv") else expression(draw, depth - 1)]


def blocks(one: Any, sizes: dict[str, int]) -> int:
    if not isinstance(one, list):
        return sizes.get(one, one)
    sign, *sides = one
    left, right = (blocks(side, sizes) for side in sides)
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "//":
            return left // right
        case "ceildiv":
            return -(-left // right)
        case _:
            return min(left, right) if sign == "min" else max(left, right)


def launched(grid: list[Any]) -> Interface:
    sizes = [{"kind": "dimension", "symbol": f"d{name}", "dimension": name} for name in "MN"]
    read = [
        {"kind": "scalar", "symbol": f"d{name}", "scalar": name, "dtype": kind} for name, kind in (("n", "i32"), ("u", "u32"))
    ]
    given = [{"kind": "tensor", "name": "y", "shape": ["M", "S", 4]}, {"kind": "scalar", "name": "q", "dtype": "i32"}]
    given += [{"kind": "scalar", "name": row["scalar"], "dtype": row["dtype"]} for row in read]
    line = {"kernel": "k", "arguments": given, "parameters": [*sizes, *read], "roles": [], "barriers": [], "grid": grid}
    return interface_of(f"// pipec.kernel {json.dumps(line)}\n", "k", {"dM": "u32", "dN": "u32", "dn": "u32", "du": "u32"})


def _number(draw: random.Random, low: int, high: int) -> int:
    return draw.choice((low, max(low, -1), 1, high, draw.randint(low, high), draw.randint(max(low, -9), min(high, 100))))


@pytest.mark.parametrize("seed", range(40))
def test_the_number_of_blocks_is_what_the_line_says(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(10):
        grid = [expression(draw, 3) for _ in "xyz"]
        found = launched(grid)
        for _ in range(10):
            sizes = {name: _number(draw, *ends) for name, ends in _NUMBERS.items()}
            for one, form, most in zip(grid, found.launch, found.grid, strict=True):
                number = blocks(one, sizes)
                assert number <= most or number > 65535, (one, sizes)
                assert form is None or value(form, {f"d{name}": size for name, size in sizes.items()}) == number, (one, sizes)


@pytest.mark.parametrize(
    ("one", "exact"),
    [
        (["+", "M", "N"], True),
        (["*", "M", 3], True),
        (["*", 3, "M"], True),
        (["ceildiv", ["*", "M", 2], 3], True),
        (["*", "M", "N"], False),
        (["*", "n", -1], True),
        (["*", "q", -1], False),
    ],
)
def test_what_is_linear_is_exact(one: Any, exact: bool) -> None:
    assert (launched([one, 1, 1]).launch[0] is not None) is exact
