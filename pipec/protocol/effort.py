"""The cost limits of a search for a proof, and its cost so far."""

from collections.abc import Callable

from pipec.budgets import BUDGETS
from pipec.protocol.deduction.premises import combined
from pipec.protocol.refuting.refute import tried
from pipec.record import record
from pipec.verify.inequalities import combined as exactly_combined
from pipec.verify.reader.values.surroundings import worked

_PATIENCE = 120_000  # steps, of which nearly all examples need fewer


def steps_so_far() -> int:
    """The steps of all searches of this thread."""
    return int(combined.value + exactly_combined.value)


def work_so_far() -> int:
    """The work of all protocol analysis: reading, searching, checking, sampling sizes."""
    return steps_so_far() + int(tried.value + worked.value)


@record
class Effort:
    """The limits at which a search gives up. They are counts, so that the result does not depend on the machine.

    `visits`: of situations, over all attempts. `combinations`: of inequalities; None: as the budget allows. `runs`: at some sizes.
    """

    situations: int = 1_000
    visits: int = 1_200
    runs: int = 800
    combinations: int | None = None
    cases: int = 8


class Spent:
    """The cost of the search so far. `refuted`: whether there is nothing to prove, which is expensive to find out."""

    def __init__(self, effort: Effort, refuted: Callable[[], bool] = lambda: False) -> None:
        steps = BUDGETS["proof steps"].limit if effort.combinations is None else effort.combinations
        # Steps are relative to those of all earlier searches, as the counters are never reset.
        self.visits, self.until, self.runs = effort.visits, steps_so_far() + steps, effort.runs
        self.most_visits, self.most_runs = effort.visits, effort.runs
        self.pause = self.until, 0, 0
        self.refuted, self.patience = refuted, steps_so_far() + _PATIENCE

    def renew(self) -> None:
        """For other schedules, as many runs and half of the visits at least: where the first ones are stuck at some sizes or other, as they
        are split, what these take may be few steps."""
        self.visits, self.runs = max(self.visits, self.most_visits // 2), max(self.runs, self.most_runs)

    def share(self, percent: int) -> None:
        """Limits the next attempt to a percentage of what remains."""
        now = steps_so_far()
        left = (self.until - now, self.visits, self.runs)
        # An unlimited attempt would leave nothing for later ones that have more situations but are more precise.
        steps, visits, runs = (one * percent // 100 for one in left)
        self.pause = now + steps, self.visits - visits, self.runs - runs

    def visit(self) -> bool:
        self.visits -= 1
        return not self.paused()

    def in_vain(self) -> bool:
        """Whether there is nothing to prove; asked once the search has taken longer than most proofs."""
        return steps_so_far() >= self.patience and self.refuted()

    def paused(self) -> bool:
        """Whether the share is used up."""
        until, visits, runs = self.pause
        return self.visits < visits or self.runs < runs or steps_so_far() >= until

    def out(self) -> bool:
        return self.visits <= 0 or self.runs <= 0 or steps_so_far() >= self.until
