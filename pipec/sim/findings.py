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
    "warpgroup",
]
# After so many different findings a run stops: further ones are consequences.
_MOST = 100
# Of findings that are reported together, so many places are printed.
_SHOWN = 8


@dataclass(frozen=True)
class Check:
    """`kind` is that of the error; `meaning` says what it finds, for `pipec explain` and docs/simulator.md; `documents` and `practice` are
    the default severities under these rules."""

    kind: ErrorKind
    meaning: str
    documents: Severity = "error"
    practice: Severity = "error"


CHECKS: dict[CheckName, Check] = {
    "race": Check(
        "race",
        "two unordered accesses to the same location, one of them a write; strong loads that may find nothing of a store, "
        "where only a signal without a fence before it orders the two, and that changes the results",
    ),
    "proxy": Check(
        "race",
        "ordinary writes followed by asynchronous operations on the same location without fence.proxy.async",
    ),
    "fence": Check(
        "race",
        "tensor memory that is handed over without the two tcgen05.fence, or without a tcgen05.wait::ld for loads whose "
        "registers were used",
        practice="warn",
    ),
    "uninitialised": Check(
        "uninitialised",
        "reads of shared memory that was never written, or by `shfl.sync` from inactive lanes; in practice only where "
        "that changes the results, which two more runs determine. Also of registers that no path has written, where they "
        "change the results",
    ),
    "bytes": Check(
        "byte_mismatch",
        "an mbarrier that ends with bytes that were announced but not delivered (in practice no error), or the reverse",
    ),
    "leak": Check(
        "leaked_tmem",
        "tensor memory that is not freed",
    ),
    "lanes": Check(
        "race",
        "lanes of one warp that access the same location without a `bar.warp.sync` in between, or, where one has copied "
        "(`cp.async`), without its wait and a `bar.warp.sync` behind that, initialise the same mbarrier together with equal "
        "counts, make the same bulk reduction (which adds once for each), store or have copied something that other lanes "
        "of the warp then signal, or copy (`mbarrier.arrive`, an atomic or a flag, a bulk copy), without a `bar.warp.sync` "
        "in between, store different values to one place in one instruction (except 32-bit words of at "
        "least 2^23 that differ by at most 2^16, as sums in `f32` do that were rounded differently), or execute a "
        "collective instruction whose mask does not name them",
        practice="warn",
    ),
    "grid": Check(
        "race",
        "global memory that is accessed before `griddepcontrol.wait` in a launch that may overlap with the preceding "
        "grids (programmatic launch)",
        documents="warn",
        practice="warn",
    ),
    "peer": Check(
        "undefined",
        "operations on another CTA of the cluster that is not known to have started, or that may have exited",
    ),
    "scope": Check(
        "race",
        "shared memory that an asynchronous operation reads after another one, or threads of another CTA, wrote it, "
        "where a signal in between is relaxed or its scope too narrow; global memory that an asynchronous operation reads "
        "after threads of another CTA wrote it, without a fence.proxy.async in between; use of another CTA's mbarrier after a "
        "relaxed cluster barrier without a fence.mbarrier_init",
        practice="warn",
    ),
    "stale": Check(
        "undefined",
        "`ld.global.nc` of data that the kernel itself has written: its cache is not coherent with stores",
        practice="warn",
    ),
    "warpgroup": Check(
        "undefined",
        "`wgmma` instructions and `setmaxnreg` that only some warps of a warpgroup execute, or others in another order; in "
        "practice `wgmma` alone",
    ),
    "init": Check(
        "race",
        "copies that signal an mbarrier without a fence.mbarrier_init or fence.proxy.async after its initialisation; in "
        "practice only in clusters",
        documents="warn",
        practice="warn",
    ),
    "split": Check(
        "undefined",
        "lanes that arrive at an mbarrier together, but in two of its phases, as when its count is too small",
        documents="warn",
        practice="warn",
    ),
    "commit": Check(
        "undefined",
        "bulk stores without a later `cp.async.bulk.commit_group`, which no wait can cover",
        practice="warn",
    ),
    "exit": Check(
        "undefined",
        "bulk stores whose source reads no `cp.async.bulk.wait_group` has covered when their CTA exits, in practice only "
        "in kernels without such a wait, or where a wait after the last commit leaves it pending; operations on tensor "
        "memory that is deallocated without a wait for their commit, and commits to mbarriers that their own CTA no "
        "longer uses, or that another CTA has left by its exit after it has waited for another commit behind the same "
        "MMAs; arrivals at an mbarrier of another CTA that nothing orders before it is invalidated there (a race if the "
        "memory is used again); copies into shared memory for which no warp of the CTA waits before it exits (an error "
        "where they are under way then)",
        practice="warn",
    ),
    "phase": Check(
        "undefined",
        "tests of an mbarrier by the parity of a phase when nothing has shown that the phase before it is complete: while "
        "that one is current, the same test is true; an arrival at a barrier of the CTA, where warps also arrive without "
        "waiting, when nothing has shown the warp that the last phase there is complete; a second arrival at an mbarrier "
        "whose phases somebody waits for, when nothing has shown the warp that the phase of the first one is complete",
    ),
    "layout": Check(
        "layout",
        "an MMA that reads a tile in a layout or type other than the one in which a tensor copy wrote it; an MMA or a "
        "tensor store that reads what threads wrote in another swizzle; MMAs that take successive steps of K through one "
        "tile and read it differently, or one accumulator as elements of two types; a descriptor's base offset that does "
        "not match its address",
    ),
    "linear": Check(
        "layout",
        "an MMA or a tensor store that reads with a swizzle what threads stored without one: correct only if the data "
        "was swizzled before",
        documents="warn",
        practice="warn",
    ),
    "steps": Check(
        "layout",
        "MMAs that read the same two boxes, where one starts at different steps of K in A and B, or reads one of them "
        "transposed; operands that begin inside a box and continue in another one; among MMAs that take successive steps "
        "of K through one tile, one that negates an operand or does not advance in it; an accumulator that receives "
        "products of two types, or of equally laid out tiles of which one is read transposed; an MMA that several lanes "
        "issue, which makes the sums wrong",
        documents="warn",
        practice="warn",
    ),
    "unread": Check(
        "layout",
        "a tile of which an MMA or a tensor copy reads one part, and nobody the rest before its CTA ends",
        documents="warn",
        practice="warn",
    ),
    "lost": Check(
        "layout",
        "sums of an MMA that another MMA overwrites before anybody has read them",
        documents="warn",
        practice="warn",
    ),
}


def explained(name: CheckName) -> str:
    """What `pipec explain` says about a check."""
    check = CHECKS[name]
    return (
        f"Finds {check.meaning}.\n\nSeverity: {check.documents} with --rules documents, {check.practice} with --rules practice."
    )


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
        """The run's first error, of unwritten memory last, with all findings; `stopped` is the one that ended it early."""
        errors = [finding for finding in self.all if finding.severity == "error"]
        # Alone, a read of unwritten memory may not matter (`unwritten`): another error is the better reason.
        errors.sort(key=lambda finding: finding.check == "uninitialised")
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
