"""Votes among the threads of a role."""

from pipec.record import record
from pipec.sema.tree.effects import AllThreads, Effects
from pipec.sema.tree.expressions import Expression
from pipec.sema.tree.operations.operation import Operation
from pipec.sema.tree.symbols import Variable
from pipec.sema.tree.text import expression_text
from pipec.sema.types import TileType
from pipec.source import Span
from pipec.vocabulary import VoteKind


@record(eq=False)
class Vote(Operation):
    """Whether `condition`, a one-column tile or a scalar per thread, holds for any or for all rows or threads of the role; all its threads
    get the `result` (bool)."""

    kind: VoteKind
    condition: Expression
    result: Variable
    span: Span

    def declared(self) -> Effects:
        tile = self.condition if isinstance(self.condition.type, TileType) else None
        otherwise = "the threads that vote wait for the others for ever"
        return Effects(AllThreads(f"the vote `{self.kind}`", otherwise), evaluates=(self.condition,), tile=tile)

    def text(self) -> str:
        return f"{self.result.name} = {self.kind} {expression_text(self.condition)}"
