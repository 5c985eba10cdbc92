"""Mistakes planted into the PTX of kernels that are right: which line is dropped, moved or changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Edit = Callable[[list[str]], list[str]]


@dataclass(frozen=True)
class Line:
    """The `number`-th line that matches `pattern` behind the line of the source that contains `after`."""

    pattern: str
    after: str = ""
    number: int = 0

    def find(self, lines: list[str]) -> int:
        inside = not self.after
        matching = []
        for index, line in enumerate(lines):
            if re.match(r"\s*\.loc\s", line) and self.after:
                inside = self.after in line
            elif inside and re.search(self.pattern, line):
                matching.append(index)
        assert len(matching) > self.number, f"no line like {self}"
        return matching[self.number]


def drop(line: Line) -> Edit:
    def edit(lines: list[str]) -> list[str]:
        index = line.find(lines)
        return lines[:index] + lines[index + 1 :]

    return edit


def repeat(line: Line) -> Edit:
    def edit(lines: list[str]) -> list[str]:
        index = line.find(lines)
        return [*lines[:index], lines[index], *lines[index:]]

    return edit


def change(line: Line, old: str, new: str) -> Edit:
    def edit(lines: list[str]) -> list[str]:
        index = line.find(lines)
        changed = re.sub(old, new, lines[index])
        assert changed != lines[index]
        return [*lines[:index], changed, *lines[index + 1 :]]

    return edit


def move(line: Line, behind: Line) -> Edit:
    """The line goes right behind another one, which may stand before or after it."""

    def edit(lines: list[str]) -> list[str]:
        index = line.find(lines)
        moved, rest = lines[index], lines[:index] + lines[index + 1 :]
        target = behind.find(rest)
        return [*rest[: target + 1], moved, *rest[target + 1 :]]

    return edit


def pass_at_once(line: Line) -> Edit:
    """A wait that answers yes without asking."""
    return change(line, r"mbarrier\.try_wait\S*\s+(%\w+),.*;", r"setp.eq.u32 \1, 0, 0;")


def both(first: Edit, second: Edit) -> Edit:
    return lambda lines: second(first(lines))
