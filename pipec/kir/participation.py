"""Which threads of a role run a block: the effect of guards that differ between threads."""

from functools import partial

from pipec.isa.targets import WARP
from pipec.kir.ir import Participation
from pipec.kir.values.analysis import Values
from pipec.kir.walk import subexpressions
from pipec.sema import tree
from pipec.source import Span
from pipec.terms.term import Atom, Operator, Term, number
from pipec.terms.walk import Substitution, leaves

_OF_A_LANE = frozenset(("lane_id",))
_OF_A_THREAD = _OF_A_LANE | {"role_thread", "role_warp"}


def restrict(
    outer: Participation, condition: tree.Expression, values: Values, *, differs: bool
) -> tuple[Participation, Participation]:
    """The participation on the true and the false side of a branch on `condition` in a block with participation `outer`; `differs`:
    between threads."""
    # `lane_id() == 32` is false for all threads alike: nobody passes.
    if outer.threads in ("one", "unknown") or not (differs or _asks_for_numbers(condition)):
        return outer, outer
    every = frozenset(range(values.role.warps * WARP))
    around = every if outer.chosen is None else outer.chosen
    passing = _passing(values.of(condition), every)
    if passing is not None:
        yes, no = (_chosen(outer, around, side, condition.span) for side in (around & passing, around - passing))
        return yes, no
    others = unknown(condition.span) if differs else outer
    return others, others


def unknown(guard: Span) -> Participation:
    return Participation("unknown", None, guard)


def _chosen(outer: Participation, around: frozenset[int], side: frozenset[int], guard: Span) -> Participation:
    return outer if side == around else Participation("some", side, guard)


def _asks_for_numbers(condition: tree.Expression) -> bool:
    return any(isinstance(node, tree.Special) and node.name in _OF_A_THREAD for node in subexpressions(condition))


def _passing(condition: Term, every: frozenset[int]) -> frozenset[int] | None:
    """The threads of which the condition is true, if it depends on their numbers alone."""
    asked = list(leaves(condition))
    names = {str(atom.operands[0]) for atom in asked}
    if not names <= _OF_A_THREAD or any(atom.operator is not Operator.SPECIAL for atom in asked):
        return None
    if names <= _OF_A_LANE:
        lanes = {lane for lane in range(WARP) if _holds(condition, lane)}
        return frozenset(thread for thread in every if thread % WARP in lanes)
    return frozenset(thread for thread in every if _holds(condition, thread))


def _holds(condition: Term, thread: int) -> bool:
    return Substitution(partial(_of_thread, thread))(condition).number == 1


def _of_thread(thread: int, atom: Atom) -> Term:
    return number({"lane_id": thread % WARP, "role_warp": thread // WARP, "role_thread": thread}[str(atom.operands[0])])
