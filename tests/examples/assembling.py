"""What the assembler must say of PTX that pipec emits."""

from typing import Literal

from pipec.diag.message import Sink
from pipec.ptx.assemble import assemble


def assert_assembles(ptx: str, arch: str, tool: Literal["ptxas", "nvjitlink"]) -> None:
    """Takes it without a warning, and keeps everything in registers."""
    sink = Sink()
    assembled = assemble(ptx, arch, sink, tool=tool)
    assert sink.diagnostics == []
    assert assembled is not None
    assert assembled.warnings == ()
    # nvJitLink ignores register budgets, so that a role that asks for more than an equal share may spill.
    assert tool == "nvjitlink" or assembled.losses == ()
    for kernel in assembled.statistics:
        assert assembled.losses or (not kernel.spills and kernel.stack == 0)
