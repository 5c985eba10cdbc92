"""compute-sanitizer over every example that compiles for a target (sm_90a): memcheck, racecheck, synccheck, initcheck.

    python benchmarks/gpu/sanitizer.py [--name sanitizer] [--workers 8] [--only gemm_sm90,softmax] [--arch sm_100a]

Each example runs at the first two shapes of its docstring, with its default parameters, once per tool, in a process of its own. The
result is compared with nothing here (tests/gpu does that): what counts are the tool's findings. `--report-api-errors no` leaves out
cuda-python's probing of driver entry points, which memcheck would count.
"""

import argparse
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import surroundings
from pipec.driver import Options, compile_source
from pipec.reference import apply_given, shape_sets
from pipec.runtime import launch, random_arguments
from pipec.source import Source

ARCH = "sm_90a"  # by default
TOOLS = {
    "memcheck": ["--report-api-errors", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
    "initcheck": [],
}
SECONDS = 240
SHAPES = 2
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")


def compiled(path: Path, arch: str):
    return compile_source(Source(f"examples/{path.name}", path.read_text(encoding="utf-8")), Options(arch=arch))


def examples(only: list[str], arch: str) -> list[Path]:
    """Those that the target can run."""
    found = [path for path in sorted((ROOT / "examples").glob("*.pipe")) if not only or path.stem in only]
    return [path for path in found if compiled(path, arch).ptx is not None]


def run(path: Path, arch: str) -> None:
    """Launches the example's kernels on the GPU; what a child process under the tool does."""
    state = compiled(path, arch)
    for plan in state.plans or []:
        for values in shape_sets(plan.kernel.document)[:SHAPES]:
            numbers = {name: float(value) if "." in value else int(value) for name, value in values.items()}
            arguments = random_arguments(plan.interface, numbers, seed=1)
            apply_given(plan.kernel.document, arguments, {**plan.kernel.constants, **numbers})
            launch(plan.interface, state.ptx or "", arguments, device="cuda")
            print("launched", plan.kernel.name, values, flush=True)


def inspect(tool: str, path: Path, arch: str) -> dict[str, Any]:
    command = ["compute-sanitizer", "--tool", tool, *TOOLS[tool], sys.executable, __file__, "--run", str(path), "--arch", arch]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end in {SECONDS} seconds"}
    text = done.stdout + done.stderr
    findings = [line[len("=========") :].rstrip() for line in text.splitlines() if line.startswith("=========")]
    summary = _SUMMARY.search(text)
    launches = text.count("launched ")
    row: dict[str, Any] = {"summary": summary[1] if summary else None, "launches": launches}
    if summary is None or not summary[1].startswith("0 ") or not launches:
        row["output"] = findings[:60] or text[-2000:].splitlines()
    return row


def version() -> str:
    text = subprocess.run(["compute-sanitizer", "--version"], capture_output=True, text=True, check=False).stdout
    return next((line.strip() for line in text.splitlines() if "ersion" in line), text.strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--name", default="sanitizer")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--only", default="")
    parser.add_argument("--arch", default=ARCH)
    parser.add_argument("--run", type=Path)
    options = parser.parse_args()
    if options.run:
        run(options.run, options.arch)
        return
    jobs = [(tool, path) for path in examples([name for name in options.only.split(",") if name], options.arch) for tool in TOOLS]
    with ThreadPoolExecutor(options.workers) as pool:
        rows = list(pool.map(lambda job: inspect(*job, options.arch), jobs))
    figures: dict[str, dict[str, Any]] = {}
    for (tool, path), row in zip(jobs, rows, strict=True):
        figures.setdefault(path.stem, {})[tool] = row
        print(
            f"{path.stem:24} {tool:10} {row.get('summary') or row.get('failed')} ({row.get('launches', 0)} launches)", flush=True
        )
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    record = surroundings() | {"gpu": gpu, "compute_sanitizer": version(), "options": TOOLS, "figures": figures}
    target = ROOT / "benchmarks" / "results" / f"{options.name}.json"
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
