"""Prints finished diagnostics: as text with a snippet of the source, and as JSON.

    error[E0303]: stage `s` is released on only one branch
      --> gemm.pipe:6:10
       |
     5 |       s = ring.acquire_consumer()
       |       - stage obtained here
     6 |       if k < valid:
       |          ^^^^^^^^^ released if this is true, but not if it is false

All labels of a diagnostic appear in one snippet, in source order; a label in another file gets a snippet of its own.
"""

import json
from collections.abc import Iterable, Iterator

from pipec.diag.message import Diagnostic, Edit, Label
from pipec.diag.snippet import snippet_rows
from pipec.source import Source


def render_text(diagnostics: Iterable[Diagnostic]) -> str:
    """All diagnostics, one empty line between two; ends with a newline unless there are none."""
    return "\n".join(render_diagnostic(diagnostic) for diagnostic in diagnostics)


def render_diagnostic(diagnostic: Diagnostic) -> str:
    return "\n".join(_rows(diagnostic)) + "\n"


def _rows(diagnostic: Diagnostic) -> Iterator[str]:
    yield f"error[{diagnostic.code}]: {diagnostic.title}"
    width = max((len(str(label.span.shown_end_line)) for label in diagnostic.labels), default=1)
    edge = " " * (width + 2)
    for index, (source, labels) in enumerate(_by_source(diagnostic)):
        place = next((label for label in labels if label.primary), labels[0]).span.location()
        yield f"{' ' * (width + 1)}{':::' if index else '-->'} {place}"
        yield f"{edge}|"
        yield from snippet_rows(source, labels, width)
    notes = [(name, text) for name, text in (("note", diagnostic.note), ("help", diagnostic.help)) if text]
    if notes and diagnostic.labels:
        yield f"{edge}|"
    for name, text in notes:
        yield from _note_rows(f"{edge}= {name}: ", text)


def _note_rows(prefix: str, text: str) -> Iterator[str]:
    """Further lines of a note or help are aligned with its first."""
    for line in text.split("\n"):
        yield (prefix + line).rstrip()
        prefix = " " * len(prefix)


def _by_source(diagnostic: Diagnostic) -> list[tuple[Source, list[Label]]]:
    """Labels grouped by source, the primary label's source first."""
    groups: dict[Source, list[Label]] = {}
    if diagnostic.span is not None:
        groups[diagnostic.span.source] = []
    for label in diagnostic.labels:
        groups.setdefault(label.span.source, []).append(label)
    return list(groups.items())


def render_json(diagnostics: Iterable[Diagnostic]) -> str:
    """One JSON object per line. Lines and columns count from 1; the end is exclusive."""
    return "".join(json.dumps(diagnostic_object(diagnostic), ensure_ascii=False) + "\n" for diagnostic in diagnostics)


def diagnostic_object(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "severity": "error",
        "code": diagnostic.code,
        "title": diagnostic.title,
        "labels": [_label_object(label) for label in diagnostic.labels],
        "note": diagnostic.note,
        "help": diagnostic.help,
        "edits": [_edit_object(edit) for edit in diagnostic.edits],
    }


def _edit_object(edit: Edit) -> dict[str, object]:
    """The replacement that `help` stands for; lines of a text in a Python file get the indentation that the text has there."""
    span = edit.span
    return {
        "file": span.source.name,
        "line": span.shown_line,
        "column": span.shown_column,
        "end_line": span.shown_end_line,
        "end_column": span.shown_end_column,
        "text": edit.text.replace("\n", "\n" + " " * span.source.indent),
    }


def _label_object(label: Label) -> dict[str, object]:
    span = label.span
    return {
        "file": span.source.name,
        "line": span.shown_line,
        "column": span.shown_column,
        "end_line": span.shown_end_line,
        "end_column": span.shown_end_column,
        "primary": label.primary,
        "text": label.text,
    }
