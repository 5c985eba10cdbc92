"""Order between blocks and between grids: semaphore turns, preceding and dependent grids."""

from pipec.record import record
from pipec.sema.tree.effects import ANY_THREADS, AllThreads, Effects, GlobalAccess, coordinates
from pipec.sema.tree.expressions import Expression, TensorSlice
from pipec.sema.tree.operations.operation import Operation
from pipec.sema.tree.text import expression_text, slice_text
from pipec.source import Span


@record(eq=False)
class AwaitTurn(Operation):
    """Waits until the i32 element `counter` in global memory equals `turn`, of `turns`; writes of blocks with earlier turns are visible
    from here on. All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    turns: Expression
    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not wait: they read and write what another block has not finished"
        return Effects(
            AllThreads("taking a turn", otherwise),
            evaluates=(*self.counter.coordinates, self.turn, self.turns),
            shared=(*coordinates(self.counter), ("a turn", self.turn), ("a turn", self.turns)),
            memory=GlobalAccess(self.counter, "semaphore", writes=False),
        )

    def text(self) -> str:
        return f"await {slice_text(self.counter)} == {expression_text(self.turn)}"


@record(eq=False)
class PassTurn(Operation):
    """Sets the element `counter` to `turn`, after all writes of the role's threads and copies are visible to the waiting block.

    All threads of the role.
    """

    counter: TensorSlice
    turn: Expression
    span: Span

    def declared(self) -> Effects:
        # Derived from the wait of the same `with`, which has been checked for uniformity.
        return Effects(
            ANY_THREADS,
            evaluates=(*self.counter.coordinates, self.turn),
            memory=GlobalAccess(self.counter, "semaphore", writes=True),
        )

    def text(self) -> str:
        return f"pass {slice_text(self.counter)} <- {expression_text(self.turn)}"


@record(eq=False)
class AwaitGrids(Operation):
    """`griddepcontrol.wait`: the preceding grids have ended and their writes are visible. All threads of the role."""

    span: Span

    def declared(self) -> Effects:
        otherwise = "the other threads do not wait: they may read what the preceding grids have not written yet"
        return Effects(AllThreads("`griddepcontrol.wait`", otherwise))

    def text(self) -> str:
        return "griddepcontrol.wait"


@record(eq=False)
class LaunchDependents(Operation):
    """`griddepcontrol.launch_dependents`: dependent grids may start once every block has executed it or exited. Any thread."""

    span: Span

    def declared(self) -> Effects:
        return Effects(ANY_THREADS)

    def text(self) -> str:
        return "griddepcontrol.launch_dependents"
