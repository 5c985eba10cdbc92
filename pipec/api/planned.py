"""Kernels that are planned, and proved and compiled when they are first to run: a choice among many runs few of them."""

from typing import TYPE_CHECKING

from pipec.api.program import CompiledKernel, CompileError, Program
from pipec.driver import Compilation, compile_source
from pipec.interface import KernelInterface
from pipec.record import record, replace

if TYPE_CHECKING:
    from pipec.tune.choice import Candidate, Choices


@record(eq=False)
class Planned:
    """A kernel of a compilation that has passed the checks of its limits."""

    compilation: Compilation
    name: str

    @property
    def arch(self) -> str:
        return self.compilation.arch

    @property
    def interface(self) -> KernelInterface:
        """Without the conditions of a proof, which is still to come."""
        return next(one.interface for one in self.compilation.plans or () if one.interface.name == self.name)

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
