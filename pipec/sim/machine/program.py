"""A kernel made ready to run: its image, and its instructions as closures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ptx.tree import Instruction
from .image import Image
from .threads.cta import Warp
from .threads.divergence import Outcome

Execute = Callable[[Warp], Outcome]


@dataclass(slots=True)
class Step:
    """One executable instruction. `guard` is a register slot or -1; branches evaluate their guard themselves. The step
    behind the last instruction ends the kernel and has no `item`."""

    execute: Execute
    guard: int
    negated: bool
    item: Instruction | None


@dataclass(frozen=True, slots=True)
class Program:
    """`meeting` has for each step where lanes that part there meet again (`ptx.flow`)."""

    image: Image
    code: list[Step]
    meeting: list[int]
