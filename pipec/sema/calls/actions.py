"""What each action of the operation table does to the typed tree: one function per action, in the files of this folder."""

from pipec.diag.catalogue.language import constants as messages
from pipec.sema.calls.copies import COPY_ACTIONS
from pipec.sema.calls.grids import GRID_ACTIONS
from pipec.sema.calls.multiplications import MMA_ACTIONS
from pipec.sema.calls.peeks import PEEK_ACTIONS
from pipec.sema.calls.reductions import REDUCTION_ACTIONS
from pipec.sema.calls.role_pipeline import ROLE_ACTIONS
from pipec.sema.calls.semaphores import semaphore
from pipec.sema.calls.stages import STAGE_ACTIONS
from pipec.sema.calls.stepping import STEPPING_ACTIONS
from pipec.sema.calls.votes import VOTE_ACTIONS
from pipec.sema.context import Context
from pipec.sema.language.operation import OUTSIDE, THREADS, ActionName, Operation
from pipec.sema.language.operations import OPERATIONS
from pipec.sema.meanings import Known, Meaning, Void
from pipec.sema.scope import Scope
from pipec.sema.values.arguments import Action, bind_arguments
from pipec.sema.values.expected import known
from pipec.syntax import ast


def _assert(context: Context, operation: Operation, receiver: Meaning | None, node: ast.Call) -> Meaning:
    bound = bind_arguments(context, node, operation.name, ("condition",), ("text",), signature=operation.signature)
    holds = known(context, bound["condition"], bool, "a static_assert", "a condition")
    text = known(context, bound["text"], str, "the text", "a string") if "text" in bound else "static assertion failed"
    if not holds:
        context.fail(messages.AssertionFailed(text=text, values=_values(context), at=bound["condition"].span))
    return Void()


def _values(context: Context) -> str:
    """The compile-time numbers in scope, for the note of a failed assertion."""
    found: dict[str, object] = {}
    scope: Scope | None = context.scope
    while scope is not None:
        for name, binding in scope.names.items():
            if isinstance(binding.meaning, Known) and binding.span is not None:
                found.setdefault(name, binding.meaning.value)
        scope = scope.parent
    return ", ".join(f"{name} = {found[name]}" for name in sorted(found)) or "none"


ACTIONS: dict[ActionName, Action] = {
    **STAGE_ACTIONS,
    **COPY_ACTIONS,
    **MMA_ACTIONS,
    **GRID_ACTIONS,
    **ROLE_ACTIONS,
    **STEPPING_ACTIONS,
    **PEEK_ACTIONS,
    **VOTE_ACTIONS,
    **REDUCTION_ACTIONS,
    "semaphore": semaphore,
    "assert": _assert,
}

# Actions without a function here: pipec.sema.kernels reads these statements at the start of a kernel.
HEAD = {"grid", "cluster", "assume"}

# Actions that belong in the kernel, outside its roles, and where to move them.
OUTSIDE_ROLES: dict[ActionName, str] = {"init": "next to the declaration", "programmatic": "next to `grid(...)`"}


def _compare_tables() -> None:
    """Fails at import if a row has no action or no threads, or an action has no row."""
    named = {row.action for row in OPERATIONS} - HEAD
    outside = {action for action, caller in THREADS.items() if caller == OUTSIDE} - HEAD
    members = {row.action for row in OPERATIONS if row.receivers != ("",)}
    for problem, names in (
        ("rows of pipec.sema.language.operations without an action", named - set(ACTIONS)),
        ("actions without a row in pipec.sema.language.operations", set(ACTIONS) - named),
        ("actions without an entry in pipec.sema.language.operation.THREADS", members - set(THREADS)),
        ("entries of pipec.sema.language.operation.THREADS without a row", set(THREADS) - named - HEAD),
        (
            "entries of OUTSIDE_ROLES that pipec.sema.language.operation does not put there, or lacks",
            outside ^ set(OUTSIDE_ROLES),
        ),
    ):
        if names:
            raise ImportError(f"{problem}: {', '.join(sorted(names))}")


_compare_tables()
