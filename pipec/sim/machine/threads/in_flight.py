"""Registers that an instruction works on after its issue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ...errors import SimulationError
from ...ptx.types import LaneValues
from .groups import Operation


class InFlight:
    """Stands in a warp's register list for a register that wgmma works on: whoever takes it for lanes of values races.

    `users` are the operations that no wait has found complete yet; `role` is what the register is to them; `row` is where it lies.
    `moved`: a `mov` is to take it as it will be then; `move`: what fills it in, which is such a `mov`.
    """

    __slots__ = ("line", "move", "moved", "role", "row", "users", "value")

    def __init__(self, row: LaneValues, role: str, line: int) -> None:
        self.row, self.value, self.role, self.line = row, row.copy(), role, line
        self.users: list[Operation] = []
        self.moved = False
        self.move: Callable[[Any], object] | None = None

    def refuse(self, *_: object, **__: object) -> NoReturn:
        raise SimulationError(
            "race",
            f"a register of {self.role} is touched while the wgmma of PTX line {self.line} is in flight: no wgmma.wait_group yet",
        )

    __array__ = __array_ufunc__ = __getattr__ = __getitem__ = __setitem__ = __invert__ = refuse
