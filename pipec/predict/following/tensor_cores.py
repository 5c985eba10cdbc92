"""The tensor cores of a multiprocessor as warpgroups share them (wgmma): those with products to compute take turns, instruction by
instruction, so that each is slowed down by the others. Warpgroups that begin together therefore end together, and then all compute in
registers; served one after the other, the products of one would hide the work of another.

How long a product takes depends on what others ask for until it ends: whoever waits for one asks again at the time when it should end.
"""

from collections import deque
from math import inf
from typing import NamedTuple

from pipec.predict.following.events import Event, Reason

_NOTHING = 1e-6  # cycles


class Product:
    """`since`: when it can begin; `left`: cycles of the tensor cores that it still needs; `end`: known once it has ended."""

    __slots__ = ("end", "left", "reason", "since")

    def __init__(self, since: Event, cycles: float, reason: Reason) -> None:
        self.since, self.left, self.reason = since, cycles, reason
        self.end: Event | None = None


class _Trial(NamedTuple):
    """What would be at the time `end` if nobody asked for more from `time` on: what is `left` of products, and when some have `ended`."""

    time: float
    end: float
    left: list[tuple[Product, float]]
    ended: list[tuple[Product, float]]


class TensorCores:
    def __init__(self) -> None:
        self._time = 0.0
        self._queues: dict[object, deque[Product]] = {}  # of each warpgroup, in the order in which it has asked
        self._trial: _Trial | None = None

    def multiply(self, owner: object, product: Product) -> None:
        self._trial = None
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = deque()
        queue.append(product)

    def ends(self, product: Product) -> float:
        """When it ends if nobody asks for more until then."""
        if product.end is not None:
            return product.end.time
        queues = [queue for queue in self._queues.values() if queue]
        if len(queues) == 1:
            time = self._time
            for one in queues[0]:
                time = max(time, one.since.time) + one.left
                if one is product:
                    break
            return time
        before, left = self._time, [(one, one.left) for queue in queues for one in queue]
        ended = self._until(inf, [deque(queue) for queue in queues], product)
        self._trial = _Trial(before, self._time, [(one, one.left) for one, _ in left], ended)
        for one, cycles in left:
            one.left = cycles
        self._time = before
        return self._trial.end

    def until(self, end: float) -> None:
        """Computes up to this time: nobody asks for anything earlier any more."""
        trial, self._trial = self._trial, None
        if trial is not None and (trial.time, trial.end) == (self._time, end):  # it has been computed
            for one, cycles in trial.left:
                one.left = cycles
            ended = trial.ended
        else:
            ended = self._until(end, [queue for queue in self._queues.values() if queue], None)
        self._time = max(self._time, end)
        for one, stop in ended:
            one.end = one.since.later(one.reason, max(0.0, stop - one.since.time))
        for queue in self._queues.values():
            while queue and queue[0].end is not None:
                queue.popleft()

    def _until(self, end: float, queues: list[deque[Product]], tried: Product | None) -> list[tuple[Product, float]]:
        """Computes up to the time `end`, or until the product has ended that is `tried`: the products that have, and when."""
        ended: list[tuple[Product, float]] = []
        over = False
        while queues and self._time < end and not over:
            time, stop, least = self._time, end, inf
            active: list[deque[Product]] = []
            for queue in queues:
                one = queue[0]
                since = one.since.time
                if since <= time + _NOTHING:
                    active.append(queue)
                    least = min(least, one.left)
                elif since < stop:
                    stop = since
            if active:
                stop = min(stop, time + len(active) * least)
                done = (stop - time) / len(active)
            self._time = stop
            for queue in active:
                one = queue[0]
                one.left -= done
                if one.left <= _NOTHING:
                    ended.append((queue.popleft(), stop))
                    over = over or one is tried
            queues = [queue for queue in queues if queue]
        return ended
