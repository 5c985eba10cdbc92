"""Loops of a role in which counters go on from what has been computed, and so not from what an undecided proof could tell."""

from collections.abc import Collection, Iterator

from pipec.kir.ir import Kernel, Loop, Role
from pipec.kir.walk import subexpressions
from pipec.sema import tree
from pipec.sema.types import I32


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


def counting_on(kernel: Kernel) -> Loop | None:
    """A `while` in a `for` that gives what it counts no start: it counts on from turn to turn of the one around it, as over the tiles of
    several groups."""
    for role in kernel.roles:
        for loop in role.loops:
            inside = {one.variable for one in _assigned(role, loop.blocks) if _adds(one)} & _asked(loop)
            for around in role.loops:
                given = {one.variable for one in _assigned(role, around.blocks - loop.blocks)}
                if around.variable is not None and loop.blocks < around.blocks and inside - given:
                    return loop
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
