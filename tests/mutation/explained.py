"""Why mutants of the checks survive, by file, line of code and change: what is equivalent, or only costs time."""

from collections.abc import Mapping

from mutation.operators import ROOT, Change

# A file, a line of it (without spaces at its ends), and what becomes of what: lines move, and what they say does not.
Place = tuple[str, str, str]


def explained_by(change: Change) -> Place:
    line = (ROOT / change.file).read_text(encoding="utf-8").splitlines()[change.line - 1].strip()
    return change.file.removeprefix("pipec/"), line, f"{change.old.strip()} -> {change.new.strip()}"


WHY: Mapping[Place, str] = {}
