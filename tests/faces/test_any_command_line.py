"""Nothing that is given to the command line ends in a traceback: any value of any option, any words, any file, any launch interface."""

import json
from functools import cache
from pathlib import Path

import pytest
from faces.kernels import SCALE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import some, volume

import pipec
from pipec.commands.cli import main

Capture = pytest.CaptureFixture[str]


@cache
def scale_ptx() -> str:
    return pipec.compile(SCALE).ptx


_VALUES = [
    "0",
    "-1",
    "1",
    "9" * 5000,
    "0x" + "f" * 15000,
    "1e999",
    "nan",
    "-0.0",
    "\u0663",
    "1_0",
    "\udcff",
    "a\0b",
    "n" * 1100,
    "None",
]
_WORDS = st.sampled_from(
    ["compile", "check", "run", "sim", "explain", "--arch", "sm_90a", "-o", "out", "-D", "BM=16", "--kernel", "scale", "--emit"]
    + ["kir", "--shape", "M=8", "--seed", "-1", "--message-format", "json", "scale.pipe", "E0303", "--version", "-", "--", "-h"]
)
# Each option of each command, with a value that fits nothing.
_OPTIONS = {
    "compile": ["-o={}", "--emit={}", "--arch={}", "-D{}", "-DBM={}", "--kernel={}", "--watchdog={}"],
    "check": ["--arch={}", "-DBM={}", "-DBN={}", "--kernel={}", "--message-format={}"],
    "run": [
        "--shape=M={}",
        "--shape=alpha={}",
        "--seed={}",
        "--steps={}",
        "--timing={}",
        "--timeline={}",
        "--watchdog={}",
        "-DBM={}",
    ],
    "sim": ["--grid={}", "--block={}", "--cluster={}", "--shared={}", "--arg={}", "--arg=i32:{}", "--arg=a=f32[{}]:zeros"]
    + ["--arg=f32:{}", "--arg=a=f32[8]:{}", "--arg=raw({})", "--save=a={}", "--seed={}", "--shape=M={}", "--kernel={}"],
}


@pytest.mark.parametrize(("command", "option"), [(command, option) for command, rows in _OPTIONS.items() for option in rows])
def test_any_value_of_any_option(
    command: str, option: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, scale: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.ptx").write_text(scale_ptx())
    file = ["scale.ptx", "--shape", "M=16", "N=64"] if command == "sim" else [scale]
    for value in some(f"values of {command} {option}", _VALUES, 0.5):
        assert status_of([command, *file, option.format(value), *(["--device=sim"] if command == "run" else [])]) in (0, 1, 2)
        err = capsys.readouterr().err
        assert "Traceback" not in err and "internal error" not in err, err[:500]


def status_of(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as left:
        return left.code


@settings(max_examples=volume(30, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments=st.lists(_WORDS | st.text(max_size=6), max_size=6))
def test_any_arguments(
    arguments: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch, scale: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(arguments) in (0, 1, 2)
    assert "Traceback" not in (err := capsys.readouterr().err) and "internal error" not in err


@settings(max_examples=volume(60, 120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    command=st.sampled_from(["compile", "check", "run", "sim"]),
    data=st.binary(max_size=40) | st.text(max_size=40).map(lambda text: text.encode(errors="surrogatepass")),
    kept=st.integers(0, len(SCALE)),
)
def test_any_file(command: str, data: bytes, kept: int, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "any"
    path.write_bytes(SCALE[:kept].encode() + data)
    assert main([command, str(path)]) in (0, 1)
    assert "Traceback" not in (err := capsys.readouterr().err) and "internal error" not in err


@settings(max_examples=volume(12, 25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_launch_interface(data: st.DataObject, tmp_path: Path, capsys: Capture) -> None:
    """The JSON line that says how a kernel is called, with values of other kinds."""
    ptx = scale_ptx()
    line = next(line for line in ptx.splitlines() if line.startswith("// pipec.kernel "))
    row = json.loads(line.removeprefix("// pipec.kernel "))
    key = data.draw(st.sampled_from(sorted(row)))
    row[key] = data.draw(st.none() | st.integers(-2, 2**40) | st.text(max_size=3) | st.lists(st.integers(0, 3), max_size=3))
    path = tmp_path / "changed.ptx"
    path.write_text(ptx.replace(line, "// pipec.kernel " + json.dumps(row)), encoding="utf-8")
    assert main(["sim", str(path), "--shape", "M=8", "N=8"]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err
