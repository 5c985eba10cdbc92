"""Values as functions of a ring's position: construction, comparison, union."""

from pipec.verify.reader.values.values import UNKNOWN, Peek, Table, Value
from pipec.verify.terms import Symbol

# The generalised value of a register: a function of a cursor (or a peek at such a barrier), a symbol, or unknown.
Special = Table | Peek | Symbol | None
Hints = dict[int, dict[object, Special]]  # by loop header


def cursor_of(value: Table | Peek) -> int:
    if isinstance(value, Table):
        return value.cursor
    return next(part.cursor for part in (value.address, value.parity) if isinstance(part, Table))


def size_of(one: Special) -> int:
    """The amount of generalisation, which only grows."""
    if isinstance(one, Table):
        return 1 + sum(entry is not None for entry in one.entries)
    if isinstance(one, Peek):
        return 1 + sum(size_of(part) for part in (one.address, one.parity) if isinstance(part, Table))
    return 1


def as_table(ring: int, period: int, places: list[Value], values: list[Value]) -> Value | None:
    """Combines the values at the positions of a ring."""
    if all(value == values[0] for value in values):
        return values[0]
    if all(isinstance(value, int) for value in values):
        entries: list[int | None] = [None] * period
        for place, value in zip(places, values, strict=True):
            assert isinstance(place, int) and isinstance(value, int)
            entries[place] = value
        return Table(ring, tuple(entries))
    peeks = [value for value in values if isinstance(value, Peek)]
    if len(peeks) == len(values) and len({(peek.use, peek.negated) for peek in peeks}) == 1:
        address = as_table(ring, period, places, [peek.address for peek in peeks])
        parity = as_table(ring, period, places, [peek.parity for peek in peeks])
        if address is not None and parity is not None:
            return Peek(address, parity, peeks[0].use, peeks[0].negated)
    return None


def fitted(table: Value, value: Value, at: Value) -> Value | None:
    """The table extended by the value at a position; None if they disagree."""
    if isinstance(table, Peek):
        if not isinstance(value, Peek) or (value.use, value.negated) != (table.use, table.negated):
            return None
        address, parity = fitted(table.address, value.address, at), fitted(table.parity, value.parity, at)
        return Peek(address, parity, table.use, table.negated) if address is not None and parity is not None else None
    if not isinstance(table, Table):
        return table if table == value else None
    if isinstance(value, int) and isinstance(at, int):
        value = Table(table.cursor, tuple(value if place == at else None for place in range(len(table.entries))))
    elif isinstance(value, int) and isinstance(at, Table):
        value = Table(table.cursor, tuple(value if entry is not None else None for entry in at.entries))
    if not isinstance(value, Table) or value.cursor != table.cursor or len(value.entries) != len(table.entries):
        return None
    if any(None not in (a, b) and a != b for a, b in zip(table.entries, value.entries, strict=True)):
        return None
    return Table(table.cursor, tuple(b if a is None else a for a, b in zip(table.entries, value.entries, strict=True)))


def union(left: Special, right: Table | Peek) -> Special:
    if not isinstance(left, (Table, Peek)):
        return right
    made = fitted(left, right, UNKNOWN)
    return made if isinstance(made, (Table, Peek)) else left
