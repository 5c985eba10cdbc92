"""The schedules that `--timing explore` runs: each looks for one kind of problem."""

from __future__ import annotations

from pipec.record import record

from .events import Timing


@record
class Schedule:
    """`timing` as ever, and what differs from it.

    fails     each test of an mbarrier fails once per phase, unless the warp knows that the phase is complete
    held      the asynchronous operations of this instruction complete only once all else is blocked
    late      the CTAs of this rank in their clusters start only once all others are blocked
    reversed  the last cluster of the grid starts first
    together  clusters run beside each other from the start
    without   this instruction, which waits or orders, does nothing
    filling   the bytes that shared and tensor memory hold before anything is written there
    unset     these registers start with this byte everywhere, and not with zeros
    unseen    strong loads find what was there before a store that nothing shows them
    """

    timing: Timing = "order"
    seed: int = 0
    fails: bool = False
    held: int = -1
    late: int = -1
    reversed: bool = False
    together: bool = False
    without: int = -1
    filling: int = 0
    unseen: bool = False
    unset: tuple[frozenset[int], int] = frozenset(), 0


PLAIN = Schedule()


def always(clusters: int, ranks: int, seed: int) -> list[tuple[str, Schedule]]:
    """The schedules, by name, that do not depend on the kernel's behaviour; the plain one first."""
    found = [
        ("in order", PLAIN),
        ("tests of barriers fail once", Schedule(fails=True)),
        ("late", Schedule("late")),
        ("late, and tests of barriers fail once", Schedule("late", fails=True)),
        *((f"random, seed {seed + number}", Schedule("random", seed + number)) for number in range(3)),
    ]
    if ranks > 1:
        found += [(f"CTA {rank} of each cluster starts late", Schedule(late=rank)) for rank in range(ranks)]
    if clusters > 1:
        found += [
            ("the last cluster starts first", Schedule(reversed=True)),
            ("clusters beside each other", Schedule(together=True)),
            ("clusters beside each other, the last one first", Schedule(reversed=True, together=True)),
        ]
    return found
