"""Counters that go round: `k = 0 if k == last else k + 1` counts the blocks of one tile after the other in a single loop."""

from collections.abc import Iterable, Iterator

from pipec.protocol.deduction.comparisons import Comparison
from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row, one, plus, scaled
from pipec.protocol.variables.meanings import Meaning
from pipec.verify.terms import Choose, Compare, Linear, is_larger, is_smaller


def goes_round(each: Choose) -> bool:
    """Whether it is the next value of such a counter: one more, or the number from which it starts again."""
    return _start(each) is not None


def starts(forms: Iterable[Linear]) -> Iterator[Linear]:
    """The numbers of sizes from which those of the forms start again that are such values."""
    for form in forms:
        match form:
            case Linear(0, ((Choose() as each, 1),)) if (start := _start(each)) is not None and start.terms:
                yield start
            case _:
                pass


def _start(each: Choose) -> Linear | None:
    match each.condition:
        case Compare(_, form) if not is_smaller(each) and not is_larger(each):
            asked = [part for part, _ in form.terms]
            onwards = [bool(value.terms) and value.terms[-1][0] in asked for value in (each.yes, each.no)]
            value, start = (each.yes, each.no) if onwards[0] else (each.no, each.yes)
            return start if sum(onwards) == 1 and len(value.terms) == 1 else None
        case _:
            return None


def around(made: Premises, meaning: Meaning) -> Iterator[Row]:
    """Of a choice that is open and asks whether a counter has come to its last value: it does not go beyond that value either, if the
    counter has not. For where the counter has not come to it, it is at least one before it. Nor is it beyond the value from which it
    starts again, if the counter is not."""
    if meaning.bounds:
        return  # the smaller or larger one of two numbers
    first, second = meaning.unless
    for (condition, value), (_, other) in ((first, second), (second, first)):
        if not isinstance(condition, Comparison) or condition.relation == "ne" or not condition.row[1]:
            continue
        counter, coefficient = condition.row[1][-1]
        times, rest = divmod(next((c for each, c in value[1] if each == counter), 0), coefficient)
        if rest or not times:
            continue
        for sign in (1, -1):
            if made.entails(scaled(plus(other, value, -1), sign)):
                yield scaled(plus(other, one(meaning.variable), -1), sign)
            if condition.relation == "ge" and sign > 0 or made.entails(scaled(condition.row, -sign)):
                # What the value is where the counter is one before its last, in terms of that last value.
                end = plus(plus(value, condition.row, -times), (-sign * times, ()))
                beyond = 1 if sign * times > 0 else -1
                if made.entails(scaled(plus(end, other, -1), beyond)):
                    yield scaled(plus(end, one(meaning.variable), -1), beyond)
