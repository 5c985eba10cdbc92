"""`pipec triton FILE.py` and the plugin for pytest: programs from outside, findings in the words of their source."""

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pipec.commands.cli import main

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import sys

import numpy as np
import triton
import triton.language as tl
from pipec.triton import tensor


@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n)MASK)


x = tensor(np.arange(20, dtype=np.int32))
twice[(1,)](x, 20, BLOCK=32, num_warps=1)
print(sys.argv[1:], x.sum())
"""


def program(folder: Path, mask: str) -> str:
    file = folder / "program.py"
    file.write_text(PROGRAM.replace("MASK", mask), encoding="utf-8")
    return str(file)


def test_a_program_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triton", "--timing", "late", program(tmp_path, ", mask=i < n"), "--steps", "3"]) == 0
    assert capsys.readouterr().out == "['--steps', '3'] 380\n"


def test_a_fault_is_reported_at_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = program(tmp_path, "")
    assert main(["triton", file]) == 1
    told = capsys.readouterr().err
    assert told.startswith("error[E1007]: the simulation of kernel `twice` ended in out of bounds")
    assert f"{file}:13:" in told and "2 * tl.load(x + i, mask=i < n))" in told


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["triton", str(tmp_path / "none.py")]) == 1
    assert "error[E" in capsys.readouterr().err


def test_without_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "pipec.triton.driver", None)
    assert main(["triton", program(tmp_path, "")]) == 1
    assert "error[E1026]: no Triton to compile" in capsys.readouterr().err


def test_with_another_triton(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("pipec.triton.version", lambda name: "3.90.0")
    assert main(["triton", program(tmp_path, ", mask=i < n")]) == 1
    assert "Triton 3.9 is needed, and 3.90.0 is here" in capsys.readouterr().err


def test_another_distribution_of_triton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """fbtriton is imported as `triton` and has metadata of its own."""

    def version(name: str) -> str:
        if name != "fbtriton":
            raise PackageNotFoundError(name)
        return release

    monkeypatch.setattr("pipec.triton.version", version)
    release = "3.7.4"
    assert main(["triton", program(tmp_path, ", mask=i < n")]) == 0
    release = "3.8.0"
    assert main(["triton", program(tmp_path, ", mask=i < n")]) == 1
    assert "fbtriton 3.7 is needed, and 3.8.0 is here" in capsys.readouterr().err


TESTS = """
import numpy as np
import pytest
import triton
import triton.language as tl
from pipec.triton import tensor


@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@pytest.mark.parametrize("n", [20, 21])
def test_twice(n):
    x = tensor(np.ones(20, np.int32))
    twice[(1,)](x, n, BLOCK=32, num_warps=1)
    assert (x == 2).all()
"""


def test_the_plugin_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TRITON_DEFAULT_FP_FUSION": "1"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pipec.triton.pytest_plugin",
        "--pipec-arch",
        "sm_90a",
    ]

    def run(*further: str) -> subprocess.CompletedProcess[str]:
        whole = [*command, *further, "test_it.py"]
        return subprocess.run(whole, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False)

    ended = run()
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "1 failed, 1 passed" in ended.stdout and "out_of_bounds" in ended.stdout and "test_it.py:12" in ended.stdout
    refused = run("--pipec-check", "rain=off")
    assert refused.returncode == 4 and "--pipec-check rain=off" in refused.stderr


def test_a_program_that_fails_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "program.py"
    file.write_text("def check(x):\n    assert x > 1, 'too small\\nby far'\n\n\ncheck(1)\n", encoding="utf-8")
    assert main(["triton", str(file)]) == 1
    told = capsys.readouterr().err
    assert "error[E1027]: the program ended: AssertionError: too small" in told
    assert f"{file}:2:5" in told and "line 5, in <module>" in told and "by far" in told and "runpy" not in told
