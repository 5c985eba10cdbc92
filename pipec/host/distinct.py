"""The findings of several launches of one program, without duplicates: a tuned kernel runs in many variants of one source."""

from collections.abc import Iterable, Iterator

from pipec.sim.findings import Finding


class DistinctFindings:
    """Findings in order of appearance; those of one check between the same source lines are merged."""

    def __init__(self) -> None:
        self._found: dict[object, Finding] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            key = _place(finding)
            same = self._found.get(key)
            if same is None:
                self._found[key] = finding
            else:
                same.count += finding.count

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def clear(self) -> None:
        self._found.clear()


def _place(finding: Finding) -> object:
    """A finding without source lines is unique."""
    if finding.source is None:
        return id(finding)
    other = finding.details.get("other", {})
    return finding.check, finding.kind, finding.source, other.get("source"), finding.details.get("missing")
