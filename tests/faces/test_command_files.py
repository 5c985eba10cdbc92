"""What the command line reads and writes: standard input, files that are replaced, sources that are not, and output for machines."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from faces.kernels import SCALE, WRONG

import pipec
from pipec.commands.cli import main
from pipec.commands.launching.run import Progress
from pipec.commands.options import TIMINGS
from pipec.diag.explain import load_catalogue

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    path = tmp_path / "scale.pipe"
    path.write_text(SCALE, encoding="utf-8")
    return path


@pytest.fixture
def ptx(tmp_path: Path) -> Path:
    path = tmp_path / "scale.ptx"
    path.write_text(pipec.compile(SCALE).ptx, encoding="utf-8")
    return path


def rows(text: str) -> list[dict]:
    return [json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")) for line in text.splitlines()]


# ------------------------------------------------------------------------------------------------------- what is written


@pytest.mark.parametrize("way", ["same", "dotted", "link", "hard link"])
def test_the_source_is_never_written_over(way: str, scale: Path, tmp_path: Path, capsys: Capture) -> None:
    output = {"same": scale, "dotted": tmp_path / "." / "scale.pipe"}.get(way, tmp_path / "other")
    if way == "link":
        output.symlink_to(scale)
    elif way == "hard link":
        os.link(scale, output)
    for arguments in (
        ["compile", str(scale), "-o", str(output)],
        ["run", str(scale), "--device", "sim", "--timeline", str(output)],
    ):
        assert main(arguments) == 1
        assert "it is the file that is read" in capsys.readouterr().err
        assert scale.read_text(encoding="utf-8") == SCALE


@pytest.mark.parametrize("name", ["t.png", "t.txt", "t", "t.html.svg", "x.json/t"])
@pytest.mark.parametrize("command", ["run", "predict", "sim"])
def test_a_timeline_is_a_page_or_json(
    command: str, name: str, scale: Path, ptx: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Its ending says which; another one would get JSON that nothing opens. It is refused before anything runs."""
    monkeypatch.chdir(scale.parent)
    Path("x.json").mkdir()
    file = [str(ptx), "--grid", "1", "--block", "32", "--arg", "a=f32[8]:zeros"] if command == "sim" else [str(scale)]
    assert main([command, *file, "--timeline", name]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error[E1028]") and f"`{name}`" in captured.err and not captured.out
    assert not Path(name).exists()


def test_a_timeline_may_go_to_a_device(scale: Path, tmp_path: Path, capsys: Capture) -> None:
    for name in (os.devnull, str(tmp_path / "T.HTML"), str(tmp_path / "t.Json")):
        assert main(["run", str(scale), "--device", "sim", "--timeline", name]) == 0
    assert (tmp_path / "T.HTML").read_text().startswith("<!doctype html>")
    assert (tmp_path / "t.Json").read_text().startswith("{")
    capsys.readouterr()


def test_neither_is_ptx(ptx: Path, capsys: Capture) -> None:
    before = ptx.read_text(encoding="utf-8")
    launch = ["--grid", "1", "--block", "32", "--arg", "a=f32[8]:zeros"]
    for outputs in (["--save", f"a={ptx}"], ["--timeline", str(ptx)], ["--save", "a=x.npy", "--timeline", "./x.npy"]):
        assert main(["sim", str(ptx), *launch, *outputs]) == 1
        assert "error[E1001]" in capsys.readouterr().err
    assert ptx.read_text(encoding="utf-8") == before and not Path("x.npy").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o444])
def test_a_replaced_file_keeps_its_mode(mode: int, scale: Path, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "out.ptx"
    output.write_text("older")
    output.chmod(mode)
    writable = os.access(output, os.W_OK)
    assert main(["compile", str(scale), "-o", str(output)]) == (0 if writable else 1)
    assert output.stat().st_mode & 0o7777 == mode
    assert (".entry" in output.read_text()) == writable
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.ptx", "scale.pipe"]


def test_a_new_file_follows_the_umask(scale: Path, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert main(["compile", str(scale), "-o", str(tmp_path / "out.ptx")]) == 0
    finally:
        assert os.umask(before) == 0o027
    assert (tmp_path / "out.ptx").stat().st_mode & 0o777 == 0o640


# ---------------------------------------------------------------------------------------------------------- standard input


def given(*arguments: str, text: bytes) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "pipec", *arguments], input=text, capture_output=True, check=False, timeout=60)


def test_standard_input(ptx: Path) -> None:
    run = given("compile", "-", text=SCALE.encode())
    assert run.returncode == 0 and b".entry scale" in run.stdout
    run = given("check", "-", text=WRONG.encode())
    assert run.returncode == 1 and b"--> <stdin>:" in run.stderr
    run = given("check", "-", text=b"\xff\xfe")
    assert run.returncode == 1 and b"error[E0110]" in run.stderr
    run = given("sim", "-", "--shape", "M=16", "N=64", text=ptx.read_bytes())
    assert run.returncode == 0 and b"thread instructions" in run.stdout


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    for stream in (None, io.TextIOWrapper(io.BytesIO())):
        if stream is not None:
            stream.close()
        monkeypatch.setattr(sys, "stdin", stream)
        assert main(["check", "-"]) == 1
        assert "error[E0111]: cannot read `standard input`" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ for machines


def test_rows_of_a_check(scale: Path, capsys: Capture) -> None:
    assert main(["check", str(scale), "--message-format", "json"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert (row["kind"], row["name"], row["arch"], row["threads"]) == ("kernel", "scale", "sm_100a", 160)
    assert row["proofs"] and row["undecided"] == []


def test_rows_of_a_run(scale: Path, capsys: Capture) -> None:
    arguments = ["run", str(scale), "--device", "sim", "--message-format", "json"]
    assert main(arguments) == 0
    kernel, run, comparison = rows(capsys.readouterr().out)
    assert (kernel["kind"], run["kind"], comparison["kind"]) == ("kernel", "run", "comparison")
    assert run["values"] == {"M": 16, "N": 64, "alpha": 2} and run["device"] == "sim" and run["grid"] == [1, 1, 1]
    assert comparison["error"] <= comparison["bound"] and comparison["elements"] == 1024 and comparison["verdict"] == "agrees"
    assert main([*arguments, "--shape", "alpha=nan"]) == 0
    assert rows(capsys.readouterr().out)[1]["values"]["alpha"] == "nan"


def test_rows_of_a_simulation(ptx: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["sim", str(ptx), "--shape", "M=16", "N=64", "--message-format", "json"]) == 0
    assert [row["kind"] for row in rows(capsys.readouterr().out)] == ["run"]
    foreign = tmp_path / "foreign.ptx"
    foreign.write_text(".version 8.8\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) { ret; }\n")
    launch = ["--grid", "1", "--block", "32", "--arg", "a=f32[8]:1.5", "--message-format", "json"]
    assert main(["sim", str(foreign), *launch]) == 0
    run, array = rows(capsys.readouterr().out)
    assert (run["kernel"], array["name"], array["shape"], array["changed"]) == ("k", "a", [8], 0)


def test_rows_of_a_compilation(scale: Path, tmp_path: Path, capsys: Capture) -> None:
    output = str(tmp_path / "out.ptx")
    assert main(["compile", str(scale), "-o", output, "--message-format", "json"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert row == {"kind": "output", "file": output, "form": "ptx", "arch": "sm_100a", "kernels": ["scale"]}


def test_explain_lists_every_code(capsys: Capture) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("race, proxy, ")
    assert [line.split()[0] for line in lines[1:]] == ["proof", *sorted(load_catalogue())]
    assert main(["explain", "--message-format", "json"]) == 0
    assert [row["code"] for row in rows(capsys.readouterr().out) if row["kind"] == "code"] == sorted(load_catalogue())
    assert main(["explain", "e0303", "--message-format", "json"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert row["code"] == "E0303" and row["text"].startswith("E0303: ")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_for_terminals(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    stream = SimpleNamespace(isatty=lambda: terminal, write=written.append, flush=lambda: None)
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("pipec.commands.launching.run._ANSWER_AFTER", -1.0)
    progress = Progress()
    progress(1, 2)
    progress.end()
    assert bool(written) == terminal


def test_checks_have_one_name() -> None:
    from typing import get_args

    from pipec.commands.options import CHECKS, SEVERITIES
    from pipec.sim.findings import CHECKS as SIMULATED
    from pipec.sim.findings import Severity

    assert (CHECKS, SEVERITIES) == (tuple(SIMULATED), get_args(Severity))


def test_timings_have_one_name() -> None:
    from pipec.sim.launch import TIMINGS as SIMULATED

    assert TIMINGS == SIMULATED
