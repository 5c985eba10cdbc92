"""Where and with what a figure was measured, and writing it to benchmarks/results."""

import json
import os
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PACKAGES = ("pipec", "llvmlite", "lark", "numpy", "ml_dtypes", "cuda-python", "nvidia-nvjitlink", "nvidia-cuda-nvcc")


def seconds(work: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Median, least and most seconds of `rounds` calls, after one that is not counted."""
    work()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return {"median": statistics.median(times), "least": min(times), "most": max(times), "rounds": rounds}


def instructions(ptx: str) -> int:
    """Instructions in PTX text: statements that are neither directives nor labels, also several on a line (inline asm)."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", ptx, flags=re.DOTALL)
    text = re.sub(r"^\s*\.(?:loc|file|pragma|version|target|address_size)\b[^\n]*", "", text, flags=re.MULTILINE)
    starts = (re.sub(r"^(?:[\s{}]|[\w$]+:)+", "", statement) for statement in text.split(";"))
    return sum(bool(re.match(r"@|[a-z]", start)) for start in starts)


def surroundings() -> dict[str, Any]:
    """Date, machine and versions."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
    }


def write(name: str, figures: dict[str, Any]) -> None:
    """Writes benchmarks/results/NAME.json and prints the figures."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(surroundings() | {"figures": figures}, indent=2) + "\n")
    json.dump(figures, sys.stdout, indent=2)
    print()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
