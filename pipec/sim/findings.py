"""Problems that a run reports without stopping: each kind is an error, a warning or ignored, and equal findings are counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .errors import Details, ErrorKind, SimulationError, SourceLocation

Severity = Literal["error", "warn", "off"]
CheckName = Literal[
    "race",
    "proxy",
    "init",
    "fence",
    "uninitialised",
    "bytes",
    "leak",
    "commit",
    "exit",
    "split",
    "phase",
    "layout",
    "linear",
    "steps",
    "unread",
    "lost",
    "peer",
    "scope",
    "lanes",
    "grid",
    "stale",
]
# After so many different findings a run stops: further ones are consequences.
_MOST = 100
# Of findings that are reported together, so many places are printed.
_SHOWN = 8


@dataclass(frozen=True)
class Check:
    """`kind` is that of the error; `documents` and `practice` are the default severities under these rules."""

    kind: ErrorKind
    meaning: str
    documents: Severity = "error"
    practice: Severity = "error"


CHECKS: dict[CheckName, Check] = {
    "race": Check("race", "two accesses to one place, one of them a write, that nothing orders"),
    "proxy": Check("race", "ordinary writes that asynchronous operations meet without fence.proxy.async"),
    "init": Check(
        "race",
        "copies that count on an mbarrier whose initialisation no fence has told the async proxy of",
        documents="warn",
        practice="off",
    ),
    "fence": Check("race", "tensor memory that changes hands without the two tcgen05.fence", practice="warn"),
    "uninitialised": Check("uninitialised", "shared memory that is read and that nothing has written"),
    "bytes": Check("byte_mismatch", "an mbarrier that ends with bytes announced and not delivered"),
    "leak": Check("leaked_tmem", "tensor memory that is not given back"),
    "commit": Check("undefined", "bulk stores that no commit_group follows, so that no wait is for them", practice="warn"),
    "exit": Check(
        "undefined",
        "bulk stores, operations on tensor memory, or arrivals from another CTA, that nobody has waited for when their CTA ends, gives "
        "that memory back or invalidates the mbarrier",
        practice="warn",
    ),
    "split": Check(
        "undefined",
        "arrivals of one instruction that fall into two phases of an mbarrier, as where its count is too small",
        documents="warn",
        practice="warn",
    ),
    "phase": Check(
        "undefined", "tests of an mbarrier, or arrivals at a barrier, that mean one phase or another, as the timing has it"
    ),
    "layout": Check(
        "layout",
        "an MMA or a tensor copy that reads a tile in another layout or type than it was written in, or than another MMA",
    ),
    "linear": Check(
        "layout",
        "an MMA or a tensor copy that reads with a swizzle what threads stored without one: right only if the data came swizzled",
        documents="warn",
        practice="warn",
    ),
    "steps": Check(
        "layout",
        "MMAs that go through K in one operand otherwise than in the other, negate some of one tile, or go past the end of a box",
        documents="warn",
        practice="warn",
    ),
    "unread": Check(
        "layout",
        "a part of a tile that nobody reads, where an MMA or a tensor copy reads the rest of it",
        documents="warn",
        practice="warn",
    ),
    "lost": Check(
        "layout", "sums of an MMA that another one overwrites before anybody has read them", documents="warn", practice="warn"
    ),
    "lanes": Check("race", "lanes of one warp that touch one place and do not meet at a bar.warp.sync between", practice="warn"),
    "grid": Check(
        "race",
        "global memory that is touched before griddepcontrol.wait, where the launch may overlap with the grids before it",
        documents="warn",
        practice="warn",
    ),
    "stale": Check("undefined", "ld.global.nc of what the kernel itself has written", practice="warn"),
    "peer": Check("undefined", "work on another CTA of the cluster that nothing has shown to run, or to run still"),
    "scope": Check(
        "race",
        "shared memory, copied or of another CTA, that a relaxed or narrow signal passes on to an asynchronous operation, and "
        "mbarriers whose initialisation it passes on",
        practice="warn",
    ),
}


@dataclass
class Finding:
    """One problem, which occurred `count` times. `ptx_line` and `source` are of the later side; `details` has the other one under
    "other", if there is one."""

    check: CheckName | None
    severity: Severity
    kind: ErrorKind
    message: str
    ptx_line: int = 0
    source: SourceLocation | None = None
    details: Details = field(default_factory=dict)
    count: int = 1

    @property
    def lines(self) -> set[int]:
        """PTX lines of both sides."""
        return {self.ptx_line, self.details.get("other", {}).get("ptx_line", 0)}

    @property
    def error(self) -> SimulationError:
        return SimulationError(self.kind, self.message, self.ptx_line, self.source, dict(self.details))

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        others = self.details.get("others", ())
        shown = ", ".join(" and ".join(map(str, lines)) for lines in others[:_SHOWN]) + (", ..." if len(others) > _SHOWN else "")
        where = "between" if others and len(others[0]) > 1 else "at"
        return f"{self.error}{times}" + (f"; also {where} PTX lines {shown}" if others else "")


class Findings:
    """The findings of one run. `severities` are chosen by the caller; others follow the rules."""

    def __init__(self, severities: Mapping[str, Severity], documents: bool) -> None:
        self.severities: dict[str, Severity] = {
            name: severities.get(name, check.documents if documents else check.practice) for name, check in CHECKS.items()
        }
        self.found: dict[object, Finding] = {}
        self.told: dict[object, Finding] = {}  # those reported together with another one

    def wanted(self, check: CheckName) -> bool:
        return self.severities[check] != "off"

    def add(self, check: CheckName, key: object, error: SimulationError) -> None:
        """Adds `error` as a finding of `check`; those with the same `key` are one. Raises it where there are too many."""
        severity = self.severities[check]
        if severity == "off":
            return
        if self.again(check, key):
            return
        if check == "uninitialised" and len(self.found) >= _MOST // 2 and self._with_any(check, key):
            return
        self.found[check, key] = Finding(check, severity, error.kind, error.message, error.ptx_line, error.source, error.details)
        if len(self.found) >= _MOST:
            raise error

    def again(self, check: CheckName, key: object) -> bool:
        """Counts another occurrence of a known finding; false for a new one."""
        same = self.found.get((check, key)) or self.told.get((check, key))
        if same is not None:
            same.count += 1
        return same is not None

    def with_first(self, check: CheckName, key: object, missing: str, lines: Callable[[], tuple[int, ...]]) -> bool:
        """Reports a finding together with the first one of `check` that misses the same ordering; false if it is the first."""
        first = next((one for one in self.found.values() if one.check == check and one.details.get("missing") == missing), None)
        if first is None:
            return False
        self.told[check, key] = first
        first.count += 1
        first.details.setdefault("others", []).append(lines())
        return True

    def _with_any(self, check: CheckName, key: object) -> bool:
        """Reports a finding together with the first one of `check`, if there is one: further runs decide whether such reads matter, and
        many of them are no reason to stop."""
        first = next((one for one in self.found.values() if one.check == check), None)
        if first is not None:
            self.told[check, key] = first
            first.count += 1
        return first is not None

    @property
    def all(self) -> list[Finding]:
        """In the order in which they occurred. A read of unwritten memory that races with the write is a race only."""
        racing = {line for finding in self.found.values() if finding.kind == "race" for line in finding.lines}
        return [one for one in self.found.values() if one.check != "uninitialised" or one.ptx_line not in racing]

    def verdict(self, stopped: SimulationError | None) -> SimulationError | None:
        """The run's first error, with all findings; `stopped` is the one that ended it early."""
        errors = [finding for finding in self.all if finding.severity == "error"]
        if not errors:
            if stopped is not None:
                stopped.findings = [*self.all, _ending(stopped)]
            return stopped
        first = errors[0].error
        first.findings = self.all
        if stopped is not None and str(stopped) != str(first):
            first.findings.append(_ending(stopped))
        return first


def _ending(stopped: SimulationError) -> Finding:
    return Finding(None, "error", stopped.kind, stopped.message, stopped.ptx_line, stopped.source, stopped.details)
