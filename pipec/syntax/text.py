"""The syntax tree as indented text, for `--emit ast`."""

from collections.abc import Iterator

from pipec.record import fields_of, is_record
from pipec.source import Span
from pipec.syntax import ast


def file_text(file: ast.File) -> str:
    """One node per line: its kind, then its plain fields; children indented below, each under its field's name."""
    return "\n".join(_lines(file, "", 0)) + "\n"


def _lines(node: object, label: str, depth: int) -> Iterator[str]:
    head = "  " * depth + (f"{label}: " if label else "")
    if not is_record(node):
        yield f"{head}{node!r}"
        return
    plain, nested = [], []
    for name, value in fields_of(node).items():
        if isinstance(value, Span) or value is None or value == ():
            continue
        if is_record(value) or isinstance(value, tuple):
            nested.append((name, value))
        else:
            plain.append(f"{name}={value!r}")
    yield f"{head}{type(node).__name__}{' ' if plain else ''}{' '.join(plain)}"
    for name, value in nested:
        if isinstance(value, tuple):
            for child in value:
                yield from _lines(child, name, depth + 1)
        else:
            yield from _lines(value, name, depth + 1)
