"""What instructions remember of a warp from one to the next."""

from __future__ import annotations

import functools

import numpy as np

from ...ptx.types import LANES, LaneMask, LaneValues
from ..memory.spaces import FlatMemory
from .divergence import Divergence
from .groups import GroupKind, Groups
from .in_flight import InFlight

# What all warps start with; whoever changes one takes another in its place.
_NO_CARRY, _NO_ARRIVALS = np.zeros(LANES, object), np.zeros(LANES, np.int64)


class WarpState(Divergence):
    """What most warps never have is made once somebody asks: a grid of small CTAs has many of them."""

    mask: LaneMask | None = None
    local: FlatMemory | None = None
    stack: LaneValues | None = None  # where that of each thread ends; None: nothing has been allocated
    carry = _NO_CARRY
    cluster_arrivals = _NO_ARRIVALS
    held: frozenset[int] = frozenset()  # the slots of `in_flight`, or what may be used before its `loading` is over
    fenced = False  # whether there was a wgmma.fence

    def __init__(self, live: LaneMask) -> None:
        super().__init__(live)
        self.groups: dict[tuple[GroupKind, int], Groups] = {}  # by kind and lane
        self.in_flight: dict[int, InFlight] = {}  # registers that wgmma works on, by slot

    @functools.cached_property
    def waited_on(self) -> set[int]:
        return set()

    @functools.cached_property
    def seen(self) -> dict[int, int]:
        """By mbarrier the phase last seen complete."""
        return {}

    @functools.cached_property
    def loading(self) -> dict[int, tuple[int, int]]:
        """Registers that tcgen05.ld loads and no wait has covered, by slot: the PTX line, and the number of the load."""
        return {}

    @functools.cached_property
    def unfenced(self) -> dict[int, int]:
        """Registers touched since the last wgmma.fence, where a wgmma may come to them without another: the PTX line."""
        return {}

    @functools.cached_property
    def accumulators(self) -> dict[frozenset[int], tuple[str, int]]:
        """Accumulators of wgmma since the last wgmma.fence, by their slots: the shape and the PTX line of the last one."""
        return {}
