"""What each example compiles to: compile time in process, PTX instructions, registers and spills, shared and tensor memory.

    python benchmarks/compiling/examples.py

Compile-time parameters are the examples' own defaults; a file with several kernels is compiled as a whole.
"""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import instructions, seconds, write
from pipec.diag.message import Sink
from pipec.driver import Compilation, Options, compile_source
from pipec.ptx.assemble import assemble
from pipec.source import Source

ROUNDS = 5


def main() -> None:
    paths = sorted((ROOT / "examples").glob("*.pipe"))
    write("examples", {path.stem: figures(path) for path in paths})


def figures(path: Path) -> dict[str, Any]:
    source = Source(f"examples/{path.name}", path.read_text(encoding="utf-8"))
    state = compile_source(source, Options())
    if state.ptx is None:
        raise SystemExit(f"{path.name}: {state.diagnostics[0].title}")
    took = seconds(lambda: compile_source(source, Options()), ROUNDS)
    return {"compile_seconds": took, "instructions": instructions(state.ptx), "kernels": kernels(state)}


def kernels(state: Compilation) -> dict[str, Any]:
    assert state.ptx is not None and state.plans is not None
    sink = Sink()
    done = assemble(state.ptx, state.target.name, sink)
    if done is None:
        raise SystemExit(sink.diagnostics[0].title)
    assembled = {kernel.name: kernel for kernel in done.statistics}
    rows = {}
    for plan in state.plans:
        kernel = assembled[plan.kernel.name]
        rows[plan.kernel.name] = {
            "registers": kernel.registers,
            "spill_bytes": kernel.spill_stores + kernel.spill_loads,
            "shared_bytes": plan.shared_bytes,
            "tensor_columns": plan.allocated_columns,
            "threads": plan.threads,
        }
    return rows


if __name__ == "__main__":
    main()
