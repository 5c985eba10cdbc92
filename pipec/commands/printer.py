"""Success output of a command: text lines, or one JSON object per line (`--message-format json`)."""

import json
import math
from collections.abc import Mapping
from typing import Any, Literal

from pipec.record import fields_of, is_record

Form = Literal["text", "json"]


class Printer:
    """Commands emit everything twice, as text and as a row; the format decides which is printed."""

    def __init__(self, form: Form) -> None:
        self.json = form == "json"

    def text(self, line: str = "") -> None:
        if not self.json:
            print(line)

    def row(self, kind: str, **fields: object) -> None:
        """`kind` is the type of the object. Numbers unknown to JSON (infinity, NaN) are written as text."""
        if self.json:
            print(json.dumps({"kind": kind, **{name: _plain(value) for name, value in fields.items()}}, ensure_ascii=True))


def _plain(value: Any) -> Any:
    """Converts a value to JSON types."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if is_record(value):
        return _plain(fields_of(value))
    return value
