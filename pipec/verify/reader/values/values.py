"""Abstract values of registers, and the effect of instructions on them.

A value is one of: an integer (canonical: in the signed range of its width), a linear form (the register holds it modulo 2^width), a
condition (of a predicate), a table (a function of a cursor), lanes (an integer per thread of the CTA), mixed (a condition per thread),
or UNKNOWN. If the meaning of an instruction depends on the register's value as a signed or unsigned number, the form must be in that
range. This is proved from the ranges of its symbols, or required (if the form contains registers, such as a loop counter, or a launch
can ensure it); otherwise the result is a choice, or an uninterpreted function of the form.
"""

from pipec.record import record
from pipec.verify.terms import Both, Compare, Either, Linear


class Unknown:
    """Unknown, possibly different per thread."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@record(remember=True)
class Table:
    """A function of the position of a cursor: entry `position % len(entries)`; None for impossible positions."""

    cursor: int
    entries: tuple[int | None, ...]

    def turned(self, by: int) -> "Table":
        """The same function in terms of the position after advancing by `by`."""
        by %= len(self.entries)
        return Table(self.cursor, self.entries[-by:] + self.entries[:-by]) if by else self

    def plus(self, more: int) -> "Table":
        return Table(self.cursor, tuple([None if entry is None else entry + more for entry in self.entries])) if more else self


@record(remember=True)
class Lanes:
    """A number for each thread of the CTA."""

    entries: tuple[int, ...]


@record(remember=True)
class Mixed:
    """For a predicate: its value in each thread of the CTA, a number or a condition. Dropped at joins of the control flow."""

    entries: tuple["int | Compare | Both | Either", ...]


@record(remember=True)
class Peek:
    """The result of a try_wait on a barrier, or its negation. `use`: of a ring, relative to the position of the class there, which has not
    moved since."""

    address: "Value"
    parity: "Value"
    use: tuple[int, int]
    negated: bool = False


@record(remember=True)
class Remote:
    """An address in this CTA, mapped to another CTA per thread; rank -1 for the threads that did not map it."""

    address: "Value"
    ranks: tuple[int, ...]


Value = int | Linear | Compare | Both | Either | Table | Lanes | Mixed | Peek | Remote | Unknown
