"""Pending asynchronous operations. The timing mode decides when they are due, not whether they are legal."""

from __future__ import annotations

import functools
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from typing import Literal, NamedTuple

Timing = Literal["order", "late", "random"]
# What a launch can request: one of these, or many schedules one after another.
Choice = Literal["order", "late", "random", "explore"]
Action = Callable[[], None]

# Due after everything that has a definite time.
FAR = 1 << 60


class Event(NamedTuple):
    """Ordered by due time, then by the order of issue, which is unique."""

    due: int
    issued: int
    action: Action


class Events:
    """A channel keeps its operations in issue order (one tensor pipe per CTA pair).

    Late timing delays everything until no warp can run, then completes the most recently issued operation whose channel allows it,
    stores last: this exposes a missing wait for an earlier one.
    """

    def __init__(self, timing: Timing, seed: int) -> None:
        self.timing, self.seed = timing, seed
        self.heap: list[Event] = []
        self.channels: dict[Hashable, int] = {}
        self.queues: dict[Hashable, deque[Event]] = {}
        self.issued = 0
        self.pending = 0  # operations in flight, without timers

    @functools.cached_property
    def random(self) -> random.Random:
        # Seeding takes as long as starting a warp.
        return random.Random(self.seed)

    def schedule(
        self,
        now: int,
        latency: int,
        action: Action,
        channel: Hashable = None,
        busy: int = 1,
        storing: bool = False,
        held: bool = False,
    ) -> None:
        """`action` runs about `latency` later and, in a channel, at least `busy` after the previous one; a `held` one runs when nothing
        else can, and those that follow it in its channel run after it."""
        self.issued += 1
        self.pending += 1
        action = functools.partial(self._finish, action)
        if self.timing == "late":
            self._postpone(action, channel, FAR if storing else 0)
            return
        if self.timing == "random":
            latency = self.random.randrange(1, 8 * latency + 64)
        due = now + latency if not held else FAR
        if channel is not None:
            due = self.channels[channel] = max(due, self.channels.get(channel, 0) + busy)
        heapq.heappush(self.heap, Event(due, self.issued, action))

    def _finish(self, action: Action) -> None:
        self.pending -= 1
        action()

    def _postpone(self, action: Action, channel: Hashable, further: int) -> None:
        due = FAR + further - self.issued
        if channel is None:
            heapq.heappush(self.heap, Event(due, self.issued, action))
            return
        queue = self.queues.setdefault(channel, deque())
        queue.append(Event(due, self.issued, lambda: self._finish_head(queue, action)))
        if len(queue) == 1:
            heapq.heappush(self.heap, queue[0])

    def _finish_head(self, queue: deque[Event], action: Action) -> None:
        queue.popleft()
        if queue:
            heapq.heappush(self.heap, queue[0])
        action()

    def schedule_soon(self, now: int, latency: int, action: Action) -> None:
        """A timer, due at its time in every timing mode."""
        self.issued += 1
        heapq.heappush(self.heap, Event(now + latency, self.issued, action))

    def next_due(self) -> int | None:
        return self.heap[0].due if self.heap else None

    def fire(self, now: int) -> None:
        while self.heap and self.heap[0].due <= now:
            self.fire_one()

    def fire_one(self) -> None:
        heapq.heappop(self.heap).action()
