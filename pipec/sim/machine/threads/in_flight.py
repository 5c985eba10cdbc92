"""Registers that an instruction uses after its issue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from ...errors import SimulationError
from ...ptx.types import LaneValues
from .groups import Operation


class Result(Protocol):
    """The result of a warpgroup instruction for the registers of its warps."""

    def of_warp(self, number: int) -> LaneValues:
        """uint32 [registers, lanes]"""
        ...


class InFlight:
    """Placeholder in a warp's register list for registers that wgmma is using: any use as lane values is a race.

    They form the vector `slots` of one instruction, whose lanes are in `rows`, and `role` is their role there. `users` are the
    operations whose completion no wait has covered yet; `result` is the last one's result for the registers of the warp with this
    `number` in its warpgroup (None: none yet), which is written to the rows once they are returned. `moved`: registers to which a `mov`
    copies them, as they will be then; `move`: the action that fills in such a `mov`'s destination.
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
        """Writes the values into the rows."""
        if self.result is not None:
            for row, value in zip(self.rows, self.values(), strict=True):
                row[...] = value

    def refuse(self, *_: object, **__: object) -> NoReturn:
        raise SimulationError(
            "race",
            f"a register of {self.role} is touched while the wgmma of PTX line {self.line} is in flight: no wgmma.wait_group yet",
        )

    __array__ = __array_ufunc__ = __getattr__ = __getitem__ = __setitem__ = __invert__ = refuse
