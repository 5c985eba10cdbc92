"""The barriers that warps of a CTA wait at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..errors import SimulationError
from ..ptx.types import LaneMask
from ..units.mbarrier import Mbarrier
from .divergence import Fragment

NAMED_BARRIERS = 16


@dataclass(frozen=True, eq=False)
class Vote:
    """What some threads bring to a reducing barrier, and how they hear of its result."""

    predicates: LaneMask
    hear: Callable[[int], None]


@dataclass(eq=False)
class NamedBarrier:
    """bar.sync state: `arrived` threads of the current phase out of `expected` (None: all live threads of the CTA)."""

    number: int
    arrived: int = 0
    expected: int | None = None
    waiting: list[Fragment] = field(default_factory=list)
    votes: list[Vote] = field(default_factory=list)

    def arrive(self, threads: int, expected: int | None) -> None:
        if self.arrived and self.expected != expected:
            raise SimulationError(
                "undefined", f"barrier {self.number} is used with {expected} threads while others use it with {self.expected}"
            )
        self.expected = expected
        self.arrived += threads

    def settle(self, live_threads: int) -> bool:
        """Completes the barrier if everybody is there; true if it did."""
        wanted = live_threads if self.expected is None else self.expected
        if not self.arrived or self.arrived < wanted:
            return False
        if self.arrived > wanted:
            raise SimulationError("undefined", f"barrier {self.number} expects {wanted} threads, {self.arrived} arrived")
        for fragment in self.waiting:
            fragment.wait = None
        self.waiting.clear()
        self.arrived, self.expected = 0, None
        return True


@dataclass(eq=False)
class TrackedBarrier:
    """An mbarrier with the fragments parked on it."""

    state: Mbarrier
    offset: int
    waiting: list[Fragment] = field(default_factory=list)
