"""Compile times of four examples: in process and stage by stage; of the GEMM also as a whole process, and Triton's in the same run.
 Times of this process are also given as processor time, which other work on the machine changes less.

    python benchmarks/compiling/compile.py [--triton PYTHON]

Triton needs no GPU for this. It is found in this environment, or named by --triton or TRITON_PYTHON (a Python that has it).
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import instructions, seconds, write
from pipec.diag.message import Sink
from pipec.driver import STAGES, Compilation, Options, compile_source
from pipec.garbage import uncollected
from pipec.protocol.pairs import pairs_of
from pipec.protocol.prove import prove
from pipec.protocol.reporting.explain import sides_of
from pipec.ptx.assemble import assemble, available
from pipec.source import Source
from pipec.verify.checker.check import check
from pipec.verify.reader.read import read

EXAMPLE = ROOT / "examples" / "gemm.pipe"
OTHERS = ("attention", "gemm_2cta_persistent", "attention_sm90")
ROUNDS = 20
# What is to be reached, in processor time, for the reader of the result.
GOALS = {"in_process_seconds": 0.025, "whole_process_seconds": 0.2, "ptx_instructions": 400, "spill_bytes": 0,
         "attention_in_process_seconds": 0.100, "reading_seconds": 0.005, "reading_and_checking_seconds": 0.010}  # fmt: skip


def in_process(source: Source) -> dict[str, Any]:
    """Seconds by the clock and of the processor, ROUNDS compilations."""
    wall = seconds(lambda: compile_source(source), ROUNDS)
    times = [processor(lambda: compile_source(source)) for _ in range(ROUNDS)]
    return wall | {"processor": {"median": statistics.median(times), "least": min(times)}}


def source_of(path: Path) -> Source:
    return Source(path.name, path.read_text(encoding="utf-8"))


def figures_of(source: Source) -> dict[str, Any]:
    return {
        "in_process_seconds": in_process(source),
        "stage_seconds": stage_seconds(source),
        "ptx_instructions": instructions(compiled(source).ptx or ""),
    }


def compiled(source: Source) -> Compilation:
    state = compile_source(source)
    if state.ptx is None:
        raise SystemExit("\n".join(diagnostic.title for diagnostic in state.diagnostics))
    return state


@uncollected()
def stage_seconds(source: Source) -> dict[str, Any]:
    """Median processor seconds of each stage over ROUNDS compilations, and of the parts of the proof."""
    times: dict[str, list[float]] = {name: [] for name in STAGES}
    for _ in range(ROUNDS):
        state = Compilation(source, Options())
        for name, stage in STAGES.items():
            times[name].append(processor(lambda stage=stage, state=state: stage(state)))  # type: ignore[misc]
    return {name: statistics.median(values) for name, values in times.items()} | {"proof": proof_seconds(state)}


def proof_seconds(state: Compilation) -> dict[str, float]:
    """Of the first kernel: reading the network from the PTX, searching for a certificate, checking it."""
    assert state.ptx is not None and state.plans is not None
    ptx, interface = state.ptx, state.plans[0].interface
    network = read(ptx, interface.name)
    pairs = pairs_of(network, sides_of(interface, state.plans[0].left_filled))
    certificate = prove(network, pairs=pairs)
    parts: dict[str, Callable[[], object]] = {
        "read": lambda: read(ptx, interface.name),
        "search": lambda: prove(network, pairs=pairs),
        "check": lambda: check(network, certificate),
    }
    return {name: statistics.median(processor(part) for _ in range(ROUNDS)) for name, part in parts.items()}


def processor(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def whole_process() -> dict[str, Any]:
    """`pipec compile examples/gemm.pipe` from start to exit, files and imports warm: bytecode is cached, as where pip installed it."""
    command = [sys.executable, "-m", "pipec", "compile", str(EXAMPLE), "-o", os.devnull]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def run() -> None:
        subprocess.run(command, check=True, cwd=ROOT, env=environment, capture_output=True)

    run()
    wall, times = seconds(run, 9), []
    for _ in range(9):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return wall | {"processor": {"median": statistics.median(times), "least": min(times)}}


def assembled(ptx: str) -> list[dict[str, Any]]:
    """Registers and spills by each assembler that is there, and how long it took."""
    rows = []
    for tool in available():
        sink = Sink()
        started = time.perf_counter()
        done = assemble(ptx, "sm_100a", sink, tool=tool)
        if done is None:
            raise SystemExit(f"{tool}: {sink.diagnostics[0].title}")
        took = time.perf_counter() - started
        (kernel,) = done.statistics
        spills = kernel.spill_stores + kernel.spill_loads
        rows.append({"assembler": done.assembler, "seconds": took, "registers": kernel.registers, "spill_bytes": spills})
        rows[-1]["stack_bytes"] = kernel.stack
    return rows


def triton(python: str | None) -> dict[str, Any]:
    """The same tile compiled by Triton in a process of its own, or why not."""
    python = python or os.environ.get("TRITON_PYTHON") or (sys.executable if find_spec("triton") else None)
    if python is None:
        return {"skipped": "triton is not installed; name a Python that has it with --triton"}
    command = [python, str(ROOT / "benchmarks" / "compiling" / "triton_gemm.py"), "5"]
    run = subprocess.run(command, check=False, capture_output=True, text=True)
    return json.loads(run.stdout) if run.returncode == 0 else {"failed": run.stderr.strip().splitlines()[-1]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triton", metavar="PYTHON", help="a Python in which Triton is installed")
    options = parser.parse_args()
    source = source_of(EXAMPLE)
    ptx = compiled(source).ptx or ""
    figures = {
        "goals": GOALS,
        "in_process_seconds": in_process(source),
        "stage_seconds": stage_seconds(source),
        "whole_process_seconds": whole_process(),
        "ptx_instructions": instructions(ptx),
        "assembled": assembled(ptx),
        **{name: figures_of(source_of(ROOT / "examples" / f"{name}.pipe")) for name in OTHERS},
        "triton": triton(options.triton),
    }
    write("compile", figures)


if __name__ == "__main__":
    main()
