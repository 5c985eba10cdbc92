"""What an undecided protocol has to do with the data that roles vote on: loops that may not end, stages that are handed over or not."""

from collections.abc import Iterator

from pipec.diag.catalogue.stages import protocol as messages
from pipec.diag.message import Message
from pipec.kir.ir import Kernel, Role
from pipec.kir.plan.roles import operations
from pipec.kir.statements import inside, statements
from pipec.kir.walk import subexpressions
from pipec.sema import tree

_END_AFTER_SO_MANY = (
    "let it end after so many turns at most, `while turns < 100 and {vote}:`, with `turns = 0` before it and `turns += 1` in it"
)
_HAND_OVER_ALWAYS = (
    "hand over as many stages whatever `{vote}` says, as by a `for` whose bounds are known, "
    "and let it decide what is done with them"
)


def by_votes(kernel: Kernel, *, ends: bool) -> Message | None:
    """About the first statement that a vote decides, if it hands stages over, or if that is what may not end (`ends`: something else is
    not decided)."""
    for role in kernel.roles:
        for statement, vote in _decided(role):
            handed = any(
                isinstance(one, tree.Operation) and one.effects.hands_over is not None for one in statements(inside(statement))
            )
            if not handed and (ends or isinstance(statement, tree.If)):
                continue
            why = "this depends on the data, and so does how many stages are handed over"
            if not handed:
                why = f"this depends on the data, and it is not shown that role `{role.name}` ever gets past it"
            advice = (_HAND_OVER_ALWAYS if handed else _END_AFTER_SO_MANY).format(vote=vote.span.text())
            return messages.NotDecided(kernel=kernel.name, tried="", why=why, advice=advice, at=vote.span)
    return None


def _decided(role: Role) -> Iterator[tuple[tree.If | tree.While, tree.Vote]]:
    """The branches and loops whose condition a vote has a part in."""
    votes: dict[tree.Variable, tree.Vote] = {one.result: one for one in operations(role) if isinstance(one, tree.Vote)}
    for one in operations(role) if votes else ():
        if isinstance(one, tree.Assign) and (vote := _read(one.value, votes)) is not None:
            votes.setdefault(one.variable, vote)
    for statement in statements(role.values.role.body) if votes else ():
        if isinstance(statement, tree.If | tree.While) and (vote := _read(statement.condition, votes)) is not None:
            yield statement, vote


def _read(expression: tree.Expression, votes: dict[tree.Variable, tree.Vote]) -> tree.Vote | None:
    read = (one.variable for one in subexpressions(expression) if isinstance(one, tree.ReadVariable))
    return next((votes[variable] for variable in read if variable in votes), None)
