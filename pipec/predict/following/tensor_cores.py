"""The tensor cores of a multiprocessor as warpgroups share them (wgmma): those with products to compute take turns, instruction by
instruction, so that each is slowed down by the others. Warpgroups that begin together therefore end together, and then all compute in
registers; served one after the other, the products of one would hide the work of another.

How long a product takes depends on what others ask for until it ends: whoever waits for one asks again at the time when it should end.
"""

from collections import deque
from math import inf

from pipec.predict.following.events import Event, Reason

_NOTHING = 1e-6  # cycles


class Product:
    """`since`: when it can begin; `left`: cycles of the tensor cores that it still needs; `end`: known once it has ended."""

    __slots__ = ("end", "left", "reason", "since")

    def __init__(self, since: Event, cycles: float, reason: Reason) -> None:
        self.since, self.left, self.reason = since, cycles, reason
        self.end: Event | None = None


class TensorCores:
    def __init__(self) -> None:
        self._time = 0.0
        self._queues: dict[object, deque[Product]] = {}  # of each warpgroup, in the order in which it has asked

    def multiply(self, owner: object, product: Product) -> None:
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
        before, left = self._time, [one.left for queue in queues for one in queue]
        ended = self._until(inf, [deque(queue) for queue in queues], product)
        for one, cycles in zip([one for queue in queues for one in queue], left, strict=True):
            one.left = cycles
        self._time = before
        return ended

    def until(self, end: float) -> None:
        """Computes up to this time: nobody asks for anything earlier any more."""
        self._until(end, [queue for queue in self._queues.values() if queue], None)
        self._time = max(self._time, end)

    def _until(self, end: float, queues: list[deque[Product]], tried: Product | None) -> float:
        """The time at which it stops: `end`, or earlier when the product ends that is `tried`; then nothing is noted as ended."""
        while queues and self._time < end:
            time = self._time
            active = [queue for queue in queues if queue[0].since.time <= time + _NOTHING]
            coming = [queue[0].since.time for queue in queues if queue[0].since.time > time + _NOTHING]
            stop = min(end, *coming) if coming else end
            if active:
                stop = min(stop, time + len(active) * min([queue[0].left for queue in active]))
                done = (stop - time) / len(active)
            self._time = stop
            for queue in active:
                one = queue[0]
                one.left -= done
                if one.left <= _NOTHING:
                    queue.popleft()
                    if one is tried:
                        return stop
                    if tried is None:
                        one.end = one.since.later(one.reason, max(0.0, stop - one.since.time))
            queues = [queue for queue in queues if queue]
        return self._time
