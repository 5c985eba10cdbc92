"""Reductions over the rows of a tile, which the threads of a role have between them."""

from pipec.record import record
from pipec.sema.tree.effects import AllThreads, Effects
from pipec.sema.tree.expressions import Expression
from pipec.sema.tree.operations.operation import Operation
from pipec.sema.tree.symbols import ReducedColumns
from pipec.sema.tree.text import expression_text
from pipec.source import Span
from pipec.vocabulary import RowFunction


@record(eq=False)
class ReduceColumns(Operation):
    """Reduces each column of a tile by `function`. The threads of the role meet, exchange what they have and then read the `result`."""

    function: RowFunction
    operand: Expression
    result: ReducedColumns
    span: Span

    def declared(self) -> Effects:
        otherwise = "the threads that reduce wait for the others for ever, and the rows of those are missing"
        return Effects(AllThreads(f"`column_{self.function}`", otherwise), evaluates=(self.operand,), tile=self.operand)

    def text(self) -> str:
        return f"{self.result.name} = column_{self.function}({expression_text(self.operand)})"
