"""Conditions over numbered variables: rows compared with 0, and their Boolean combinations."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from pipec.protocol.deduction.rows import Row, evaluated, negative, replaced
from pipec.record import record
from pipec.verify.terms import Relation


@record
class Comparison:
    relation: Relation
    row: Row


@record(caches=True)
class Connective:
    """The conjunction (`every`) or disjunction of the parts."""

    every: bool
    parts: tuple["Condition", ...]

    @cached_property
    def variables(self) -> frozenset[int]:
        return frozenset([variable for each in comparisons(self) for variable, _ in each.row[1]])


Condition = Comparison | Connective


def opposite(condition: Condition) -> Condition:
    match condition:
        case Comparison("ge", row):
            # For integers, the negation of "at least 0" is "at most -1".
            return Comparison("ge", negative(row))
        case Comparison(relation, row):
            return Comparison("ne" if relation == "eq" else "eq", row)
        case Connective(every, parts):
            return Connective(not every, tuple(map(opposite, parts)))


def substituted(condition: Condition, values: Mapping[int, Row]) -> Condition:
    match condition:
        case Comparison(relation, row):
            return Comparison(relation, replaced(row, values))
        case Connective(every, parts):
            return Connective(every, tuple(substituted(part, values) for part in parts))


def holds(condition: Condition, numbers: Mapping[int, int]) -> bool:
    match condition:
        case Comparison(relation, row):
            value = evaluated(row, numbers)
            return value >= 0 if relation == "ge" else (value == 0) == (relation == "eq")
        case Connective(every, parts):
            return all(holds(part, numbers) for part in parts) if every else any(holds(part, numbers) for part in parts)


def comparisons(condition: Condition) -> Iterator[Comparison]:
    match condition:
        case Comparison():
            yield condition
        case Connective(_, parts):
            for part in parts:
                yield from comparisons(part)
