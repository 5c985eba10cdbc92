"""Strong loads of what other threads have stored before a signal that no fence stands in front of.

Strong accesses do not race. But relaxed ones are not ordered either (PTX ISA 8.9): a thread that has found the later of two stores may
not find the earlier one. Only a fence between the two stores, or a signal that releases, shows the earlier store to whoever has found
the later one. Whether the kernel minds is another question, which a second run answers (`pipec.sim.unfenced`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ...ptx.types import Bytes
from .clocks import Clock, join
from .ledger import Access, Ledger
from .shadow import Shadow
from .signals import Signal
from .thread import Thread

# Of the stores to a place, so many are remembered.
_REMEMBERED = 8
# A store: by whom, when, and what was there before.
_Stored = tuple[Thread, int, bytes]


class Unseen:
    """`by_fence`: whether the storing thread's fence suffices, as on chips, where a load comes after the branch that the signal decides;
    otherwise the loading thread has to acquire the signal. `hides`: loads return what was there before."""

    def __init__(self, sets: Ledger, by_fence: bool, hides: bool) -> None:
        self.sets, self.by_fence, self.hides = sets, by_fence, hides
        self._stored: dict[tuple[int, int], deque[_Stored]] = {}  # by memory and place
        self._hidden: list[tuple[Bytes, int, bytes]] = []  # what really is there

    def stored(self, thread: Thread, shadow: Shadow, place: int, data: bytes) -> None:
        """`thread` replaces these bytes."""
        if self.hides:
            self._stored.setdefault((id(shadow), place), deque(maxlen=_REMEMBERED)).append((thread, thread.time, data))

    def loaded(self, thread: Thread, shadow: Shadow, place: int, size: int, data: Bytes) -> Iterator[Access]:
        """The stores of which `thread` may find nothing yet; replaces what is there if that is to be hidden."""
        signal, known = shadow.signals.get(place), thread.knowledge
        if signal is None or known.values is known.order:
            return
        visible = join(known.values, known.heard) if self.by_fence else known.values
        writers, _ = shadow.of(size)
        found = [
            old
            for number in {int(one) for one in writers[place // size].reshape(-1)}
            for old in self.sets.members(number)
            if old.writes and old.scope is not None and _unseen(thread, signal, visible, old.thread, old.time)
        ]
        yield from found
        if found and self.hides:
            self._hide(thread, signal, visible, shadow, place, size, data)

    def _hide(self, thread: Thread, signal: Signal, visible: Clock, shadow: Shadow, place: int, size: int, data: Bytes) -> None:
        before = None
        for by, time, old in reversed(self._stored.get((id(shadow), place), ())):
            if len(old) != size or not _unseen(thread, signal, visible, by, time):
                break
            before = old
        if before is not None:
            self._hidden.append((data, place, data[place : place + size].tobytes()))
            data[place : place + size] = memoryview(before)

    def show(self) -> None:
        """The load is over."""
        while self._hidden:
            data, place, there = self._hidden.pop()
            data[place : place + len(there)] = memoryview(there)


def _unseen(thread: Thread, signal: Signal, visible: Clock, by: Thread, time: int) -> bool:
    """Whether a signal shows that the store came before, and neither a fence nor an earlier load of the place shows its value."""
    reached = thread.actors.reached
    if by is thread or not reached(thread.knowledge.order, by.number, time) or reached(visible, by.number, time):
        return False
    return not signal.seen(thread, by.number, time)
