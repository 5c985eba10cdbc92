"""What is known about a stage at a point of a role, and how two such states join (for pipec.checks.stages.linear)."""

from typing import Literal

from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree


@record
class State:
    """What is known about a handle. `held`: "no", "yes", "released", "poisoned".

    `signal`: "no", "part" (some sub-stages), "yes", "mixed" (on one branch). `given` are the signals, `awaited` the waits so far.
    """

    held: Literal["no", "yes", "released", "poisoned"]
    signal: Literal["no", "part", "yes", "mixed"] = "no"
    # An acquire consumes a peek, and a move gives the stage to another name.
    released: tree.Release | tree.Acquire | tree.Move | None = None
    given: tuple[tree.Signal, ...] = ()
    awaited: tuple[tree.Acquire, ...] = ()
    branch: tuple[ir.Branch, bool] | None = None  # for "mixed": the branch, and whether its true side signals

    @property
    def is_held(self) -> bool:
        return self.held == "yes"

    @property
    def signalled(self) -> tree.Signal | None:
        return self.given[-1] if self.given else None

    def signal_of(self, sub_stage: int) -> tree.Signal | None:
        return next((signal for signal in self.given if signal.sub_stage == sub_stage), None)

    def signalled_sub_stages(self) -> set[int]:
        return {signal.sub_stage for signal in self.given}

    def awaited_sub_stages(self) -> set[int]:
        return {acquire.sub_stage for acquire in self.awaited}


FREE = State("no")
# After an error the stage is not checked any further: its consequences are not reported as well.
POISONED = State("poisoned")
States = dict[tree.Handle, State]


def more_signals(yes: State, no: State) -> State:
    return yes if len(yes.given) >= len(no.given) else no
