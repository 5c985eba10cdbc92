"""A kernel ready to run: its image, and its instructions as closures."""

from __future__ import annotations

from collections.abc import Callable

from pipec.record import field, mutable, record, replace

from ..compiled import forms
from ..compiled.library import available
from ..compiled.runner import BRANCH, Table
from ..ptx.tree import Instruction
from .image import Image
from .threads.cta import Warp
from .threads.divergence import Outcome

Execute = Callable[[Warp], Outcome]


@mutable
class Step:
    """One executable instruction. `guard` is a register slot or -1; branches evaluate their guard themselves. The step behind the last
    instruction ends the kernel and has no `item`. `form`: set if machine code can execute the instruction on these registers, with this
    address `offset`; not if it is `watched`."""

    execute: Execute
    guard: int
    negated: bool
    item: Instruction | None
    form: forms.Form | None = None
    slots: tuple[int, ...] = ()
    offset: int = 0
    watched: bool = False


@record
class Program:
    """`meeting` has, for each step where lanes can diverge, the point where they reconverge (`ptx.flow`)."""

    image: Image
    code: list[Step]
    meeting: list[int]
    table: Table
    touching: Callable[[Instruction], frozenset[int]]  # the registers that an instruction names
    beside: dict[frozenset[int], Table] = field(
        default_factory=dict
    )  # for each set of registers in use by wgmma: a table that avoids them

    def copy(self) -> Program:
        """With steps that the caller may modify; `begin` uses the machine code of those that are not watched then."""
        return replace(self, code=[replace(step) for step in self.code], table=Table(len(self.code)), beside={})

    def begin(self) -> None:
        """Uses the machine code left by kernels that ran before."""
        if self.table.version != forms.version():
            self.use_compiled()

    def compile(self) -> None:
        """Compiles the forms that have run often, and uses the available machine code."""
        for form in {step.form for step in self.code if step.form is not None}:
            if form.runs >= forms.WARM and not form.tried:
                form.compile()
        self.use_compiled()

    def use_compiled(self) -> None:
        offsets, accesses, branches = self.image.layout.offsets, self.image.accesses, self.image.branches
        for index, step in enumerate(self.code):
            form, item = step.form, step.item
            if step.watched:
                continue
            guard = offsets[step.guard] if step.guard >= 0 else -1
            if form is not None and form.function:
                operands = [offsets[step.slots[one]] for one in form.events]
                self.table.fill(index, form.function, guard, step.negated, operands, accesses.get(index, 0), step.offset)
            elif item is not None and item.root == "bra" and available():
                self.table.fill(index, BRANCH, *self._guard(item), [], branches.get(index, -1), self.image.successors[index][0])
        self.table.measure()
        self.table.version = forms.version()
        self.beside.clear()

    def leaving_alone(self, held: frozenset[int]) -> Table:
        """The table without the instructions that touch these registers."""
        found = self.beside.get(held)
        if found is None:
            concerned = (
                index for index, step in enumerate(self.code) if step.item and not held.isdisjoint(self.touching(step.item))
            )
            found = self.beside[held] = self.table.without(concerned)
        return found

    def _guard(self, item: Instruction) -> tuple[int, bool]:
        """The register that decides whether lanes take a branch, and whether they do so where it is false."""
        if item.guard is None:
            return -1, False
        return self.image.layout.offsets[item.guard.register.index], item.guard.negated
