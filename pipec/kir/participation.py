"""Which threads of a role run a block: the effect of guards that differ between threads."""

from pipec.isa.targets import WARP
from pipec.kir.ir import Participation
from pipec.sema import tree


def restrict(outer: Participation, condition: tree.Expression, *, differs: bool) -> tuple[Participation, Participation]:
    """The participation on the true and the false side of a branch on `condition` in a block with participation `outer`; `differs`:
    between threads."""
    lanes = _lane_bound(condition)
    if outer.threads in ("one", "unknown") or (lanes is None and not differs):
        return outer, outer
    others = Participation("unknown", None, condition.span)
    if lanes is None:
        return others, others
    if outer.lanes is not None:
        lanes = min(lanes, outer.lanes)
    if lanes >= WARP:
        return outer, others
    return Participation("lanes", lanes, condition.span), others


def _lane_bound(condition: tree.Expression) -> int | None:
    """c if the condition is a spelling of `lane_id() < c`."""
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
