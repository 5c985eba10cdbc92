"""The syntax tree as indented text, for `--emit ast`."""

from collections.abc import Iterator

from pipec.record import fields_of, is_record
from pipec.source import Span
from pipec.syntax import ast


def file_text(file: ast.File) -> str:
    """One node per line: its kind, then its plain fields; children indented below, each under its field's name."""
    return "\n".join(_lines(file)) + "\n"


def _lines(root: object) -> Iterator[str]:
    """Iterative: each `elif` is nested in the previous one, and there may be a thousand."""
    stack: list[tuple[object, str, int]] = [(root, "", 0)]
    while stack:
        node, label, depth = stack.pop()
        head = "  " * depth + (f"{label}: " if label else "")
        if not is_record(node):
            yield f"{head}{node!r}"
            continue
        plain, nested = [], []
        for name, value in fields_of(node).items():
            if isinstance(value, Span) or value is None or value == ():
                continue
            if is_record(value) or isinstance(value, tuple):
                nested += [(child, name, depth + 1) for child in (value if isinstance(value, tuple) else (value,))]
            else:
                plain.append(f"{name}={value!r}")
        yield f"{head}{type(node).__name__}{' ' if plain else ''}{' '.join(plain)}"
        stack += reversed(nested)
