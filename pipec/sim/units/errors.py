"""The one error type of the unit models."""

from __future__ import annotations

from typing import Literal

UnitErrorKind = Literal[
    "byte_mismatch",
    "arrive_underflow",
    "out_of_bounds",
    "misaligned",
    "uninitialised",
    "leaked_tmem",
    "unsupported",
    "illegal",
]


class UnitError(Exception):
    """A hardware unit was asked for something that faults, is undefined, or is not covered by the model.

    `kind` lets the simulator map it to a diagnostic; `message` names the rule and the numbers.
    """

    def __init__(self, kind: UnitErrorKind, message: str):
        super().__init__(f"{kind}: {message}")
        self.kind: UnitErrorKind = kind
        self.message = message
