"""Asynchronous operations that threads commit in groups and wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pipec.record import field, mutable

TOGETHER = -1  # in place of a lane: all 32, which have always acted together
GroupKind = Literal["bulk", "cp.async", "wgmma"]


@mutable(eq=False)
class Operation:
    """An operation that belongs to a group, started at the instruction `pc`. `read`: its sources may be overwritten."""

    pc: int = -1
    read: bool = False
    done: bool = False


@mutable(eq=False)
class Groups:
    """The groups of one kind of one thread. `marks` has, for each commit so far, how many operations the warp had issued."""

    open: list[Operation] = field(default_factory=list)
    committed: list[list[Operation]] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    last: int = -1  # the instruction of the last committed operation
    waited: int = 0  # how many commits preceded the last wait

    def copy(self) -> Groups:
        return Groups(list(self.open), [list(group) for group in self.committed], list(self.marks), self.last, self.waited)

    def commit(self, issued: int) -> None:
        self.committed.append(self.open)
        self.last = self.open[-1].pc if self.open else self.last
        self.open = []
        self.marks.append(issued)

    def over(self, allowed: int) -> int:
        """How many operations are complete when at most `allowed` groups are pending."""
        return self.marks[-allowed - 1] if len(self.marks) > allowed else 0

    def pending(self, reading_only: bool) -> int:
        """The oldest unfinished group and all later ones: a wait for N pending groups leaves the N most recent ones, and those before
        them are complete (PTX ISA 9.7.9.25.3.3), although an empty group may be finished long before its predecessors."""
        committed = self.committed
        while committed and _finished(committed[0], False):
            committed.pop(0)
        for number, group in enumerate(committed):
            if not _finished(group, reading_only):
                return len(committed) - number
        return 0


def uncommitted(groups: Mapping[tuple[GroupKind, int], Groups], kind: GroupKind) -> list[int]:
    """The instructions of uncommitted operations of a kind."""
    return sorted({operation.pc for (of, _), one in groups.items() if of == kind for operation in one.open})


def unwaited(groups: Mapping[tuple[GroupKind, int], Groups], kind: GroupKind, over: int, behind_the_last: bool) -> list[int]:
    """The last committed instructions of groups with more operations than the first `over`, which waits have covered;
    `behind_the_last`: only where a wait has followed the last commit."""
    left = (one for (of, _), one in groups.items() if of == kind and one.last >= 0 and one.marks[-1] > over)
    return sorted({one.last for one in left if one.waited == len(one.marks) or not behind_the_last})


def _finished(group: list[Operation], reading_only: bool) -> bool:
    # A loop: each waiting thread asks again whenever an operation finishes, and a generator costs as much as the answer.
    for operation in group:
        if not (operation.done or (reading_only and operation.read)):
            return False
    return True
