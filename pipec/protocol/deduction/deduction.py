"""Deduction from premises: assuming conditions of any kind, and deciding whether they are impossible or certain.

Inequalities and equations are rows, handled by `Premises`. Other conditions (disequalities, disjunctions) are kept as clauses: a
condition that contradicts all alternatives of a clause is impossible.
"""

from collections.abc import Container, Iterable

from pipec.protocol.deduction.comparisons import Comparison, Condition, Connective, comparisons, opposite
from pipec.protocol.deduction.premises import Premises
from pipec.protocol.deduction.rows import Row, Terms, negative, plus, primitive, replaced, scaled


def assume(premises: Premises, condition: Condition) -> None:
    """Adds a condition to the premises."""
    match condition:
        case Comparison("ge", row):
            premises.at_least(row)
            _sharpen(premises, row)
        case Comparison("eq", row):
            # An equation may move a value to the edge of what a clause excludes.
            premises.equal(row)
            _sharpen(premises, row)
        case Comparison():
            if not _one_sided(premises, condition):
                premises.clauses.append(condition)
        case Connective(True, parts):
            for part in parts:
                assume(premises, part)
        case Connective(_, parts):
            # A single remaining part is a fact, which is stronger than a clause.
            left = tuple(part for part in parts if not impossible(premises, part))
            if len(left) > 1:
                premises.clauses.append(Connective(False, left))
            else:
                assume(premises, left[0] if left else Comparison("ge", (-1, ())))


def assume_cases(premises: Premises, cases: Iterable[Connective]) -> None:
    """Adds disjunctions that hold by the definition of a value. An alternative is dropped where inequalities refute one of its
    comparisons: other definitions rarely do, and to try each with each takes long, as those of quotients all have the divisor in common."""
    for case in cases:
        left = tuple(part for part in case.parts if not any(_refuted(premises, each) for each in comparisons(part)))
        if len(left) > 1:
            premises.clauses.append(Connective(False, left))
        else:
            assume(premises, left[0] if left else Comparison("ge", (-1, ())))


def decide_cases(premises: Premises, cases: Iterable[Connective]) -> None:
    """Adds what is left of such disjunctions where all alternatives but one are refuted meanwhile, by what their first comparisons say."""
    for case in cases:
        left = [part for part in case.parts if not _refuted(premises, next(iter(comparisons(part))))]
        if len(left) == 1:
            assume(premises, left[0])


def narrow(premises: Premises, told: Condition, rests: Container[Terms]) -> None:
    """Adds equations of remainders, with these terms, that are left of clauses of which what is told meanwhile refutes all other parts: in
    the last turn, or in each fourth one, a role fills a stage, and where there is another turn it is a fourth one."""
    if not isinstance(told, Comparison):
        return
    asked = {variable for variable, _ in premises.reduced(told.row)[1]}
    for clause in list(premises.clauses):
        equations = [one for one in comparisons(clause) if one.relation == "eq" and one.row[1] in rests]
        if equations and isinstance(clause, Connective) and not asked.isdisjoint(_variables(premises, clause)):
            left = [part for part in clause.parts if not refuted(premises, part)]
            if left == equations[:1]:
                premises.clauses.remove(clause)
                premises.equal(equations[0].row)


def _one_sided(premises: Premises, differing: Comparison) -> bool:
    """For a disequality, assumes which side is larger, if the other case is excluded; returns whether it was."""
    row = differing.row
    if premises.entails(row):
        premises.at_least(plus(row, (-1, ())))
    elif premises.entails(scaled(row, -1)):
        premises.at_least(negative(row))
    else:
        return False
    return True


def _sharpen(premises: Premises, row: Row) -> None:
    """A bound that a clause excludes as a value is tightened by one."""
    if not premises.clauses:
        return
    changed = {variable for variable, _ in row[1]}
    for clause in list(premises.clauses):
        if isinstance(clause, Comparison) and changed & {v for v, _ in clause.row[1]} and _one_sided(premises, clause):
            premises.clauses.remove(clause)


def impossible(premises: Premises, condition: Condition) -> bool:
    """Whether the condition is unsatisfiable; False if that is not established."""
    match condition:
        case Comparison():
            return _refuted(premises, condition) or _contradicted(premises, condition)
        case Connective(True, parts):
            # Each part may contradict the earlier ones, though none is impossible alone.
            having = premises.copy()
            for part in parts:
                if impossible(having, part):
                    return True
                assume(having, part)
            return having.contradictory
        case Connective(_, parts):
            return all(impossible(premises, part) for part in parts)


def refuted(premises: Premises, condition: Condition) -> bool:
    """Whether inequalities exclude the condition, each of its comparisons by itself: what cases would add is not looked at."""
    match condition:
        case Comparison():
            return _refuted(premises, condition)
        case Connective(every, parts):
            return (any if every else all)(refuted(premises, part) for part in parts)


def _refuted(premises: Premises, comparison: Comparison) -> bool:
    """Whether inequalities, or a clause that consists of one comparison, exclude it."""
    row = comparison.row
    match comparison.relation:
        case "ge":
            return premises.entails(negative(row))
        case "eq":
            return known_to_differ(premises, row) or premises.entails(plus(row, (-1, ()))) or premises.entails(negative(row))
        case "ne":
            return premises.equals(row)


def known_to_differ(premises: Premises, row: Row) -> bool:
    """Whether a clause says that the row is not 0."""
    if not premises.clauses:
        return False
    asked = _normal(premises, row)
    return any(isinstance(one, Comparison) and _normal(premises, one.row) == asked for one in premises.clauses)


def _normal(premises: Premises, row: Row) -> Row:
    """A normal form of `row = 0` up to sign, in terms of the free variables of the premises."""
    row = primitive(replaced(row, premises.solved))
    return scaled(row, -1) if row[1] and row[1][0][1] < 0 else row


def _contradicted(premises: Premises, condition: Comparison) -> bool:
    """Whether assuming the condition leaves a clause with several parts without alternatives."""
    # Clauses about other variables cannot be contradicted by it.
    mine = {variable for variable, _ in replaced(condition.row, premises.solved)[1]}
    joined = [one for one in premises.clauses if isinstance(one, Connective) and not mine.isdisjoint(_variables(premises, one))]
    if not joined:
        return False
    having = premises.copy()
    # Otherwise clauses would be evaluated in terms of each other without end.
    having.clauses = [one for one in having.clauses if one not in joined]
    assume(having, condition)
    return having.contradictory or any(impossible(having, one) for one in joined)


def _variables(premises: Premises, clause: Connective) -> frozenset[int]:
    """Those that its comparisons are about, once solved ones are replaced."""
    known = premises.solved.keys() & clause.variables
    return clause.variables.difference(known).union(*[[each for each, _ in premises.solved[one][1]] for one in known])


def certain(premises: Premises, condition: Condition) -> bool:
    """Whether the condition follows from the premises; False if that is not established."""
    return impossible(premises, opposite(condition))
