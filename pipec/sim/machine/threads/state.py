"""Per-warp state that instructions keep."""

from __future__ import annotations

import functools

import numpy as np

from ...errors import SimulationError
from ...ptx.types import LANES, LaneMask, LaneValues
from ..memory.spaces import FlatMemory
from .divergence import Divergence
from .groups import GroupKind, Groups
from .in_flight import InFlight

# The initial values of all warps; they are replaced, not modified.
_NO_CARRY, _NO_ARRIVALS = np.zeros(LANES, object), np.zeros(LANES, np.int64)


class WarpState(Divergence):
    """Rarely used state is created on demand: a grid of small CTAs has many warps."""

    mask: LaneMask | None = None
    local: FlatMemory | None = None
    stack: LaneValues | None = None  # the end of each thread's stack; None: nothing has been allocated
    carry = _NO_CARRY
    cluster_arrivals = _NO_ARRIVALS
    # A second arrival at the cluster barrier, before a wait for the first one: the phases that are complete then, and what is wrong
    # unless the warp waits for both.
    cluster_ahead: tuple[int, SimulationError] | None = None
    held: frozenset[int] = (
        frozenset()
    )  # the slots of `in_flight`, or registers that may be used before their `loading` is complete
    fenced = False  # whether there was a wgmma.fence

    def __init__(self, live: LaneMask) -> None:
        super().__init__(live)
        self.groups: dict[tuple[GroupKind, int], Groups] = {}  # by kind and lane
        self.in_flight: dict[int, InFlight] = {}  # registers that wgmma is using, by slot

    @functools.cached_property
    def waited_on(self) -> set[int]:
        return set()

    @functools.cached_property
    def seen(self) -> dict[int, int]:
        """By mbarrier, the last phase observed complete."""
        return {}

    @functools.cached_property
    def loading(self) -> dict[int, tuple[int, int]]:
        """Registers that tcgen05.ld loads and no wait has covered, by slot: the PTX line, and the index of the load."""
        return {}

    @functools.cached_property
    def unfenced(self) -> dict[int, int]:
        """Registers touched since the last wgmma.fence that a wgmma may use without another fence: the PTX line."""
        return {}

    @functools.cached_property
    def summed(self) -> set[int]:
        """Registers of accumulators that a wgmma has written, of those that may be unset (`Image.unset_sums`)."""
        return set()

    @functools.cached_property
    def accumulators(self) -> dict[frozenset[int], tuple[str, int]]:
        """Accumulators of wgmma since the last wgmma.fence, by their slots: the shape and the PTX line of the last one."""
        return {}
