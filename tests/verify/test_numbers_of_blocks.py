"""The number of blocks, as the line above a kernel gives it: exact where it is linear, and never more than the bound."""

import json
import random
from typing import Any

import pytest
from verify.interpret import value

from pipec.verify.reader.text.interface import Interface, interface_of

_OPERATORS = ("+", "-", "*", "//", "ceildiv", "min", "max")


def expression(draw: random.Random, depth: int) -> Any:
    if not depth or draw.random() < 0.2:
        return draw.choice(("M", "N", draw.randint(0, 9)))
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
    line = {"kernel": "k", "parameters": sizes, "roles": [], "barriers": [], "grid": grid}
    return interface_of(f"// pipec.kernel {json.dumps(line)}\n", "k")


@pytest.mark.parametrize("seed", range(40))
def test_the_number_of_blocks_is_what_the_line_says(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(10):
        grid = [expression(draw, 3) for _ in "xyz"]
        found = launched(grid)
        for _ in range(10):
            sizes = {name: draw.choice((0, 1, draw.randint(0, 9), draw.randint(0, 100))) for name in "MN"}
            for one, form, most in zip(grid, found.launch, found.grid, strict=True):
                number = blocks(one, sizes)
                assert number <= most or number > 65535
                assert form is None or value(form, {f"d{name}": size for name, size in sizes.items()}) == number, (one, sizes)


@pytest.mark.parametrize(
    ("one", "exact"),
    [
        (["+", "M", "N"], True),
        (["*", "M", 3], True),
        (["*", 3, "M"], True),
        (["ceildiv", ["*", "M", 2], 3], True),
        (["*", "M", "N"], False),
    ],
)
def test_what_is_linear_is_exact(one: Any, exact: bool) -> None:
    assert (launched([one, 1, 1]).launch[0] is not None) is exact
