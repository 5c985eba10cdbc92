"""Loops over chunks: what is known of where a chunk ends, while another loop counts within it.

In `for i in range(0, n, 4): for j in range(i, min(i + 4, n))` one register counts `i` and then `j`, another one keeps `i + 4`, and a third
the smaller one of that and `n`. Once `j` counts, the first no longer says what the third is, but the second does.
"""

from collections.abc import Iterable, Iterator

from pipec.protocol.deduction.rows import Row, one, plus, replaced
from pipec.protocol.variables.variables import Variables


def in_terms_of_kept(rows: Iterable[Row], values: dict[int, Row], variables: Variables) -> Iterator[Row]:
    """For an edge on which registers get these values, some of which keep a counter with a number added: the rows in terms of those
    registers, and how far others are from what they get, in these terms; `variables.kept` has these values from then on."""
    kept = dict(_kept(values, variables))
    for counter, row in kept.items():
        yield from [replaced(each, {counter: row}) for each in rows]
    moved = variables.moved(dict(kept)) if kept else {}
    for variable, row in values.items():
        if any(each in moved and each not in kept for each, _ in row[1]):
            value = replaced(row, moved)
            variables.kept.update(each for each, _ in value[1])
            yield plus(one(variable), value, -1)


def _kept(values: dict[int, Row], variables: Variables) -> Iterator[tuple[int, Row]]:
    """The counters, in terms of the registers that keep them."""
    for variable, row in values.items():
        match row:
            case step, ((counter, 1),) if (
                step and variable != counter not in variables.derived and not variables.is_size(counter)
            ):
                yield counter, plus(one(variable), (step, ()), -1)
            case _:
                pass
