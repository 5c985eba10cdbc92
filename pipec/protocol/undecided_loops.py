"""Loops of a role in which counters go on from what has been computed, and so not from what an undecided proof could tell."""

from collections.abc import Collection, Iterator, Mapping

from pipec.kir.ir import Kernel, Loop, Role
from pipec.kir.walk import subexpressions
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import I32


@record
class CountingOn:
    """A `while` in a `for` that gives what it counts no start. `negative`: what is read, or a difference of it, with which what is counted
    may go back."""

    loop: Loop
    negative: tree.Expression | None


def leaping(kernel: Kernel) -> Loop | None:
    """A `while` whose condition reads a variable that is not added to, but set to something computed in the loop; or of which another
    loop inside counts on: how far a turn of the outer one comes is then computed, too."""
    for role in kernel.roles:
        for loop in role.loops:
            asked = _asked(loop)
            if any(one.variable in asked and not _adds(one) for one in _assigned(role, loop.blocks)):
                return loop
            if any(one is not loop and one.blocks < loop.blocks and asked & _asked(one) for one in role.loops):
                return loop
    return None


def counting_on(kernel: Kernel) -> CountingOn | None:
    """A loop that counts on from turn to turn of the one around it, as over the tiles of several groups."""
    for role in kernel.roles:
        for loop in role.loops:
            inside = {one.variable for one in _assigned(role, loop.blocks) if _adds(one)} & _asked(loop)
            for around in role.loops:
                if around.variable is not None and loop.blocks < around.blocks:
                    given = [*_assigned(role, around.blocks - loop.blocks)]
                    if inside - {one.variable for one in given}:
                        return CountingOn(loop, _going_back(given, _asked(loop)))
    return None


def _assigned(role: Role, blocks: Collection[int]) -> Iterator[tree.Assign]:
    return (one for number in blocks for one in role.blocks[number].operations if isinstance(one, tree.Assign))


def _asked(loop: Loop) -> set[tree.Variable]:
    """The variables that the condition of a `while` reads."""
    if loop.variable is not None or not isinstance(loop.statement, tree.While) or loop.statement.tile is not None:
        return set()
    read = (each for each in subexpressions(loop.statement.condition) if isinstance(each, tree.ReadVariable))
    return {each.variable for each in read if each.variable.type == I32}


def _adds(assigned: tree.Assign) -> bool:
    match assigned.value:
        case tree.Binary(operator="+" | "-", left=tree.ReadVariable(variable=added)):
            return added is assigned.variable
        case _:
            return False


def _going_back(given: Collection[tree.Assign], asked: Collection[tree.Variable]) -> tree.Expression | None:
    """What may be negative of the numbers that are added to a variable of which the loop asks."""
    values = {one.variable: one.value for one in given}
    added = [one.value.right for one in given if one.variable in asked and _adds(one) and isinstance(one.value, tree.Binary)]
    return next((found for each in added if (found := _negative(each, values)) is not None), None)


def _negative(one: tree.Expression, values: Mapping[tree.Variable, tree.Expression]) -> tree.Expression | None:
    """What is read, or a difference, that may be less than 0 if memory says so; None where it is no less, or nothing is read."""
    match one:
        case tree.ReadElement() | tree.Binary(operator="-"):
            return one if any(isinstance(each, tree.ReadElement) for each in subexpressions(one, values)) else None
        case tree.ReadVariable(variable=variable) if variable in values:
            return _negative(values[variable], {other: value for other, value in values.items() if other is not variable})
        case (
            tree.Binary(operator="+" | "*" | "//", left=left, right=right)
            | tree.Call(function="ceildiv", arguments=(left, right))
        ):
            return _negative(left, values) or _negative(right, values)
        case _:
            return None
