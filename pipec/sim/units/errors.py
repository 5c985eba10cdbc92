"""The one error type of the unit models."""

from __future__ import annotations

KINDS = frozenset(
    {
        "byte_mismatch",
        "arrive_underflow",
        "out_of_bounds",
        "misaligned",
        "uninitialised",
        "leaked_tmem",
        "unsupported",
        "illegal",
    }
)


class UnitError(Exception):
    """A hardware unit was asked for something it faults on, leaves undefined, or that the model does not cover.

    `kind` is one of KINDS, so that the simulator can map it to a diagnostic; `message` names the rule and the numbers.
    """

    def __init__(self, kind: str, message: str):
        if kind not in KINDS:
            raise ValueError(f"unknown unit error kind {kind!r}")
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
