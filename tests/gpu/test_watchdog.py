"""On an sm_90a GPU: kernels with a planted fault hang, and the watchdog says what the simulator says.

Each in a process of its own: the trap that ends the kernel takes the context with it.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults import FAULTS, SOURCE, arrays, compiled
from gpu.gpus import needs_gpu

import pipec
from pipec.runtime import HangError

pytestmark = [
    needs_gpu,
    pytest.mark.xdist_group("hangs"),  # one after another: processes that hang on one GPU get in each other's way
]

TESTS = Path(__file__).parents[1]
SECONDS = 0.2
LONGEST = 60  # seconds of a process

HANG = """
import faulthandler, json, sys
faulthandler.dump_traceback_later(SLOW)  # where a process is that does not come back
from faults import FAULTS, arrays, compiled
from pipec.runtime import HangError, LaunchError
name, columns, on_gpu = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "torch"
kernel = compiled(FAULTS[name], "sm_90a", SECONDS)["pass_on"]
given = arrays(columns)
if on_gpu:
    import torch
    given = [torch.from_numpy(array).cuda() for array in given]
told = {}
try:
    kernel(*given, device="cuda")
except HangError as error:
    told = {"text": str(error), "report": error.report, "blocked": list(error.blocked), "cycle": error.cycle, "lost": error.lost}
try:
    kernel(*given, device="cuda")
except LaunchError as error:
    told["again"] = str(error)
print(json.dumps(told), flush=True)
""".replace("SECONDS", str(SECONDS)).replace("SLOW", str(LONGEST - 15))


def ended(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A process that runs the program, when it has ended; where it was, if it does not end."""
    command = [sys.executable, "-c", program, *arguments]
    try:
        return subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False, timeout=LONGEST)
    except subprocess.TimeoutExpired as late:
        return pytest.fail(f"no end after {LONGEST} s: {late.stderr!r}")


def hang(name: str, columns: int = 16, arrays_of: str = "numpy") -> dict:
    """What a process in which the kernel hangs tells of it."""
    done = ended(HANG, name, str(columns), arrays_of)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", FAULTS)
def test_every_blocked_role_is_named_as_in_the_simulator(name: str) -> None:
    told = hang(name)
    with pytest.raises(HangError) as simulated:
        compiled(FAULTS[name], "sm_90a", 1e-4)["pass_on"](*arrays(), device="sim")
    print(told["report"], *(f"{entry['role']} {entry['warp']}: {entry['state']:#010x}" for entry in told["blocked"]), sep="\n")
    assert told["report"] == simulated.value.report
    assert told["cycle"] == simulated.value.cycle
    role, pipeline, side, iteration, line = FAULTS[name].blocked
    (entry, *_) = [entry for entry in told["blocked"] if entry["role"] == role]
    assert (entry["pipeline"], entry["side"], entry["iteration"], entry["line"]) == (pipeline, side, iteration, line)
    assert told["lost"] and "fresh one" in told["text"]
    assert "pass_on" in told["again"]  # the context is lost, and the next launch says so


def test_a_full_gpu_of_blocks() -> None:
    """Two blocks for every multiprocessor, from arrays that are on the GPU: the launch waits and tells."""
    told = hang("missing_arrive", 16 * 264, "torch")
    ctas = {tuple(entry["cta"]) for entry in told["blocked"]}
    assert len(ctas) >= 132 and {entry["role"] for entry in told["blocked"]} == {"load", "compute", "writer"}
    assert "more CTAs blocked at the same places" in told["report"]


def test_the_command_line_prints_it(tmp_path: Path) -> None:
    """`pipec run --watchdog` of a kernel that hangs; it only gets past the checks because they are left out for this once."""
    path = tmp_path / "pass_on.pipe"
    path.write_text(FAULTS["missing_release"].source(SOURCE), encoding="utf-8")
    script = (
        "import sys; from pipec import driver; from pipec.commands import cli\n"
        "options = driver.Options\n"
        "driver.Options = lambda *fields, **named: options(*fields, **named, unchecked=True)\n"
        "raise SystemExit(cli.main(sys.argv[1:]))\n"
    )
    asked = ["run", "--watchdog=0.2", str(path), "--arch", "sm_90a", "--device", "cuda", "--shape", "M=768", "N=16"]
    done = ended(script, *asked)
    assert done.returncode == 1 and "error[E1010]: kernel `pass_on` hangs" in done.stderr, done.stdout + done.stderr
    assert "wait cycle: `compute` waits on empty[0] of `ready`" in done.stderr
    print(done.stderr)


def test_right_kernels_run_as_before() -> None:
    x, y = arrays(64)
    kernel = pipec.compile(SOURCE, arch="sm_90a")["pass_on"]
    assert kernel(x, y, device="cuda", debug="watchdog").device == "cuda:0"
    assert np.array_equal(y, 2 * x)


def test_a_gemm_with_a_watchdog() -> None:
    """Register budgets, many tiles per block: the bounded waits change no bit."""
    from pipec.runtime import random_arguments

    example = TESTS.parent / "examples" / "gemm_sm90_persistent.pipe"
    kernel = pipec.compile(example, arch="sm_90a")["gemm_sm90_persistent"]
    results = []
    for debug in (None, "watchdog"):
        given = random_arguments(kernel.interface, {"M": 2112, "N": 3080, "K": 512}, seed=2)
        kernel(**given, device="cuda", debug=debug)
        results.append(given["d"])
    assert results[0].tobytes() == results[1].tobytes()
