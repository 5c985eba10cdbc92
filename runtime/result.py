"""The result of a launch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipec.sim import Result


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What ran: `device` "sim" or "cuda:N"; `launched` False if the grid was empty; `simulation` the simulator's result."""

    kernel: str
    device: str
    grid: tuple[int, int, int]
    dimensions: Mapping[str, int]
    launched: bool
    simulation: "Result | None" = None
