"""Which threads of a role run a block: thread-dependent values, and what a guard on one of them leaves."""

from collections.abc import Iterable
from typing import assert_never

from pipec.isa.targets import WARP
from pipec.kir.ir import Participation
from pipec.kir.walk import subexpressions
from pipec.sema import tree

_PER_THREAD = frozenset(("lane_id", "role_thread", "role_warp"))


def thread_dependent(expression: tree.Expression, variables: set[tree.Variable]) -> bool:
    """Whether two threads of the role may see different values."""
    for node in subexpressions(expression):
        match node:
            case tree.Special() if node.name in _PER_THREAD:
                return True
            case tree.ReadVariable() if node.variable in variables:
                return True
            case tree.ReadBuffer() | tree.ReadTensor() | tree.ReadAccumulator() | tree.Position():
                return True
            case _:
                pass
    return False


def narrow(
    outer: Participation, condition: tree.Expression, variables: set[tree.Variable]
) -> tuple[Participation, Participation]:
    """Who runs the true and the false side of a branch on `condition` inside a block of `outer`."""
    if outer.threads in ("one", "unknown") or not thread_dependent(condition, variables):
        return outer, outer
    others = Participation("unknown", None, condition.span)
    lanes = _lane_bound(condition)
    if lanes is None:
        return others, others
    if outer.lanes is not None:
        lanes = min(lanes, outer.lanes)
    if lanes >= WARP:
        return outer, others
    return Participation("lanes", lanes, condition.span), others


def _lane_bound(condition: tree.Expression) -> int | None:
    """c when the condition says `lane_id() < c` in one of its spellings."""
    match condition:
        case tree.Binary("<", tree.Special("lane_id"), tree.Constant(bound)):
            return int(bound)
        case tree.Binary("<=", tree.Special("lane_id"), tree.Constant(bound)):
            return int(bound) + 1
        case tree.Binary(">", tree.Constant(bound), tree.Special("lane_id")):
            return int(bound)
        case tree.Binary(">=", tree.Constant(bound), tree.Special("lane_id")):
            return int(bound) + 1
        case tree.Binary("==", tree.Special("lane_id"), tree.Constant(0)):
            return 1
        case _:
            return None


def thread_dependent_variables(body: Iterable[tree.Statement]) -> set[tree.Variable]:
    """Variables that may differ between the threads of a role: assigned from such values, or under a guard on such values."""
    found: set[tree.Variable] = set()
    size = -1
    while size != len(found):
        size = len(found)
        _collect(body, False, found)
    return found


def _collect(body: Iterable[tree.Statement], guarded: bool, found: set[tree.Variable]) -> None:
    for statement in body:
        match statement:
            case tree.Assign():
                if guarded or thread_dependent(statement.value, found):
                    found.add(statement.variable)
            case tree.Peek():
                found.add(statement.ready)  # each thread looks for itself, and may look at another moment
            case tree.If():
                inner = guarded or thread_dependent(statement.condition, found)
                _collect(statement.then, inner, found)
                _collect(statement.otherwise, inner, found)
            case tree.For():
                inner = guarded or thread_dependent(statement.start, found) or thread_dependent(statement.stop, found)
                if inner:
                    found.add(statement.variable)
                _collect(statement.body, inner, found)
            case tree.While():
                _collect(statement.body, guarded or thread_dependent(statement.condition, found), found)
            case tree.Elect():
                _collect(statement.body, True, found)
            case tree.Operation():
                pass
            case _:
                assert_never(statement)
