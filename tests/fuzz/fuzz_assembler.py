"""What the compiler accepts the assembler accepts, too, and no MMAs are made to wait for each other."""

import random

from kernels import kernel

from pipec.diag.message import Sink
from pipec.diag.render import render_text
from pipec.driver import Options, compile_source
from pipec.ptx.assemble import assemble
from pipec.source import Source

MOST_DRAWS = 20  # of which most are accepted


def attempt(draw: random.Random) -> str | None:
    """One accepted kernel; a refusal is drawn again, an internal error is a fault."""
    for _ in range(MOST_DRAWS):
        program = kernel(draw)
        # The proof reads the PTX, of which it changes nothing; it is worth its time for some of them.
        until = "prove" if draw.random() < 0.25 else "emit"
        state = compile_source(Source("fuzz.pipe", program.text), Options(program.arch, program.constants), until)
        if any(one.code == "E0001" for one in state.diagnostics):
            return f"{program}\n{render_text(state.diagnostics)}"
        if state.ptx is None:
            continue
        sink = Sink()
        assembled = assemble(state.ptx, program.arch, sink, tool="ptxas")
        if assembled is None:
            return f"{program}\n{render_text(sink.diagnostics)}"
        return f"{program}\n{assembled.losses}" if assembled.losses else None
    return f"none of {MOST_DRAWS} kernels was accepted"
