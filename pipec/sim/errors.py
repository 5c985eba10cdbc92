"""The one exception of the simulator: what went wrong, and where in the PTX and in the source."""

from __future__ import annotations

from dataclasses import dataclass, field

KINDS = frozenset(
    {
        "deadlock",
        "out_of_bounds",
        "misaligned",
        "uninitialised",
        "byte_mismatch",
        "arrive_underflow",
        "leaked_tmem",
        "unsupported",
        "race",
        "step_limit",
        "malformed",
        "argument",
        "undefined",
        "trap",
        "internal",
    }
)


@dataclass(frozen=True)
class SourceLocation:
    """A `.loc` position: file name from the `.file` table, 1-based line and column."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


@dataclass
class SimulationError(Exception):
    """The kernel did something a GPU would not define, or the simulator cannot go on.

    `kind` is one of `KINDS`; `ptx_line` is 1-based (0 when no instruction is to blame); `details` carries
    machine-readable facts (for a deadlock: one entry per blocked warp under "blocked").
    """

    kind: str
    message: str
    ptx_line: int = 0
    source: SourceLocation | None = None
    details: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__(self.message)
        if self.kind not in KINDS:
            self.details.setdefault("original_kind", self.kind)

    def __str__(self) -> str:
        where = [str(self.details[key]) for key in ("who", "place") if self.details.get(key)]
        where += [f"PTX line {self.ptx_line}"] if self.ptx_line else []
        if self.source is not None:
            where.append(str(self.source))
        return f"{self.kind}: {self.message}" + (f" ({', '.join(where)})" if where else "")

    def located(self, ptx_line: int, source: SourceLocation | None, **blame: object) -> SimulationError:
        """This error with a position, and who was there, unless it has one already."""
        if not self.ptx_line:
            self.ptx_line, self.source = ptx_line, source
            self.details = blame | self.details
        return self


def malformed(message: str, line: int) -> SimulationError:
    return SimulationError("malformed", message, line)


def unsupported(message: str, line: int) -> SimulationError:
    return SimulationError("unsupported", message, line)
