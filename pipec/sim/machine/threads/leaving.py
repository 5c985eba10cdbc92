"""What a CTA leaves behind when it exits: its shared memory is given away, whatever others of its cluster still do there.

Only what something orders before the exit is safe. Whether it came first in this run is chance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...errors import SimulationError
from ..races.afterwards import not_past
from ..races.ledger import Access
from .roles import who

if TYPE_CHECKING:
    from .cta import Cta


def check_left(cta: Cta) -> None:
    """Complains of what other CTAs did in the memory of `cta`, which exits, and what none of its warps has seen the end of."""
    machine, image = cta.machine, cta.image
    for old in _not_past(cta):
        key = "exit", old.pc
        if machine.findings.again("peer", key):
            continue
        item = image.item(old.pc)
        what = old.what or (item.opcode if item else "an access")
        ending = image.item(machine.thread.pc()) if machine.thread is not None else None
        at = f" (PTX line {ending.line})" if ending else ""
        message = (
            f"{what} of {old.thread.cta} works on {cta.name}, and nothing orders it before the exit of that{at}, "
            "with which its shared memory is gone"
        )
        details: dict[str, object] = {"who": who(image, old.thread, old.pc), "warp": old.thread.index}
        details["other"] = {
            "what": "exit",
            "cta": cta.name,
            "ptx_line": ending.line if ending else 0,
            "source": image.source(ending),
        }
        error = SimulationError("undefined", message, details=details)
        machine.findings.add("peer", key, error.located(item.line if item else 0, image.source(item), details))


def _not_past(cta: Cta) -> Iterator[Access]:
    clocks = [warp.thread.knowledge.order for warp in cta.warps]
    for barrier in cta.mbarriers.values():
        for arrival in barrier.remote.values():
            if not any(arrival.over(clock) for clock in clocks):
                yield arrival
    yield from not_past(cta.machine.races, cta.shared.shadow, cta.name, clocks)
