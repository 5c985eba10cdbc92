"""What to advise where roles are not shown to go round equally often: the same bounds, unless the source has these already."""

from collections.abc import Iterable, Iterator, Sequence

from pipec.kir.ir import Loop, Role
from pipec.kir.plan.roles import operations
from pipec.kir.walk import subexpressions
from pipec.sema import tree

SAME_BOUNDS = "let the loops of both sides have the same bounds"
_MOST_NAMED = 2  # conditions, of which the longest are of no use to anybody
_MOST_TEXT = 60  # characters of a condition


def advice(roles: Sequence[Role], pipelines: Sequence[tree.Pipeline], name: str | None = None) -> str:
    """Of what the roles do with stages of the pipelines; `name`: of the only one."""
    users = [[role for role in roles if one in (*role.produces, *role.consumes)] for one in pipelines]
    names = [f"`{role.name}`" for row in users for role in row] if name is not None else []
    if not all(_have_the_same(row, one) for row, one in zip(users, pipelines, strict=True)):
        if len(names) < 2:
            return SAME_BOUNDS
        return f"let the loops of {_listed(names)} around their stages of `{name}` have the same bounds"
    loops = f"the loops around stages of `{name}` have the same bounds" if name is not None else "the loops have the same bounds"
    guards: dict[str, dict[str, None]] = {}  # the conditions, and the roles that have them
    for role in roles:
        for condition in _guards(role):
            guards.setdefault(condition, {})[f"`{role.name}`"] = None
    if not guards:
        return f"count to numbers that are sizes, parameters or made of them ({loops} already)"
    said = [f"`{condition}` in {_listed([*of])}" for condition, of in [*guards.items()][:_MOST_NAMED]]
    conditions = "the condition" if len(said) == 1 else "the conditions"
    return f"hand stages over without {conditions} {' and '.join(said)} ({loops} already)"


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _have_the_same(roles: Sequence[Role], pipeline: tree.Pipeline) -> bool:
    """Whether the loops of all of them around their stages are written alike."""
    return len({_bounds(role, pipeline) for role in roles}) == 1


def _bounds(role: Role, pipeline: tree.Pipeline) -> frozenset[tuple[frozenset[str], ...]]:
    """For each place where the role hands a stage over: the loops around it, from the outside, each as what its bounds say."""
    found = set()
    for number, block in enumerate(role.blocks):
        if any(_hands_over(one, pipeline) for one in block.operations):
            around = sorted((loop for loop in role.loops if number in loop.blocks), key=lambda loop: -len(loop.blocks))
            found.add(tuple(_said(role, loop) for loop in around))
    return frozenset(found)


def _said(role: Role, loop: Loop) -> frozenset[str]:
    """The text of the bounds, without the name of what is counted, and of the statements that what they read is computed by."""
    statement = loop.statement
    asked = [statement.condition] if isinstance(statement, tree.While) else [statement.start, statement.stop]
    assigned = [one for one in operations(role) if isinstance(one, tree.Assign)]
    variables: set[tree.Variable] = set()
    said = {_one_line(loop.span.text().partition(" in ")[2] or loop.span.text())}
    while asked:
        read = {one.variable for one in subexpressions(asked.pop()) if isinstance(one, tree.ReadVariable)} - variables
        variables |= read
        computing = [one for one in assigned if one.variable in read]
        said |= {_one_line(one.span.text()) for one in computing}
        asked += [one.value for one in computing]
    return frozenset(said)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _hands_over(operation: tree.Operation, pipeline: tree.Pipeline | None = None) -> bool:
    handed = operation.effects.hands_over
    of = handed.pipeline if isinstance(handed, tree.Handle) else handed
    return of is not None and pipeline in (None, of)


def _guards(role: Role) -> Iterator[str]:
    """The conditions of branches in loops that decide whether stages are handed over."""
    for loop in role.loops:
        if loop.parent is None:
            yield from _guards_in(loop.statement.body)


def _guards_in(statements: Iterable[tree.Statement]) -> Iterator[str]:
    for one in statements:
        parts = _parts(one)
        text = _one_line(one.span.text()) if isinstance(one, tree.If) else ""
        if 0 < len(text) <= _MOST_TEXT and any(_decides(part) for part in parts):
            yield text
        for part in parts:
            yield from _guards_in(part)


def _decides(statements: Iterable[tree.Statement]) -> bool:
    """Whether one of them hands a stage over."""
    return any(any(map(_decides, parts)) if (parts := _parts(one)) else _is_hand_over(one) for one in statements)


def _is_hand_over(one: tree.Statement) -> bool:
    return isinstance(one, tree.Operation) and _hands_over(one)


def _parts(one: tree.Statement) -> tuple[tuple[tree.Statement, ...], ...]:
    match one:
        case tree.If():
            return one.then, one.otherwise
        case tree.For() | tree.While() | tree.Elect():
            return (one.body,)
        case _:
            return ()
