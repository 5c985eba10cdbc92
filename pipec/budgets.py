"""What pipec may spend on any input: one table, whose rows name the limit, what it protects and the remedy if it is exceeded.

A pass whose work may be out of proportion to its input counts it against its row (`Meter`) and stops with `BudgetEnded`, which becomes
the diagnostic of the row. The command line limits total processor time and memory to the last rows (`pipec.commands.guard`), for
anything that the counts miss. docs/limits.md shows this table.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pipec.record import record


@record
class Budget:
    """`limit` is counted in `unit`; `code` is the diagnostic if it is exceeded, `advice` the remedy."""

    name: str
    limit: int
    unit: str
    protects: str
    code: str
    advice: str


def _table(*rows: Budget) -> dict[str, Budget]:
    return {row.name: row for row in rows}


_SHORTER = "name the parts of the expression, one to a line"
_LIKE = "let the loops of both sides have the same bounds, or pass `--allow-undecided`"
_FEWER = "write a loop in place of what is written out or unrolled, or split the kernel"

BUDGETS: Final = _table(
    Budget("line", 20_000, "characters in a line", "the parser's time", "E0109", "break the line"),
    Budget("word", 200, "characters in a name or number", "the names of PTX, which LLVM cuts off", "E0109", "shorten it"),
    Budget("brackets", 60, "nested brackets", "the stack of the recursive passes", "E0109", _SHORTER),
    Budget("indentation", 30, "nested blocks", "the stack of the recursive passes", "E0109", "move inner blocks into an `fn`"),
    Budget(
        "operations", 20_000, "operations of a kernel", "the time and memory of every pass behind the analysis", "E0232", _FEWER
    ),
    Budget(
        "file operations",
        100_000,
        "operations of all kernels of a file",
        "the time and memory of every pass behind the analysis",
        "E0004",
        "put the kernels into several files, or compile one at a time with `--kernel`",
    ),
    Budget(
        "tuned combinations",
        512,
        "combinations of tuned values of a kernel",
        "the time of choosing among them",
        "E0283",
        "list fewer values in `tune`",
    ),
    Budget(
        "protocol steps",
        100_000,
        "steps of the search for a deadlock",
        "the time of the protocol check",
        "E0604",
        _LIKE,
    ),
    Budget(
        "proof steps",
        1_500_000,
        "steps of the search for a proof",
        "the time of the protocol check",
        "E0604",
        _LIKE,
    ),
    Budget(
        "all proof steps",
        3_000_000,
        "steps of the searches for a proof in all readings of a kernel's text",
        "the time of the protocol check",
        "E0604",
        _LIKE,
    ),
    Budget(
        "file proof steps",
        8_000_000,
        "steps of reading, proving and trying all kernels of a file",
        "the time of the protocol check",
        "E0004",
        "put the kernels into several files, or compile one at a time with `--kernel`",
    ),
    # At each loop LLVM queries facts of earlier loops about its bounds: the time is cubic in their number.
    Budget("loops", 300, "loops of a kernel", "the time of LLVM", "E0004", _FEWER),
    Budget(
        "machine code",
        150_000,
        "LLVM instructions of a file",
        "the time and memory of LLVM and of the assembler",
        "E0004",
        "take smaller tiles or more warps to a role, so that each thread has fewer elements, or write fewer operations",
    ),
    Budget(
        "assembly",
        30,
        "seconds of processor time of the assembler",
        "the time of ptxas",
        "E0004",
        "take smaller tiles, or write PTX (`--emit ptx`) and assemble it yourself",
    ),
    Budget(
        "inlined instructions",
        200_000,
        "instructions of a PTX kernel with its calls inlined",
        "the simulator's memory",
        "E0004",
        "simulate a kernel whose functions call each other less often",
    ),
    Budget(
        "simulated steps",
        50_000_000,
        "warp instructions of a simulation",
        "the simulator's time",
        "E1015",
        "take a smaller shape or grid, or raise it with `--steps`",
    ),
    Budget(
        "processor time",
        30,
        "seconds of processor time of a command",
        "the machine, whatever the other budgets miss",
        "E0004",
        "take a smaller kernel, shape or grid, or raise it with `--max-seconds`",
    ),
    Budget(
        "memory",
        2_000,
        "megabytes of memory of a command",
        "the machine, whatever the other budgets miss",
        "E0004",
        "take a smaller kernel, shape or grid, or raise it with `--max-memory`",
    ),
)


class BudgetEnded(Exception):
    """Ends the work that a budget limits. `at` is the source location where it ended, if known."""

    def __init__(self, budget: Budget, at: object = None) -> None:
        super().__init__(f"{budget.name}: more than {budget.limit:,} {budget.unit}")
        self.budget, self.at = budget, at


class Meter:
    """Counts work against a budget."""

    __slots__ = ("budget", "left")

    def __init__(self, name: str) -> None:
        self.budget = BUDGETS[name]
        self.left = self.budget.limit

    def spend(self, count: int = 1, at: object = None) -> None:
        """Raises BudgetEnded if the budget is exceeded."""
        self.left -= count
        if self.left < 0:
            raise BudgetEnded(self.budget, at)

    @contextmanager
    def part(self, name: str) -> Iterator["Meter"]:
        """Counts a part of the work, against a budget of its own and what is left of this one."""
        one = Meter(name)
        if self.left < one.left:
            one.budget, one.left = self.budget, self.left
        left = one.left
        try:
            yield one
        finally:
            self.left -= left - one.left
