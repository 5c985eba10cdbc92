"""The lowering of each operation: functions register themselves with `@lowers(tree.TmaLoad)`; `pipec.lower.role` uses the table."""

from collections.abc import Callable
from typing import Any, TypeVar

from pipec.lower.context import RoleContext
from pipec.sema import tree

Kind = TypeVar("Kind", bound=tree.Operation)
Lowering = Callable[[RoleContext, Kind], None]

LOWERINGS: dict[type[tree.Operation], Callable[[RoleContext, Any], None]] = {}


def lowers(kind: type[Kind]) -> Callable[[Lowering[Kind]], Lowering[Kind]]:
    def note(lowering: Lowering[Kind]) -> Lowering[Kind]:
        assert kind not in LOWERINGS, f"{kind.__name__} is lowered in two places"
        LOWERINGS[kind] = lowering
        return lowering

    return note


def check_complete() -> None:
    """Called once all parts of the lowering are imported: a missing operation is reported here, not in the kernel that uses it."""
    missing = [name for name, kind in tree.OPERATIONS.items() if kind not in LOWERINGS]
    if missing:
        raise ImportError(f"pipec.lower has no function for {', '.join(missing)}: see `lowers` in pipec.lower.table")
