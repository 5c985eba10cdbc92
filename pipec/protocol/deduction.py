"""What follows from premises: conditions of any kind are assumed, excluded and certain.

Inequalities and equations are rows, which `Premises` takes apart. What is no conjunction of these (two numbers differ, one of several
things holds) is kept as a clause: whatever contradicts all that a clause leaves open is excluded.
"""

from pipec.protocol.comparisons import Comparison, Condition, Joined, comparisons, opposite
from pipec.protocol.premises import Premises
from pipec.protocol.rows import Row, negative, plus, primitive, replaced, scaled


def assume(premises: Premises, condition: Condition) -> None:
    """Adds the condition."""
    match condition:
        case Comparison("ge", row):
            premises.at_least(row)
            _sharpen(premises, row)
        case Comparison("eq", row):
            # An equation may put a value at the edge of what a clause excludes.
            premises.equal(row)
            _sharpen(premises, row)
        case Comparison():
            if not _one_sided(premises, condition):
                premises.clauses.append(condition)
        case Joined(True, parts):
            for part in parts:
                assume(premises, part)
        case Joined(_, parts):
            # A single part that is left is a fact, of which more follows than of a clause.
            left = tuple(part for part in parts if not impossible(premises, part))
            if len(left) > 1:
                premises.clauses.append(Joined(False, left))
            else:
                assume(premises, left[0] if left else Comparison("ge", (-1, ())))


def _one_sided(premises: Premises, differing: Comparison) -> bool:
    """Assumes of numbers that differ which one is larger, where the other cannot be; whether it was so."""
    row = differing.row
    if premises.entails(row):
        premises.at_least(plus(row, (-1, ())))
    elif premises.entails(scaled(row, -1)):
        premises.at_least(negative(row))
    else:
        return False
    return True


def _sharpen(premises: Premises, row: Row) -> None:
    """A bound at which another clause says that the value is not is one less."""
    if not premises.clauses:
        return
    changed = {variable for variable, _ in row[1]}
    for clause in list(premises.clauses):
        if isinstance(clause, Comparison) and changed & {v for v, _ in clause.row[1]} and _one_sided(premises, clause):
            premises.clauses.remove(clause)


def impossible(premises: Premises, condition: Condition) -> bool:
    """Whether the condition cannot hold; False where that is not found out."""
    match condition:
        case Comparison("ge", row):
            return premises.entails(negative(row)) or _contradicted(premises, condition)
        case Comparison("eq", row):
            return (
                _known_to_differ(premises, row)
                or premises.entails(plus(row, (-1, ())))
                or premises.entails(negative(row))
                or _contradicted(premises, condition)
            )
        case Comparison(_, row):
            return premises.equals(row) or _contradicted(premises, condition)
        case Joined(True, parts):
            # Each part may contradict those before it, though none is impossible alone.
            having = premises.copy()
            for part in parts:
                if impossible(having, part):
                    return True
                assume(having, part)
            return having.contradictory
        case Joined(_, parts):
            return all(impossible(premises, part) for part in parts)


def _known_to_differ(premises: Premises, row: Row) -> bool:
    if not premises.clauses:
        return False
    asked = _normal(premises, row)
    return any(isinstance(one, Comparison) and _normal(premises, one.row) == asked for one in premises.clauses)


def _normal(premises: Premises, row: Row) -> Row:
    """What is 0 where the row is, whatever its sign, in terms of what the premises leave free."""
    row = primitive(replaced(row, premises.solved))
    return scaled(row, -1) if row[1] and row[1][0][1] < 0 else row


def _contradicted(premises: Premises, condition: Comparison) -> bool:
    """Whether a clause of several parts has none left where the condition holds."""
    # Clauses about other values cannot be contradicted by it.
    mine = {variable for variable, _ in replaced(condition.row, premises.solved)[1]}
    joined = [one for one in premises.clauses if isinstance(one, Joined) and mine & _variables(premises, one)]
    if not joined:
        return False
    having = premises.copy()
    # Otherwise each clause would be asked about the others in turn, for ever.
    having.clauses = [one for one in having.clauses if one not in joined]
    assume(having, condition)
    return having.contradictory or any(impossible(having, one) for one in joined)


def _variables(premises: Premises, clause: Condition) -> set[int]:
    return {variable for each in comparisons(clause) for variable, _ in replaced(each.row, premises.solved)[1]}


def certain(premises: Premises, condition: Condition) -> bool:
    """Whether the condition holds wherever the premises do; False where that is not found out."""
    return impossible(premises, opposite(condition))
