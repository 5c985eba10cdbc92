"""The exit of a CTA: its shared memory is reassigned, even if others of its cluster still access it.

Only accesses that are ordered before the exit are safe. Whether they came first in this run depends on timing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import SimulationError
from ...findings import CheckName
from ..image import Image
from ..machine import Machine
from ..races.clocks import Clock
from ..races.ledger import Access
from ..races.thread import Thread
from .barriers import TrackedBarrier
from .roles import who


def unseen_arrivals(barriers: Iterable[TrackedBarrier], clocks: Sequence[Clock]) -> list[Access]:
    """Arrivals from other CTAs that none of the clocks covers."""
    arrivals = [arrival for barrier in barriers for arrival in barrier.remote.values()]
    return [arrival for arrival in arrivals if not any(arrival.over(clock) for clock in clocks)]


def is_shown(access: Access, clocks: Iterable[Clock]) -> bool:
    """Whether it is a commit behind nothing but what another one has shown to a CTA with these clocks: the two arrive together then."""
    if access.what != "tcgen05.commit" or access.behind is None:
        return False
    pipe = access.thread.agent("pipe")
    count = access.behind.order.get(pipe, 0)
    return any(access.thread.actors.reached(clock, pipe, count) for clock in clocks)


def complain_of_a_late_arrival(machine: Machine, image: Image, arrival: Access, ending: Thread, pc: int, offset: int) -> None:
    """`arrival`, from another CTA, is not ordered before an mbarrier there is invalidated, at `pc` of `ending`."""
    key = "late", arrival.pc, pc
    if machine.findings.again("exit", key):
        return
    item, end = image.item(arrival.pc), image.item(pc)
    at = f" (PTX line {end.line})" if end else ""
    message = (
        f"{item.opcode if item else 'an arrival'} of {who(image, arrival.thread, arrival.pc)} in {arrival.thread.cta} arrives at the "
        f"mbarrier at shared 0x{offset:x} of {ending.cta}, and nothing orders it before that is invalidated{at}"
    )
    details: dict[str, object] = {"who": who(image, arrival.thread, arrival.pc), "warp": arrival.thread.index, "address": offset}
    other = {"what": "mbarrier.inval", "cta": ending.cta, "ptx_line": end.line if end else 0, "source": image.source(end)}
    error = SimulationError("undefined", message, details=details | {"other": other})
    machine.findings.add("exit", key, error.located(item.line if item else 0, image.source(item), error.details))


def complain_of_what_is_left(machine: Machine, image: Image, cta: str, left: Iterable[Access], check: CheckName = "peer") -> None:
    """`left`: accesses of other CTAs to the memory of `cta`, which exits, whose completion none of its warps has observed."""
    for old in left:
        key = "exit", old.pc
        if machine.findings.again(check, key):
            continue
        item = image.item(old.pc)
        what = old.what or (item.opcode if item else "an access")
        ending = image.item(machine.thread.pc()) if machine.thread is not None else None
        at = f" (PTX line {ending.line})" if ending else ""
        message = (
            f"{what} of {old.thread.cta} works on {cta}, and nothing orders it before the exit of that{at}, "
            "with which its shared memory is gone"
        )
        details: dict[str, object] = {"who": who(image, old.thread, old.pc), "warp": old.thread.index}
        details["other"] = {"what": "exit", "cta": cta, "ptx_line": ending.line if ending else 0, "source": image.source(ending)}
        error = SimulationError("undefined", message, details=details)
        machine.findings.add(check, key, error.located(item.line if item else 0, image.source(item), details))
