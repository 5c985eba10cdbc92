"""A kernel made ready to run: its image, and its instructions as closures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..compiled import forms
from ..compiled.runner import Table
from ..ptx.tree import Instruction
from .image import Image
from .threads.cta import Warp
from .threads.divergence import Outcome

Execute = Callable[[Warp], Outcome]


@dataclass(slots=True)
class Step:
    """One executable instruction. `guard` is a register slot or -1; branches evaluate their guard themselves. The step
    behind the last instruction ends the kernel and has no `item`. `form`: of an instruction that machine code can execute, on these
    registers."""

    execute: Execute
    guard: int
    negated: bool
    item: Instruction | None
    form: forms.Form | None = None
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    """`meeting` has for each step where lanes that part there meet again (`ptx.flow`)."""

    image: Image
    code: list[Step]
    meeting: list[int]
    table: Table

    def begin(self) -> None:
        """Uses what machine code there is, of kernels that ran before."""
        if self.table.version != forms.version():
            self.use_compiled()

    def compile(self) -> None:
        """Makes machine code of the forms that have run often, and uses what there is."""
        for form in {step.form for step in self.code if step.form is not None}:
            if form.runs >= forms.WARM and not form.tried:
                form.compile()
        self.use_compiled()

    def use_compiled(self) -> None:
        offsets = self.image.layout.offsets
        for index, step in enumerate(self.code):
            form = step.form
            if form is not None and form.function:
                guard = offsets[step.guard] if step.guard >= 0 else -1
                self.table.fill(index, form.function, guard, step.negated, [offsets[step.slots[one]] for one in form.events])
        self.table.measure()
        self.table.version = forms.version()
