"""What a search for a proof may cost, and what it has cost so far."""

from pipec.budgets import BUDGETS
from pipec.protocol.premises import combined
from pipec.protocol.refute import tried
from pipec.record import record
from pipec.verify.inequalities import combined as exactly_combined
from pipec.verify.reader.values.surroundings import worked


def steps_so_far() -> int:
    """Of all searches of this process."""
    return combined[0] + exactly_combined[0]


def work_so_far() -> int:
    """Of all that is done to judge protocols: reading, searching, checking, trying sizes."""
    return steps_so_far() + tried[0] + worked[0]


@record
class Effort:
    """What a search may cost before it is given up. Counts, so that the answer does not depend on the machine.

    `visits`: of situations, in all attempts together. `combinations`: of inequalities; None: what the budget allows. `runs`: at some sizes.
    """

    situations: int = 400
    visits: int = 1_200
    runs: int = 800
    combinations: int | None = None
    cases: int = 8


class Spent:
    """What the search has cost so far."""

    def __init__(self, effort: Effort) -> None:
        steps = BUDGETS["proof steps"].limit if effort.combinations is None else effort.combinations
        # Steps are counted from what all searches have cost before, as the counters are never set back.
        self.visits, self.until, self.runs = effort.visits, steps_so_far() + steps, effort.runs
        self.pause = self.until, 0, 0

    def share(self, percent: int) -> None:
        """The next attempt may cost so much of what is left."""
        now = steps_so_far()
        left = (self.until - now, self.visits, self.runs)
        # An attempt that is not cut short would leave nothing for those that make more situations but see more.
        steps, visits, runs = (one * percent // 100 for one in left)
        self.pause = now + steps, self.visits - visits, self.runs - runs

    def visit(self) -> bool:
        self.visits -= 1
        return not self.paused()

    def paused(self) -> bool:
        """Whether the share is used up."""
        until, visits, runs = self.pause
        return self.visits < visits or self.runs < runs or steps_so_far() >= until

    def out(self) -> bool:
        return self.visits <= 0 or self.runs <= 0 or steps_so_far() >= self.until
