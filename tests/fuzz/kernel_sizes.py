"""What random kernels of every family share: a program, and sizes of which most fit."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

BITS = {"bf16": 16, "f16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "i8": 8, "u8": 8}
ACCUMULATORS = {"f16": ("f32", "f16"), "e4m3": ("f32", "f16"), "e5m2": ("f32", "f16"), "i8": ("i32",), "u8": ("i32",)}
STORED = {"tf32": "f32"}


@dataclass(frozen=True)
class Program:
    text: str
    arch: str
    constants: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join([self.arch, *(f"-D {name}={value}" for name, value in self.constants.items()), self.text])


def draw_columns(draw: random.Random, a: str, most: int) -> int:
    step = 16 if a in ("i8", "u8") else 8
    even = draw.random() < 0.5
    return (
        draw.choice([n for n in (16, 32, 64, 96, 128, 192, 256) if n <= most]) if even else step * draw.randint(1, most // step)
    )


def draw_depth(draw: random.Random, a: str) -> int:
    return draw.choice((1, 1, 2, 2, 4)) * 32 * 8 // BITS[a]


def draw_budgets(draw: random.Random, warps: int) -> tuple[int, int]:
    """Budgets of a group of loading warps and of the others: what the first gives back the others take, in multiples of 8."""
    groups, load = warps // 4 + 1, draw.choice((24, 40))
    start = min(248, 65536 // (128 * groups) // 8 * 8)
    return load, min(240, (start * groups - load) // (groups - 1) // 8 * 8)
