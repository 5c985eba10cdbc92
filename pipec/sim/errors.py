"""The simulator's only exception: what went wrong, and where in the PTX and in the source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pipec.budgets import BUDGETS

from .units.errors import UnitError

ErrorKind = Literal[
    "deadlock",
    "out_of_bounds",
    "misaligned",
    "uninitialised",
    "byte_mismatch",
    "arrive_underflow",
    "leaked_tmem",
    "unsupported",
    "race",
    "layout",
    "step_limit",
    "malformed",
    "argument",
    "undefined",
    "trap",
    "internal",
    "budget",
]

# Machine-readable facts, as JSON has them; the keys depend on the kind.
Details = dict[str, Any]


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
    """The kernel did something that is undefined on a GPU, or the simulator cannot continue.

    `ptx_line` is 1-based (0 when no instruction is responsible); `details` has, for a deadlock, one entry per blocked warp under
    "blocked", and otherwise the executing thread (`Warp.blame`).
    """

    kind: ErrorKind
    message: str
    ptx_line: int = 0
    source: SourceLocation | None = None
    details: Details = field(default_factory=dict)
    # All findings of the run (`findings.Finding`); empty where this error is the only one.
    findings: list[Any] = field(default_factory=list, compare=False, repr=False)
    # What the kernel's `printf` had written so far.
    printed: list[str] = field(default_factory=list, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        """For pickling: passes all fields, where an exception would pass its text alone."""
        return type(self), (self.kind, self.message, self.ptx_line, self.source, self.details, self.findings, self.printed)

    def __str__(self) -> str:
        where = [str(self.details[key]) for key in ("who", "place") if self.details.get(key)]
        where += [f"PTX line {self.ptx_line}"] if self.ptx_line else []
        if self.source is not None:
            where.append(str(self.source))
        return f"{self.kind}: {self.message}" + (f" ({', '.join(where)})" if where else "")

    @property
    def further(self) -> str | None:
        """What a report shows below the first line of the message: the rest of it, and the run's other findings."""
        _, _, rest = self.message.partition("\n")
        others = [f"  {finding}" for finding in self.findings if finding.message != self.message]
        listed = [f"the run found {len(others)} more:", *others] if others else []
        return "\n".join([*([rest] if rest else []), *listed]) or None

    def located(self, ptx_line: int, source: SourceLocation | None, blame: Mapping[str, Any] | None = None) -> SimulationError:
        """This error with a position and the executing thread, unless it has one already."""
        if not self.ptx_line:
            self.ptx_line, self.source = ptx_line, source
            self.details = {**(blame or {}), **self.details}
        return self

    @staticmethod
    def of_unit(error: UnitError) -> SimulationError:
        """An error of a unit model, as an error of the simulator."""
        return SimulationError("undefined" if error.kind == "illegal" else error.kind, error.message)


def budget_ended(name: str, line: int = 0) -> SimulationError:
    """A row of `pipec.budgets` is exhausted; `details` has its name under "budget"."""
    row = BUDGETS[name]
    text = f"more than {row.limit:,} {row.unit}: {row.advice}"
    return SimulationError("budget", text, line, details={"budget": name})


def malformed(message: str, line: int) -> SimulationError:
    return SimulationError("malformed", message, line)


def unsupported(message: str, line: int) -> SimulationError:
    return SimulationError("unsupported", message, line)
