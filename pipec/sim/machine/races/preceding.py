"""The grids that a launch may overlap with: what of its accesses must come after a griddepcontrol.wait.

A programmatic launch (cudaLaunchAttributeProgrammaticStreamSerialization) begins while the grids before it may still run, and only a
griddepcontrol.wait shows that they have ended. A kernel may read before it what none of them writes, such as weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pipec.record import record

from .shadow import Shadow

Ranges = tuple[tuple[int, int], ...]
_WAIT, _TRIGGER = "griddepcontrol.wait", "griddepcontrol.launch_dependents"
_NOT_BEFORE = "no griddepcontrol.wait stands before: the preceding grid may not be over"


@record
class Touched:
    """The host memory that a grid wrote and read, as ranges of addresses."""

    kernel: str
    written: Ranges = ()
    read: Ranges = ()

    @classmethod
    def of(cls, kernel: str, shadows: Iterable[Shadow]) -> Touched:
        """By the marks at its end: from the first to the last byte written in each allocation, and all of one that it read."""
        written, read = [], []
        for shadow in shadows:
            places = shadow.writes.nonzero()[0]
            if places.size:
                first, last = int(places[0]) * shadow.granule, (int(places[-1]) + 1) * shadow.granule
                written.append((shadow.origin + first, shadow.origin + min(last, shadow.size)))
            if shadow.was_read:
                read.append((shadow.origin, shadow.origin + shadow.size))
        return cls(kernel, tuple(written), tuple(read))

    def meets(self, low: int, high: int, writes: bool) -> bool:
        return any(first < high and low < last for first, last in (*self.written, *(self.read if writes else ())))


@record
class Preceding:
    """`watched`: 0 no access, 1 stores, 2 loads as well. `touched`: what the grids before may touch, None: any memory. `why`: how the
    report goes on."""

    watched: int
    touched: Sequence[Touched] | None = None
    why: str = ""

    @classmethod
    def of(cls, programmatic: bool | Sequence[Touched] | None, opcodes: Sequence[str]) -> Preceding:
        """`programmatic` as for `launch`. Where it is not known, a kernel that has the instructions is taken for one of such a launch;
        if it waits, it may have read weights before, but not written anything."""
        waits = _WAIT in opcodes
        if programmatic is None:
            if waits:
                return cls(1, None, _NOT_BEFORE)
            if _TRIGGER in opcodes:
                return cls(
                    2, None, "the kernel lets dependent grids begin, but has no griddepcontrol.wait for the preceding grid"
                )
            return cls(0)
        if programmatic is False or (not isinstance(programmatic, bool) and waits and not programmatic):
            return cls(0)
        if not waits:
            return cls(
                2,
                None,
                "the launch is programmatic, but the kernel has no griddepcontrol.wait: the preceding grid may not be over",
            )
        return cls(2, None if isinstance(programmatic, bool) else programmatic, _NOT_BEFORE)

    def met(self, low: int, high: int, writes: bool) -> Touched | None:
        """The grid, if one is known, that touches this host memory so that an access conflicts."""
        return next((one for one in self.touched or () if one.meets(low, high, writes)), None)
