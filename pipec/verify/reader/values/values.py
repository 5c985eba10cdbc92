"""Abstract values of registers, and what instructions make of them.

A value is one of: an integer (canonical: in the signed range of its width), a linear form (the register holds it modulo 2^width), a
condition (of a predicate), a table (a function of a cursor), lanes (an integer per thread of the CTA), mixed (a condition per thread), or
UNKNOWN. Where the meaning of an instruction depends on the register's value as a signed or unsigned number, the form must lie in that
range: shown from the ranges of its symbols, or required where the form has registers in it (a loop counter) or a launch can see to it, or
else made a choice, or an uninterpreted function of the form.
"""

from pipec.record import record
from pipec.verify.terms import Both, Compare, Either, Linear


class Unknown:
    """Nothing is known; it may differ from thread to thread."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown()


@record(remember=True)
class Table:
    """A function of the position of a cursor: entry `position % len(entries)`; None where the position cannot be."""

    cursor: int
    entries: tuple[int | None, ...]

    def turned(self, by: int) -> "Table":
        """The same function, of the position after it has moved on by `by`."""
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
    """Of a predicate: for each thread of the CTA whether it holds, a number or a condition. Forgotten where control flow meets."""

    entries: tuple["int | Compare | Both | Either", ...]


@record(remember=True)
class Peek:
    """Whether a barrier was found complete: the outcome of a try_wait, or its negation."""

    address: "Value"
    parity: "Value"
    negated: bool = False


@record(remember=True)
class Remote:
    """An address in this CTA, mapped to another CTA for each thread; rank -1 for the threads that did not do so."""

    address: "Value"
    ranks: tuple[int, ...]


Value = int | Linear | Compare | Both | Either | Table | Lanes | Mixed | Peek | Remote | Unknown
