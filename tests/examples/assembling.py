"""What the assembler must say of PTX that pipec emits."""

from typing import Literal

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble


def assert_assembles(ptx: str, arch: str, tool: Literal["ptxas", "nvjitlink"], spilled: int = 0) -> None:
    """Takes it without a warning, and keeps everything in registers, but for so many bytes of a thread."""
    sink = Sink()
    assembled = assemble(ptx, arch, sink, tool=tool)
    assert sink.diagnostics == []
    assert assembled is not None
    assert assembled.warnings == ()
    # nvJitLink ignores register budgets, so that a role that asks for more than an equal share may spill.
    assert tool == "nvjitlink" or assembled.losses == ()
    for kernel in assembled.statistics:
        # What is spilled once may be loaded in several places.
        assert assembled.losses or max(kernel.spill_stores, kernel.stack) <= spilled and (spilled or not kernel.spill_loads)
