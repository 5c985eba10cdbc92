"""What to run in the first hour on a GPU that nobody has run pipec on: a B200. docs/blackwell.md says what each step is for.

    python benchmarks/gpu/first_hour.py                      # all steps, on a B200
    python benchmarks/gpu/first_hour.py --only clusters,m64  # some of them
    python benchmarks/gpu/first_hour.py --arch sm_90a        # a rehearsal on Hopper, with a cluster kernel in place of the pair
    python benchmarks/gpu/first_hour.py --dry                # without a GPU: in the simulator, at small sizes

Each step runs in a process of its own with a time limit, since a kernel that hangs or faults takes its process with it; the next step
starts all the same. The record goes to benchmarks/results/first_hour.json after every step, so that what is known is kept when the
machine is lost. The exit status is 1 when a step failed.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings

ANSWER = "answer: "  # begins the line of a step's process that holds its figures as JSON
Figures = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """`pair`: the example whose CTAs work together, with parameters that make it small."""

    arch: str
    pair: str
    constants: dict[str, object]
    dry: bool

    @staticmethod
    def of(arch: str, dry: bool) -> "Setting":
        if arch == "sm_100a":
            return Setting(arch, "gemm_2cta", {"BN": 64, "STAGES": 2}, dry)
        return Setting(arch, "gemm_sm90_cluster", {"BN": 64, "STAGES": 2, "BLOCKS": 8}, dry)

    @property
    def device(self) -> str:
        return "sim" if self.dry else "cuda"


class StepFailed(Exception):
    """What is wrong, in words; `figures` is what was found until then."""

    def __init__(self, problem: str, figures: Figures | None = None) -> None:
        super().__init__(problem)
        self.figures = figures or {}


def source(name: str) -> str:
    return str(ROOT / "examples" / f"{name}.pipe")


# --- steps --------------------------------


def what_it_is(setting: Setting) -> Figures:
    """The device, and that the driver loads code for it."""
    if setting.dry:
        return {"device": "simulator"}
    from pipec.runtime.gpu.cuda_driver import fitting_device

    found = fitting_device(setting.arch)
    query = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.max.sm,power.limit", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    return {"device": found.name, "arch": found.arch, "multiprocessors": found.multiprocessors, "nvidia-smi": said}


def clusters(setting: Setting) -> Figures:
    """How many clusters of each size fit at the same time, with the shared memory that a GEMM of pairs takes."""
    import pipec
    from pipec.runtime.errors import LaunchError
    from pipec.runtime.gpu.cuda import CudaKernel
    from pipec.runtime.gpu.cuda_driver import fitting_device
    from pipec.runtime.image import Image

    pairs = setting.arch == "sm_100a"
    example = "gemm_2cta_persistent" if pairs else "gemm_sm90_cluster"
    shapes = ((2, 1), (2, 2), (4, 1), (4, 2), (2, 4)) if pairs else ((1, 2), (2, 1), (2, 2), (4, 2))
    found: Figures = {}
    for x, y in shapes[:2] if setting.dry else shapes:
        program = pipec.compile(source(example), arch=setting.arch, constants={"CX": x, "CY": y})
        interface = program[example].interface
        row: Figures = {"shared_bytes": interface.shared_bytes, "threads": interface.threads}
        if not setting.dry:
            device = fitting_device(setting.arch)
            kernel = CudaKernel(interface, Image(program.ptx, None, setting.arch), device.index)
            try:
                row |= {"resident": kernel.resident(), "multiprocessors": device.multiprocessors}
            except LaunchError as error:
                row["refused"] = error.problem
        found[f"{x}x{y}"] = row
    return found


def examples(setting: Setting) -> Figures:
    """Every example against NumPy at the sizes of its docstring, each in processes of its own."""
    found: Figures = {}
    paths = sorted((ROOT / "examples").glob("*.pipe"))
    for path in [path for path in paths if path.stem in ("copy_tma",)] if setting.dry else paths:
        if not compiles(path, setting.arch):
            continue
        command = [sys.executable, "-m", "pipec", "run", str(path), "--arch", setting.arch, "--device", setting.device]
        found[path.stem] = outcome_of([*command, "--max-seconds", "600"], 300) if setting.dry else outcome_of_both(command)
    return judged(found)


def compiles(path: Path, arch: str) -> bool:
    from pipec.driver import Options, compile_source
    from pipec.source import Source

    return not compile_source(Source(path.name, path.read_text(encoding="utf-8")), Options(arch=arch)).failed


def m64(setting: Setting) -> Figures:
    """Accumulators of 64 rows, which stand in tensor memory otherwise than those of 128 (docs/reference/hardware.md)."""
    found: Figures = {}
    cases = [
        ("gemm", {"BM": "64", "BN": "64"}),
        ("gemm_types", {"BM": "64", "BN": "128"}),
        ("gemm_2cta", {"BM": "128", "BN": "64"}),
    ]
    cases += [("gemm_tiles", {"BM": "64", "BN": "64", "BLOCKS": "2"}), ("softmax", {"BM": "64"})]
    if setting.arch != "sm_100a":
        cases = [("gemm_sm90", {"BM": "64", "WARPS": "4"})]
    for name, constants in cases[:1] if setting.dry else cases:
        command = [sys.executable, "-m", "pipec", "run", source(name), "--arch", setting.arch, "--device", setting.device]
        command += [word for key, value in constants.items() for word in ("-D", f"{key}={value}")]
        short = ["--shape", "M=64", "N=64", "K=64"]
        label = " ".join([name, *(f"{key}={value}" for key, value in constants.items())])
        found[label] = outcome_of([*command, *short], 300) if setting.dry else outcome_of_both(command)
    return judged(found)


def graph(setting: Setting) -> Figures:
    """100,000 launches of a small kernel of pairs from a graph, each allowed to start before the one in front has ended (programmatic
    dependent launch): blocks of neighbouring launches ask for tensor memory at the same time. All of them compute the same, so that an
    overlap is no race of results; every replay is compared."""
    import pipec
    from pipec.runtime import LaunchOptions

    kernel = pipec.compile(source(setting.pair), arch=setting.arch, constants=setting.constants)[setting.pair]
    if setting.dry:
        import ml_dtypes
        import numpy as np

        a, b = (np.ones((256, 64), ml_dtypes.bfloat16) for _ in "ab")
        d = np.zeros((256, 256), ml_dtypes.bfloat16)
        kernel(a, b, d, device="sim")
        return {"launches": 1, "right": bool((d == 64).all())}
    import torch

    a, b = (torch.randn(512, 128, device="cuda", dtype=torch.bfloat16) for _ in "ab")
    d = torch.empty(512, 512, device="cuda", dtype=torch.bfloat16)
    kernel(a, b, d)
    torch.cuda.synchronize()
    expected = d.clone()
    torch.testing.assert_close(expected.double(), a.double() @ b.double().T, rtol=1e-2, atol=0.2)
    each, replays = 1000, 100
    graph, options = torch.cuda.CUDAGraph(), LaunchOptions(programmatic=True)
    with torch.cuda.graph(graph):
        for _ in range(each):
            kernel(a, b, d, options=options)
    started = time.perf_counter()
    for number in range(replays):
        d.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        if not torch.equal(d, expected):
            raise StepFailed(f"replay {number} of {replays} computed something else", {"launches": number * each})
    return {"launches": each * replays, "microseconds": (time.perf_counter() - started) / (each * replays) * 1e6, "right": True}


def sanitizers(setting: Setting) -> Figures:
    """memcheck, racecheck, synccheck and initcheck over all examples (benchmarks/gpu/sanitizer.py)."""
    name = f"sanitizer_{setting.arch}"
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu" / "sanitizer.py"), "--arch", setting.arch, "--name", name]
    if setting.dry:
        return {"command": command[1:]}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StepFailed(done.stderr[-1000:])
    rows = json.loads((RESULTS / f"{name}.json").read_text())["figures"]
    bad = {
        f"{kernel} {tool}": row
        for kernel, tools in rows.items()
        for tool, row in tools.items()
        if "output" in row or "failed" in row
    }
    if bad:
        raise StepFailed(f"{len(bad)} runs have findings", {"findings": sorted(bad)})
    return {"runs": sum(map(len, rows.values())), "findings": 0}


def tests(setting: Setting) -> Figures:
    """tests/gpu, which skips what is for another GPU."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu"]
    if setting.dry:
        return {"command": command[1:]}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = done.stdout.strip().splitlines()[-1:]
    if done.returncode:
        raise StepFailed("".join(last), {"output": done.stdout[-4000:].splitlines()})
    return {"summary": "".join(last)}


BUILDS = {"watchdog": ("--watchdog=5",), "plain": ()}


def outcome_of_both(command: Sequence[str]) -> str:
    """Of the build whose waits are bounded, which tells where a hang is, and then of the build that users launch, which is other code:
    with a watchdog, roles that do the same do not share it."""
    for build, options in BUILDS.items():
        outcome = outcome_of([*command, *options], 300)
        if outcome != "fine":
            return f"{build}: {outcome}"
    return "fine"


def outcome_of(command: Sequence[str], limit: int) -> str:
    """ "fine", or the last of what a process said."""
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"no end in {limit} seconds"
    return "fine" if done.returncode == 0 else (done.stderr or done.stdout).strip()[-1500:] or f"exit status {done.returncode}"


def judged(found: Figures) -> Figures:
    bad = [name for name, outcome in found.items() if outcome != "fine"]
    if bad or not found:
        raise StepFailed(f"{len(bad)} of {len(found)} failed: {', '.join(bad)}", found)
    return found


# --- all of them --------------------------------


@dataclass(frozen=True)
class Step:
    run: Callable[[Setting], Figures]
    seconds: int  # limit


STEPS: dict[str, Step] = {
    "device": Step(what_it_is, 120),
    "clusters": Step(clusters, 300),
    "examples": Step(examples, 2400),
    "m64": Step(m64, 900),
    "graph": Step(graph, 600),
    "tests": Step(tests, 1200),
    "sanitizers": Step(sanitizers, 2400),
}


def run_here(name: str, setting: Setting) -> int:
    """What the process of a step does."""
    try:
        answer: Figures = {"figures": STEPS[name].run(setting)}
    except StepFailed as failure:
        answer = {"failed": str(failure), "figures": failure.figures}
    print(ANSWER + json.dumps(answer), flush=True)
    return 1 if "failed" in answer else 0


def run_step(name: str, setting: Setting) -> Figures:
    """In a process of its own: its answer, or how it ended without one."""
    command = [sys.executable, __file__, "--step", name, "--arch", setting.arch, *(["--dry"] if setting.dry else [])]
    started = time.perf_counter()
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=STEPS[name].seconds, check=False)
        row = answer_in(done.stdout)
        if row is None:
            row = {
                "failed": f"it ended with status {done.returncode}",
                "output": (done.stderr or done.stdout)[-3000:].splitlines(),
            }
    except subprocess.TimeoutExpired:
        row = {"failed": f"no end in {STEPS[name].seconds} seconds"}
    return row | {"seconds": round(time.perf_counter() - started, 1)}


def answer_in(output: str) -> Figures | None:
    """Of what a step's process printed."""
    lines = [line for line in output.splitlines() if line.startswith(ANSWER)]
    found: Figures | None = json.loads(lines[-1][len(ANSWER) :]) if lines else None
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--arch", default="sm_100a", choices=("sm_100a", "sm_90a"))
    parser.add_argument("--only", default=",".join(STEPS), help="steps, with commas between")
    parser.add_argument("--dry", action="store_true", help="in the simulator, at small sizes; no record is written")
    parser.add_argument("--step", choices=tuple(STEPS), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    setting = Setting.of(options.arch, options.dry)
    if options.step:
        return run_here(options.step, setting)
    chosen = options.only.split(",")
    if unknown := [name for name in chosen if name not in STEPS]:
        parser.error(f"there is no step {', '.join(unknown)}; there is {', '.join(STEPS)}")
    figures: Figures = {}
    for name in chosen:
        figures[name] = run_step(name, setting)
        print(f"{name:12} {figures[name].get('failed', 'fine')} ({figures[name]['seconds']} s)", flush=True)
        if not setting.dry:
            RESULTS.mkdir(parents=True, exist_ok=True)
            (RESULTS / "first_hour.json").write_text(json.dumps(surroundings() | {"figures": figures}, indent=2) + "\n")
    return 1 if any("failed" in row for row in figures.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
