"""The text of a race: the accesses, their place, the lines of the PTX and of the source, and what is missing between them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pipec.record import record

from ...errors import SimulationError, SourceLocation
from ...findings import CheckName
from ...units.layouts import Reading, Tile
from ..image import Image
from ..machine import Machine
from ..threads.roles import role_of, who
from .detector import Race
from .layouts import Misreading
from .ledger import Access
from .missing import DEALLOCATION, Missing
from .shadow import Shadow

# The name of each gap in a report, and of its check.
_GAPS: dict[Missing, tuple[CheckName, str]] = {
    "wait": ("race", "nothing orders them"),
    "values": ("race", "the signal between them publishes nothing that threads wrote: it is relaxed, or its scope too narrow"),
    "values to a copy": (
        "scope",
        "the signal between them is relaxed, or its scope too narrow, for what it passes on",
    ),
    "read": ("race", "the cluster barrier between them is relaxed, and orders nothing"),
    "read here": ("race", "the cluster barrier between them is relaxed, and orders nothing"),
    "scopes": ("race", "the scope of one of them does not reach the other"),
    "init": ("scope", "no fence.mbarrier_init stands before the relaxed signal that orders them"),
    "proxy": ("proxy", "no fence.proxy.async stands between them"),
    "proxy of another CTA": ("scope", "no fence.proxy.async stands between them"),
    "overwrite": ("proxy", "no fence.proxy.async stands between them"),
    "tensormap": ("proxy", "its user has executed no fence.proxy.tensormap::generic.acquire since"),
    "lanes": ("lanes", "they are other lanes of the same warp, and no bar.warp.sync stands between"),
    "lanes of a signal": (
        "lanes",
        "the signal between them is of other lanes of that warp, and no bar.warp.sync stands before it",
    ),
    "lanes of a wait": (
        "lanes",
        "other lanes of that warp have waited for their parts of the copy, and those of this part have not",
    ),
    "tcgen05.wait::ld": ("race", "no tcgen05.wait::ld stands between them"),
    "tcgen05.wait::ld of what was used": (
        "fence",
        "no tcgen05.wait::ld stands between them, although the registers were used before",
    ),
    "tcgen05.wait::st": ("race", "no tcgen05.wait::st stands between them"),
    "tcgen05.commit": ("race", "no wait for a tcgen05.commit stands between them"),
    "given back": ("exit", "no wait for a tcgen05.commit stands between them"),
    "before": ("fence", "no tcgen05.fence::before_thread_sync stands before what orders them"),
    "stale": ("stale", "the cache of ld.global.nc is for what no thread writes while the kernel runs"),
    "fence": ("race", "no fence stands before the signal between them, and without that value the results are others"),
    "after": ("fence", "no tcgen05.fence::after_thread_sync stands behind what orders them"),
}


@record(caches=True)
class Reporter:
    machine: Machine
    image: Image

    def complain(self, race: Race) -> None:
        check, gap = _GAPS[race.missing]
        findings, key = self.machine.findings, (race.old.pc, race.new.pc, race.old.what, race.new.what, race.missing)
        if not findings.wanted(check) or findings.again(check, key) or self._by_other_ctas_too(race):
            return
        if race.missing in ("before", "after") and self._fenceless and self.machine.practised("no tcgen05.fence at all"):
            return
        # A kernel that omits fences omits many of them: one warning lists the lines of the rest.
        together = check in ("fence", "scope") and findings.severities[check] == "warn"
        if together and findings.with_first(check, key, race.missing, lambda: self._lines(race)):
            return
        old, new = self._side(race.old), self._side(race.new)
        where = "" if race.old.thread.cta == race.new.thread.cta else f" in {race.old.thread.cta}"
        verb = "gave back" if race.old.what == DEALLOCATION else "wrote" if race.old.writes else "read"
        state = "is still writing" if race.old.writes else "is still reading"
        unfinished = race.missing == "wait" and race.old.ends == ()
        other = f"{old['who_did']}{where} ({old['at']}) {state if unfinished else verb} it"
        now = "gives back" if race.new.what == DEALLOCATION else "writes" if race.new.writes else "reads"
        message = f"{new['who_did']} {now} {race.shadow.place(race.address)}, and {other}: {gap}"
        details = self._details(race, old, new)
        findings.add(check, key, SimulationError("race", message, new["ptx_line"], new["source"], details))

    def _by_other_ctas_too(self, race: Race) -> bool:
        """Whether this missing proxy fence belongs to the finding that the same two instructions lack it between CTAs: a last CTA that
        adds up what all have stored reads its own part in the same way."""
        pair = race.old.pc, race.new.pc, race.old.what, race.new.what
        near, far = (*pair, "proxy"), (*pair, "proxy of another CTA")
        if race.missing == far[-1]:
            self.machine.findings.found.pop(("proxy", near), None)
        return race.missing == near[-1] and race.shadow.kind == "global" and self.machine.findings.again("scope", far)

    @cached_property
    def _fenceless(self) -> bool:
        return not any(item.opcode.startswith("tcgen05.fence") for item in self.image.function.instructions)

    def _lines(self, race: Race) -> tuple[int, int]:
        """PTX lines of both sides."""
        items = [self.image.item(access.pc) for access in (race.old, race.new)]
        return items[0].line if items[0] else 0, items[1].line if items[1] else 0

    def early(self, access: Access, shadow: Shadow, low: int, high: int) -> None:
        """An access to global memory, from byte `low` of its allocation to `high`, while the preceding grid may still run."""
        preceding, findings, key = self.machine.preceding, self.machine.findings, (access.pc, access.what, access.writes)
        met = preceding.met(shadow.origin + low, shadow.origin + high, access.writes)
        if (met is None and preceding.touched is not None) or findings.again("grid", key):
            return
        side = self._side(access)
        # A kernel that does not wait does not do so for any of its accesses.
        if findings.with_first("grid", key, preceding.why, lambda: (side["ptx_line"],)):
            return
        wrote = "wrote" if met is not None and met.meets(shadow.origin + low, shadow.origin + high, False) else "read"
        which = f", which the preceding kernel `{met.kernel}` {wrote}" if met is not None else ""
        verb = "writes" if access.writes else "reads"
        message = f"{side['who_did']} {verb} {shadow.place(low)}{which}, and {preceding.why}"
        details = {name: side[name] for name in ("who", "warp", "role")} | {"missing": preceding.why}
        findings.add("grid", key, SimulationError("race", message, side["ptx_line"], side["source"], details))

    def misread(self, found: Misreading) -> None:
        what: object = type(found.reading)
        if isinstance(found.reading, Reading):
            what = found.reading.operand, found.reading.descriptor.layout
        elif isinstance(found.reading, Tile):
            what = found.reading.swizzle
        findings, key = self.machine.findings, (found.writer.pc, found.reader.pc, what)
        if findings.again(found.check, key):
            return
        new, old = self._side(found.reader), self._side(found.writer)
        why = found.why
        if found.other is not None:
            third = self._side(found.other)
            why = why.format(f"{third['who_did']} ({third['at']})")
        message = f"{new['who_did']} {found.does} {found.reading}, and {old['who_did']} ({old['at']}) {found.written}: {why}"
        details = {key: new[key] for key in ("who", "warp", "role")}
        details["other"] = {key: old[key] for key in ("what", "who", "warp", "role", "cta", "ptx_line", "source")}
        findings.add(found.check, key, SimulationError("layout", message, new["ptx_line"], new["source"], details))

    def _side(self, access: Access) -> dict[str, Any]:
        item = self.image.item(access.pc)
        source: SourceLocation | None = self.image.source(item)
        line = item.line if item else 0
        what = access.what or (item.opcode if item else "exit")
        at = f"PTX line {line}" + (f", {source}" if source else "")
        thread = access.thread
        return {
            "what": what,
            "who": who(self.image, thread, access.pc),
            "warp": thread.index,
            "role": role_of(self.image, thread, access.pc),
            "cta": thread.cta,
            "ptx_line": line,
            "source": source,
            "at": at,
            "who_did": f"{what} of {who(self.image, thread, access.pc)}",
        }

    def _details(self, race: Race, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        shown = ("what", "who", "warp", "role", "cta", "ptx_line", "source")
        found = {key: new[key] for key in ("who", "warp", "role")}
        names = self.image.names
        other = {key: old[key] for key in shown} | names.place_of(-1, race.old.thread.barrier_used)
        found |= {"other": other, "missing": race.missing, "address": race.address}
        return found | names.place_of(race.shadow.filled_by(race.address), race.new.thread.barrier_used)
