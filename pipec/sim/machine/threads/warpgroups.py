"""Instructions that all warps of a warpgroup execute (`wgmma`, `setmaxnreg`): otherwise what happens is undefined (PTX ISA 9.7.15, 9.7.20).

The warps need not meet there, so the order in which each of them executes such instructions is compared, up to its exit.
"""

from __future__ import annotations

from collections import deque

from pipec.record import record

from ...errors import SimulationError
from ...units.limits import WARPGROUP_WARPS
from ..image import Image
from ..machine import Machine
from ..practice import PracticeName

# Instructions that take four warps, and not merely all that a smaller CTA has.
_COMPLETE = frozenset({"wgmma"})
# Where chips let the warps act one by one.
_ALONE: dict[str, PracticeName] = {"setmaxnreg": "registers set by warps alone"}


def is_common(kind: str) -> bool:
    """Whether all warps of a warpgroup execute instructions of this kind, the first word of their opcode."""
    return kind in _COMPLETE or kind in _ALONE


@record
class Apart:
    """`warps` execute the instruction at `pc`, and `other` in its place the one at `instead`, or none before it exits (None)."""

    pc: int
    warps: tuple[int, ...]
    other: int
    instead: int | None


class _Steps:
    """The instructions of one kind that warps `first`, `first` + 1 ... execute, up to the first difference."""

    def __init__(self, first: int, warps: int) -> None:
        self.first = first
        self.executed = [0] * warps
        self.by_all = 0  # instructions that all of them have executed
        self.ahead = deque[int]()  # the program counters of those that only some have
        self.differ = False

    def execute(self, warp: int, pc: int, exited: frozenset[int] | set[int]) -> Apart | None:
        """`exited`: warps that will execute nothing more."""
        own = warp - self.first
        place = self.executed[own] - self.by_all
        if place == len(self.ahead):
            self.ahead.append(pc)
        elif self.ahead[place] != pc:
            return self._apart(place, warp, pc)
        self.executed[own] += 1
        for other in exited:
            if 0 <= other - self.first < len(self.executed) and self.executed[other - self.first] - self.by_all <= place:
                return self._apart(place, other, None)
        while self.ahead and min(self.executed) > self.by_all:
            self.ahead.popleft()
            self.by_all += 1
        return None

    def exit(self, warp: int) -> Apart | None:
        place = self.executed[warp - self.first] - self.by_all
        return self._apart(place, warp, None) if place < len(self.ahead) else None

    def _apart(self, place: int, other: int, instead: int | None) -> Apart:
        self.differ = True
        warps = (self.first + own for own, count in enumerate(self.executed) if count - self.by_all > place)
        return Apart(self.ahead[place], tuple(warps), other, instead)


class Warpgroups:
    """The warpgroups of a CTA of `warps` warps."""

    def __init__(self, machine: Machine, image: Image, warps: int) -> None:
        self.machine, self.image, self.warps = machine, image, warps
        self.steps: dict[tuple[str, int], _Steps] = {}  # by kind and warpgroup
        self.exited: set[int] = set()

    def execute(self, warp: int, pc: int, kind: str) -> None:
        """A warp has executed the instruction of this kind at `pc`."""
        group = warp // WARPGROUP_WARPS
        steps = self.steps.get((kind, group))
        if steps is None:
            steps = self.steps[kind, group] = _Steps(
                group * WARPGROUP_WARPS, min(WARPGROUP_WARPS, self.warps - group * WARPGROUP_WARPS)
            )
            if kind in _COMPLETE and len(steps.executed) < WARPGROUP_WARPS:
                steps.differ = True
                self._report(kind, pc, f"is executed by a warpgroup of {len(steps.executed)} warps")
        if not steps.differ and (apart := steps.execute(warp, pc, self.exited)) is not None:
            self._report_apart(kind, apart)

    def exit(self, warp: int) -> None:
        """All lanes of a warp have exited."""
        self.exited.add(warp)
        for (kind, group), steps in self.steps.items():
            if group == warp // WARPGROUP_WARPS and not steps.differ and (apart := steps.exit(warp)) is not None:
                self._report_apart(kind, apart)

    def _report_apart(self, kind: str, apart: Apart) -> None:
        some = f"warp {apart.warps[0]}" if len(apart.warps) == 1 else f"warps {', '.join(map(str, apart.warps))}"
        instead = None if apart.instead is None else self.image.item(apart.instead)
        what = "exits without it" if instead is None else f"executes {instead.opcode} (PTX line {instead.line}) in its place"
        text = f"is executed by {some} of warpgroup {apart.warps[0] // WARPGROUP_WARPS}, and warp {apart.other} {what}"
        self._report(kind, apart.pc, text)

    def _report(self, kind: str, pc: int, text: str) -> None:
        practice = _ALONE.get(kind)
        if practice is not None and self.machine.practised(practice):
            return
        item = self.image.item(pc)
        message = (
            f"{item.opcode if item else kind} {text}: all four warps of a warpgroup execute the same instructions of this kind"
        )
        error = SimulationError("undefined", message)
        self.machine.findings.add("warpgroup", pc, error.located(item.line if item else 0, self.image.source(item)))
