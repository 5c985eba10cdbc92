"""Messages that no source file leads to: what the command line, the Python interface and the simulator are told wrong, by code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faces.kernels import SCALE

import pipec
from pipec import driver
from pipec.commands.cli import main
from pipec.source import Source

_EMPTY = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() {{\n{}\nret;\n}}\n"
_TRAPS = _EMPTY.format("trap;")
_ODD = _EMPTY.format(".reg .b32 %r1;\n.reg .b64 %rd1;\nsuq.width.b32 %r1, [%rd1];")

_COMMANDS = {
    "E0224": ("check", "scale.pipe", "--kernel", "other"),
    "E1002": ("explain", "E9999"),
    "E1003": ("run", "bare.pipe", "--device", "sim"),
    "E1004": ("run", "scale.pipe", "--device", "sim", "--shape", "Q=3"),
    "E1007": ("sim", "traps.ptx", "--grid", "1", "--block", "32"),
    "E1008": ("sim", "empty.ptx", "--grid", "1", "--arg", "i32:1"),
    "E1009": ("sim", "empty.ptx"),
    "E1012": ("sim", "empty.ptx", "--arg", "x=nothing"),
    "E1014": ("sim", "odd.ptx", "--grid", "1", "--block", "32"),
}


@pytest.mark.parametrize("code", _COMMANDS)
def test_command(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    texts = {"scale.pipe": SCALE, "traps.ptx": _TRAPS, "empty.ptx": _EMPTY.format(""), "odd.ptx": _ODD}
    texts["bare.pipe"] = "\n".join(line for line in SCALE.splitlines() if "shapes:" not in line)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main([*_COMMANDS[code], "--message-format", "json"]) == 1
    said = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [row["code"] for row in said if "code" in row] == [code]


def test_a_program_that_nests_too_deeply(monkeypatch: pytest.MonkeyPatch) -> None:
    """E0002. The budgets keep such programs away, so a stage has to be made to fail."""

    def deep(_: driver.Compilation) -> None:
        raise RecursionError

    monkeypatch.setitem(driver.STAGES, list(driver.STAGES)[-1], deep)
    assert [one.code for one in driver.compile_source(Source("scale.pipe", SCALE)).diagnostics] == ["E0002"]


@pytest.mark.parametrize("package", ["lark", "llvmlite", "numpy", "ml_dtypes"])
def test_a_package_that_is_not_installed(package: str, tmp_path: Path) -> None:
    """E0005, from a process that cannot import the package: each is imported where it is first needed."""
    (tmp_path / "scale.pipe").write_text(SCALE, encoding="utf-8")
    command = f"import sys; sys.modules['{package}'] = None; from pipec.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["run", "scale.pipe", "--device", "sim", "--message-format", "json"]
    surroundings = {**os.environ, "PIPEC_CACHE_DIR": ""}
    ended = subprocess.run(
        [sys.executable, "-c", command, *arguments], cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=False
    )
    said = [json.loads(line) for line in ended.stderr.splitlines()]
    assert ended.returncode == 1
    assert [(row["code"], f"`{package}`" in row["title"]) for row in said if "code" in row] == [("E0005", True)]


def test_a_target_that_does_not_exist() -> None:
    with pytest.raises(pipec.CompileError) as error:
        pipec.compile(SCALE, arch="sm_11")
    assert [one.code for one in error.value.diagnostics] == ["E0003"]


def test_an_argument_of_another_type() -> None:
    with pytest.raises(pipec.CompileError) as error:
        pipec.compile(SCALE, constants=3)  # type: ignore[arg-type]
    assert [one.code for one in error.value.diagnostics] == ["E1021"]
