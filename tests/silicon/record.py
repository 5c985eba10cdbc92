"""Records what the GPU of this machine computes for every program.

    cd tests && PYTHONPATH=.. python -m silicon.record FOLDER [PATTERN]

A kernel that faults or hangs poisons its process, so programs run in child processes; one that ends badly is noted and the
next child goes on behind it.
"""

import json
import platform
import select
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from silicon import recorded
from silicon.catalogue import programs
from silicon.program import Program

from pipec.ptx.assemble import available

SECONDS = 10  # for one program; without a limit a wrong byte count would hang for ever
PACKAGES = ("numpy", "ml_dtypes", "cuda-python", "cuda-bindings")


def record(folder: Path, pattern: str = "") -> None:
    wanted = [program for program in programs() if pattern in program.name]
    found: dict[str, tuple[str, np.ndarray]] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as scratch:
        remaining = wanted
        try:
            while remaining:
                remaining = _batch(remaining, Path(scratch), found, failed)
        except KeyboardInterrupt:
            failed |= {program.name: "not reached" for program in remaining if program.name not in found}
    recorded.write(folder, _surroundings(), found, failed)
    print(f"{len(found)} programs recorded, {len(failed)} failed")
    for name, reason in failed.items():
        print(f"  {name}: {reason}")


def _batch(wanted: list[Program], scratch: Path, found: dict, failed: dict) -> list[Program]:
    """One child; the programs that are left."""
    names = [program.name for program in wanted]
    # Unbuffered, so that `select` sees every line that is still to be read.
    child = subprocess.Popen(
        [sys.executable, "-m", "silicon.record", "--child", str(scratch), json.dumps(names)], stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdout is not None
    done = 0
    reason = "the process ended"
    while done < len(wanted):
        ready, _, _ = select.select([child.stdout], [], [], SECONDS if done else 3 * SECONDS)
        if not ready:
            reason = f"no result in {SECONDS} seconds"
            break
        line = child.stdout.readline().decode()
        if not line:
            break
        kind, _, text = line.strip().partition(" ")
        if kind == "error":
            reason = text
            break
        program = wanted[done]
        found[program.name] = (program.digest, np.load(scratch / f"{program.name}.npy"))
        done += 1
    child.kill()
    child.wait()
    if done < len(wanted):
        failed[wanted[done].name] = reason
        return wanted[done + 1 :]
    return []


def _child(scratch: Path, names: list[str]) -> None:
    from silicon.run import Gpu, assembled

    gpu, by_name = Gpu(), {program.name: program for program in programs()}
    for name in names:
        try:
            np.save(scratch / f"{name}.npy", gpu.run(by_name[name], assembled(by_name[name])))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with one program is noted
            print("error", " ".join(str(error).split())[:300], flush=True)
            raise SystemExit(1) from None
        print("done", name, flush=True)


def _surroundings() -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": _query("name"),
        "driver": _query("driver_version"),
        "assembler": available(),
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
    }


def _query(what: str) -> str:
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader", "--id=0"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        _child(Path(sys.argv[2]), json.loads(sys.argv[3]))
    else:
        Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
        record(Path(sys.argv[1]), *sys.argv[2:])
