"""Numbers of stages that are held: which stage one stands for, and how one is written."""

from collections.abc import Iterator

from pipec.sema import tree
from pipec.sema.context import Context
from pipec.sema.meanings import Meaning
from pipec.sema.scope import Scope


def picked_stage(context: Context, index: Meaning) -> tree.Handle | None:
    """The stage with this number: `s.index()`, `p.producer_stage()`, or a variable that holds one."""
    if isinstance(index, tree.StageIndex):
        return index.handle
    if isinstance(index, tree.ReadVariable) and index.variable in context.stage_numbers:
        context.picked.add(index.variable)
        return context.stage_numbers[index.variable]
    return None


def number_written(context: Context, owner: tree.Pipeline | None) -> str:
    """How a program writes the number of the stage (of `owner`, if any) that it holds here; `s.index()` unless it is one stage."""
    written = {name for name, stage in _reachable(context) if owner is None or stage.pipeline is owner}
    return written.pop() if len(written) == 1 else "s.index()"


def _reachable(context: Context) -> Iterator[tuple[str, tree.Handle]]:
    """The numbers of stages with names of their own, and of those that a wait gives no name, as the program writes them."""
    scope: Scope | None = context.scope
    while scope is not None:
        for name, binding in scope.names.items():
            if isinstance(binding.meaning, tree.Handle) and binding.meaning.form != "token":
                yield f"{name}.index()", binding.meaning
        scope = scope.parent
    for stage in context.current.values():
        if stage.form == "stepped" or stage in context.open_stages:
            yield stage.name, stage
