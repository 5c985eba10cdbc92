"""Registers that an instruction works on after its issue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from ...errors import SimulationError
from ...ptx.types import LaneValues
from .groups import Operation


class Result(Protocol):
    """What an instruction of a warpgroup has computed for the registers of its warps."""

    def of_warp(self, number: int) -> LaneValues:
        """uint32 [registers, lanes]"""
        ...


class InFlight:
    """Stands in a warp's register list for registers that wgmma works on: whoever takes it for lanes of values races.

    They are the vector `slots` of one instruction, whose lanes lie in `rows`, and `role` is what they are to it. `users` are the operations
    that no wait has found complete yet; `result` is what the last of them made of the registers of the warp with this `number` in its
    warpgroup (None: nothing so far), which goes into the rows once they are given back. `moved`: those that a `mov` is to take as they will
    be then; `move`: what fills them in, which is such a `mov`.
    """

    __slots__ = ("line", "move", "moved", "number", "result", "role", "rows", "slots", "users")

    def __init__(
        self, slots: tuple[int, ...], rows: Sequence[LaneValues], role: str, line: int, users: Sequence[Operation] = ()
    ) -> None:
        self.slots, self.rows, self.role, self.line = slots, rows, role, line
        self.users = list(users)
        self.result: Result | None = None
        self.number = 0
        self.moved: frozenset[int] = frozenset()
        self.move: Callable[[Any], object] | None = None

    def values(self) -> LaneValues:
        """uint32 [registers, lanes]"""
        if self.result is not None:
            return self.result.of_warp(self.number)
        return np.stack([row.view(np.uint32) for row in self.rows])

    def store(self) -> None:
        """Puts the values into the rows."""
        if self.result is not None:
            for row, value in zip(self.rows, self.values(), strict=True):
                row[...] = value

    def refuse(self, *_: object, **__: object) -> NoReturn:
        raise SimulationError(
            "race",
            f"a register of {self.role} is touched while the wgmma of PTX line {self.line} is in flight: no wgmma.wait_group yet",
        )

    __array__ = __array_ufunc__ = __getattr__ = __getitem__ = __setitem__ = __invert__ = refuse
