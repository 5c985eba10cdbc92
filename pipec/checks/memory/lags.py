"""Stages that a role obtains in some iterations of a loop only: from a certain one on, as in `if i >= 2:`, or where a condition holds."""

from pipec.checks.memory.hand_overs import HandOvers, Position
from pipec.kir import ir
from pipec.record import record
from pipec.terms.term import ONE, Operator, Term, atom_of, operands


@record
class Lag:
    """The stage is obtained at most once in each iteration, and in none before number `first`. `always`: in each from there on. `behind`:
    where the ways of an iteration have come together again."""

    first: int
    always: bool
    behind: Position


def lag(role: HandOvers, loop: ir.Loop, block: int) -> Lag | None:
    """Of an operation in a block that does not run in each iteration; None if nothing of this is known."""
    if role.loops(block)[-1:] != (loop,):
        return None
    for number, found in enumerate(role.role.blocks):
        branch = found.terminator
        if role.loops(number)[-1:] != (loop,) or not isinstance(branch, ir.Branch) or not role.once_each_time(number):
            continue
        join = ir.joins(role.role, number)
        if number == loop.header or join is None or block not in join[1]:
            continue
        for outcome, way in ((True, branch.then), (False, branch.otherwise)):
            if block == way and way != join[0]:
                first, always = _first(role, loop, role.role.values.of(branch.condition), outcome)
                return Lag(first, always, (join[0], -1))
    return None


def _first(role: HandOvers, loop: ir.Loop, condition: Term, outcome: bool) -> tuple[int, bool]:
    """The number of the first iteration in which a condition has this outcome, and whether it has it from there on."""
    values = role.role.values
    counter = values.counters.get(loop.statement)
    atom = atom_of(counter) if counter is not None else None
    count = values.counts.get(atom) if atom is not None else None
    if count is None or counter is None or count.start.number is None or count.step < 1 or count.wraps:
        return 0, False
    sign = _sign(condition, outcome)
    if sign is None:
        return 0, False
    short = (sign - counter).number
    # counter + short >= 0
    return (0, False) if short is None else (max(0, -((count.start.number + short) // count.step)), True)


def _sign(condition: Term, outcome: bool) -> Term | None:
    """A term that is not negative if the condition has this outcome, and only then."""
    atom = atom_of(condition)
    if atom is None:
        atom, outcome = atom_of(ONE - condition), not outcome
    if atom is None or atom.operator is not Operator.NONNEGATIVE:
        return None
    (inside,) = operands(atom)
    return inside if outcome else -inside - 1
