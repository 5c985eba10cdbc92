"""Applies the edits of diagnostics to the source text."""

from collections.abc import Iterable

from pipec.diag.message import Edit


def applied(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits, which do not overlap. Lines and columns are those of the text as given."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)

    def place(line: int, column: int) -> int:
        return min(starts[min(line, len(starts)) - 1] + column - 1, len(text))

    spans = [(place(e.span.line, e.span.column), place(e.span.end_line, e.span.end_column), e.text) for e in edits]
    for first, last, replacement in sorted(spans, reverse=True):
        text = text[:first] + replacement + text[last:]
    return text
