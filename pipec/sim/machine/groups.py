"""Asynchronous operations that threads commit in groups and wait for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

GroupKind = Literal["bulk", "cp.async", "wgmma"]


@dataclass(eq=False)
class Operation:
    """An operation that belongs to a group. `read`: its sources are free again."""

    read: bool = False
    done: bool = False


@dataclass(eq=False)
class Groups:
    """The groups of one kind of one thread. `marks` has for each commit so far how many operations the warp had issued."""

    open: list[Operation] = field(default_factory=list)
    committed: list[list[Operation]] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)

    def commit(self, issued: int) -> None:
        self.committed.append(self.open)
        self.open = []
        self.marks.append(issued)

    def over(self, allowed: int) -> int:
        """How many operations are over where at most `allowed` groups are pending."""
        return self.marks[-allowed - 1] if len(self.marks) > allowed else 0

    def pending(self, reading_only: bool) -> int:
        """Committed groups that are not finished; finished ones are forgotten from the front."""
        while self.committed and all(operation.done for operation in self.committed[0]):
            self.committed.pop(0)
        return sum(
            1 for group in self.committed if not all(operation.done or (reading_only and operation.read) for operation in group)
        )
