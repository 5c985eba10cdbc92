"""Traversal of the statements of a role."""

from collections.abc import Iterable, Iterator

from pipec.sema import tree


def statements(body: Iterable[tree.Statement]) -> Iterator[tree.Statement]:
    """All statements at any depth, in preorder."""
    for statement in body:
        yield statement
        yield from statements(inside(statement))


def inside(statement: tree.Statement) -> tuple[tree.Statement, ...]:
    match statement:
        case tree.If():
            return *statement.then, *statement.otherwise
        case tree.For() | tree.While() | tree.Elect():
            return statement.body
        case _:
            return ()
