"""What several launches of one program found, each thing once: a kernel that is tuned runs in many forms, all of one source."""

from collections.abc import Iterable, Iterator

from pipec.sim.findings import Finding


class ToldOnce:
    """Findings in the order in which they came up; those of one check between the same lines of the source are one."""

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
    """Without lines of a source a finding is one of its own."""
    if finding.source is None:
        return id(finding)
    other = finding.details.get("other", {})
    return finding.check, finding.kind, finding.source, other.get("source"), finding.details.get("missing")
