"""Kernels that are typed, but planned, proved and compiled only on first use: of many alternatives few are ever run."""

from functools import cached_property
from typing import TYPE_CHECKING

from pipec.api.program import CompiledKernel, CompileError, Program
from pipec.driver import Compilation, carried_on, compile_source
from pipec.interface import KernelInterface
from pipec.record import record, replace

if TYPE_CHECKING:
    from pipec.tune.choice import Candidate, Choices


@record(eq=False, caches=True)
class Planned:
    """A kernel of a compilation that has been analysed."""

    compilation: Compilation
    name: str

    @property
    def arch(self) -> str:
        return self.compilation.arch

    @cached_property
    def interface(self) -> KernelInterface:
        """Without the conditions of the proof, which has not been made yet. Raises CompileError: takes all checks before the proof."""
        state = self.compilation
        if state.plans is None:
            carried_on(state, after="analyse", until="limits")
        if state.failed:
            raise CompileError(state.diagnostics)
        return next(one.interface for one in state.plans or () if one.interface.name == self.name)

    def choices(self) -> "Choices":
        from pipec.tune.choice import Choices

        return Choices(self.compilation, self.name)

    def of(self, candidate: "Candidate | None") -> CompiledKernel:
        """With these values of its tuned parameters; None: those in the file. Raises CompileError."""
        options = self.compilation.options
        constants = {**options.constants, **(candidate.constants if candidate else {})}
        wanted = replace(options, constants=constants, kernel=self.name)
        state = compile_source(self.compilation.source, wanted, parsed=self.compilation.file)
        if state.failed:
            raise CompileError(state.diagnostics)
        return Program(state)[self.name]
