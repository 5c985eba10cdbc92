"""The command line: statuses, what is written and what is not. That nothing given to it ends in a traceback is test_any_command_line.py."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from faces.kernels import SCALE

import pipec
from pipec.commands.cli import main
from pipec.commands.options import with_watchdog

Capture = pytest.CaptureFixture[str]


def process(*arguments: str, **options: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "pipec", *arguments], capture_output=True, check=False, timeout=60, **{"text": True, **options}
    )


def usage_status(arguments: list[str]) -> object:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    return left.value.code


def names_in(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


# --------------------------------------------------------------------------------------------------------------- statuses


def test_a_process_that_succeeds(scale: str) -> None:
    run = process("compile", scale)
    assert (run.returncode, run.stderr) == (0, "")
    assert ".target sm_100a" in run.stdout and ".entry scale" in run.stdout


def test_a_process_with_diagnostics(wrong: str, tmp_path: Path) -> None:
    run = process("compile", wrong, "-o", str(tmp_path / "out.ptx"))
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.count("error[E") == 2 and "2 errors; for details, run `pipec explain CODE`" in run.stderr
    assert names_in(tmp_path) == {"wrong.pipe"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["compile"],
        ["compile", "x.pipe", "--arch", "sm_1"],
        ["compile", "x.pipe", "--emit", "sass"],
        ["compile", "x.pipe", "-D", "BM"],
        ["compile", "x.pipe", "-D", "1=2"],
        ["run", "x.pipe", "--shape", "M"],
        ["run", "x.pipe", "--device", "abacus"],
        ["run", "x.pipe", "--seed", "many"],
        ["check", "x.pipe", "--message-format", "xml"],
        ["compile", "x.pipe", "-D", "BM=1", "-D", "BM=2"],
        ["run", "x.pipe", "--shape", "M=1", "N=2", "M=3"],
        ["sim", "x.ptx", "--save", "a=1.npy", "--save", "a=2.npy"],
        ["run", "x.pipe", "--seed", "-1"],
        ["run", "x.pipe", "--seed", "9" * 5000],
        ["run", "x.pipe", "--seed", "1_000"],
        ["run", "x.pipe", "--seed", "\u0663"],
        ["run", "x.pipe", "--steps", "9" * 5000],
        ["sim", "x.ptx", "--grid", "9" * 5000],
        ["sim", "x.ptx", "--shared", "-1"],
        ["run", "x.pipe", "--timing", "in-order"],
    ],
)
def test_wrong_usage(arguments: list[str], capsys: Capture) -> None:
    assert usage_status(arguments) == 2
    err = capsys.readouterr().err
    assert "usage: pipec" in err and len(err) < 3000


def test_version(capsys: Capture) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"pipec {pipec.__version__}\nllvmlite ")


@pytest.mark.parametrize("command", ["compile", "check", "run", "sim"])
def test_files_that_cannot_be_read(command: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    for name in (str(tmp_path / "none.pipe"), str(tmp_path), str(tmp_path / "binary"), "a\0b", "", "\udcff"):
        assert main([command, name]) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.startswith("error[E01")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(scale: str, capsys: Capture) -> None:
    os.chmod(scale, 0)
    assert main(["compile", scale]) == 1
    assert "permission denied" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no endless file here")
def test_an_endless_file(capsys: Capture) -> None:
    assert main(["check", "/dev/zero"]) == 1
    assert "larger than" in capsys.readouterr().err


def test_an_empty_file_and_a_mark_in_front(scale: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty.pipe").touch()
    assert main(["check", str(tmp_path / "empty.pipe")]) == 1
    assert "error[E01" in capsys.readouterr().err
    Path(scale).write_text("\ufeff" + SCALE.replace("\n", "\r\n"), encoding="utf-8", newline="")
    assert main(["check", scale]) == 0


# ----------------------------------------------------------------------------------------------------------------- output


@pytest.mark.parametrize(
    ("form", "holds"),
    [
        ("ptx", b".entry scale"),
        ("llvm", b"nvptx64"),
        ("kir", b"ring"),
        ("ast", b"Kernel"),
        ("cubin", b"\x7fELF"),
    ],
)
def test_forms(form: str, holds: bytes, scale: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    output = tmp_path / "out"
    assert main(["compile", scale, "--emit", form, "-o", str(output)]) == 0
    assert holds in output.read_bytes()
    assert names_in(tmp_path) == {"scale.pipe", "out"}
    assert capfdbinary.readouterr().out == b""


@pytest.mark.parametrize("form", ["ptx", "ast"])
def test_standard_output_gets_the_same(form: str, scale: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["compile", scale, "--emit", form, "-o", str(tmp_path / "out")]) == 0
    assert main(["compile", scale, "--emit", form, "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == (tmp_path / "out").read_bytes()


def test_standard_output_may_be_a_string(scale: str) -> None:
    with redirect_stdout(io.StringIO()) as printed:
        assert main(["compile", scale]) == 0
    assert ".entry scale" in printed.getvalue()


def test_an_older_output_stays_when_compiling_fails(wrong: str, tmp_path: Path, capsys: Capture) -> None:
    output = tmp_path / "out.ptx"
    output.write_text("older")
    assert main(["compile", wrong, "-o", str(output)]) == 1
    assert output.read_text() == "older"
    assert names_in(tmp_path) == {"wrong.pipe", "out.ptx"}


def test_output_is_written_through_links_and_to_pipes(scale: str, tmp_path: Path) -> None:
    (tmp_path / "link.ptx").symlink_to(tmp_path / "real.ptx")
    assert main(["compile", scale, "-o", str(tmp_path / "link.ptx")]) == 0
    assert (tmp_path / "link.ptx").is_symlink() and ".entry" in (tmp_path / "real.ptx").read_text()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE) as reader:
        assert main(["compile", scale, "-o", str(pipe)]) == 0
        assert b".entry" in reader.communicate()[0]
    assert pipe.is_fifo(), "a device or pipe is never replaced by a file"


@pytest.mark.parametrize("output", ["", "/", ".", "missing/out.ptx", "scale.pipe/out.ptx", "a\0b"])
def test_output_that_cannot_be_written(
    output: str, scale: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", scale, "-o", output]) == 1
    assert capsys.readouterr().err.startswith("error[E1001]: cannot write")
    assert names_in(tmp_path) == {"scale.pipe"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("command", ["compile", "check"])
def test_standard_output_that_is_full(command: str, scale: str) -> None:
    with open("/dev/full", "wb") as full:
        run = subprocess.run(
            [sys.executable, "-m", "pipec", command, scale], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.returncode == 1
    assert run.stderr.startswith("error[E1001]: cannot write `standard output`") and "Exception" not in run.stderr


def test_a_reader_that_leaves(scale: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = subprocess.run(
        [sys.executable, "-m", "pipec", "compile", scale], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (run.returncode, run.stderr) == (1, "")


def test_without_a_home(scale: str, tmp_path: Path) -> None:
    run = process("check", scale, env={**os.environ, "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"})
    assert (run.returncode, run.stderr) == (0, "")


# ---------------------------------------------------------------------------------------------------------------- options


def test_constants(scale: str, capsys: Capture) -> None:
    assert main(["compile", scale, "--emit", "kir", "-D", "BM=0x20", "-D", "BN=32"]) == 0
    assert "32" in capsys.readouterr().out
    assert main(["check", scale, "-D", "QQ=1"]) == 1
    assert "no kernel has a compile-time parameter `QQ`" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "-16", "0", "9" * 5000, "true", "bf16", "é", "16.5", "\udcff"])
def test_constants_that_do_not_fit(value: str, scale: str, capsys: Capture) -> None:
    assert main(["check", scale, "-D", f"BM={value}"]) == 1
    assert "error[E0" in capsys.readouterr().err


def test_one_kernel_of_several(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "two.pipe"
    path.write_text(SCALE + "\n" + SCALE.replace("kernel scale", "kernel other"))
    assert main(["compile", str(path), "--kernel", "other"]) == 0
    ptx = capsys.readouterr().out
    assert ".entry other" in ptx and ".entry scale" not in ptx
    assert main(["compile", str(path), "--kernel", "third"]) == 1
    assert "`scale`, `other`" in capsys.readouterr().err


def test_targets(scale: str, capsys: Capture) -> None:
    assert main(["compile", scale, "--arch", "sm_90a"]) == 0
    assert ".target sm_90a" in capsys.readouterr().out


def test_messages_as_json(wrong: str, capsys: Capture) -> None:
    assert main(["check", wrong, "--message-format", "json"]) == 1
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [row["labels"][0]["line"] for row in rows] == [10, 16]
    assert all(row["severity"] == "error" and row["labels"][0]["file"] == wrong for row in rows)


def test_check_says_what_was_proved(scale: str, capsys: Capture) -> None:
    assert main(["check", scale]) == 0
    out = capsys.readouterr().out
    assert out.startswith("scale: every check passed for sm_100a\n")
    # Only what the checker has confirmed is called proved.
    assert out.count("  proved  ") == 1 and out.count("  checked ") >= 2 and "checked on the PTX" in out


def test_explain(capsys: Capture) -> None:
    assert main(["explain", "E0303"]) == 0
    assert "E0303" in capsys.readouterr().out
    assert main(["explain", "E9999"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and "E03xx" in captured.err
    assert main(["explain", "race"]) == 0
    assert "two unordered accesses" in capsys.readouterr().out
    assert main(["explain"]) == 0
    assert capsys.readouterr().out.startswith("race, proxy, ")


# ------------------------------------------------------------------------------------------------------------ run and sim


def test_run_shows_proofs_resources_error_and_chart(scale: str, tmp_path: Path, capsys: Capture) -> None:
    timeline = tmp_path / "timeline.json"
    assert main(["run", scale, "--device", "sim", "--timeline", str(timeline)]) == 0
    out = capsys.readouterr().out
    assert "  checked ring: full barriers expect" in out
    assert "bytes of shared memory, 0 of 512 tensor-memory columns" in out
    assert "scale(M=16, N=64, alpha=2) on sim, grid (1, 1, 1)" in out
    assert "y: agrees: largest error 0 against float64 NumPy over 1,024 elements" in out
    assert "ring[0] " in out and "-" in out and "#" in out
    assert json.loads(timeline.read_text())["traceEvents"]


_PLAIN = """\
kernel double(x: tensor[f32, M, 8], y: tensor[f32, M, 8]):
    \'\'\'numpy: y = 2 * x\'\'\'
    grid(M)
    role compute(warps=1):
        store.direct(y[block.x, 0], 2.0 * load(x[block.x, 0], 1, 8))
"""


def test_the_report_of_a_kernel_without_pipelines_does_not_mention_stages(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "double.pipe"
    path.write_text(_PLAIN)
    assert main(["run", str(path), "--device", "sim", "--shape", "M=1"]) == 0
    out = capsys.readouterr().out
    assert "proof of 1 situation checked" in out and "stage" not in out


def test_run_with_shapes(scale: str, capsys: Capture) -> None:
    assert main(["run", scale, "--device", "sim", "--shape", "M=5", "N=8", "--shape", "alpha=-0.5"]) == 0
    assert "scale(M=5, N=8, alpha=-0.5)" in capsys.readouterr().out


_SIZES = ("Q=1", "M=abc", "M=-1", "M=1.5", "M=99999999999", "alpha=x", "M=nan", "M=\u0663", "M=1_6", "M=" + "9" * 5000)


@pytest.mark.parametrize("shape", _SIZES)
def test_run_with_shapes_that_do_not_fit(shape: str, scale: str, capsys: Capture) -> None:
    assert main(["run", scale, "--device", "sim", "--shape", shape]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("error[E1") and "internal" not in captured.err


def test_arrays_that_no_memory_holds(scale: str, capsys: Capture) -> None:
    assert main(["run", scale, "--device", "sim", "--shape", "M=2147483647", "N=2147483644"]) == 1
    assert "do not fit this machine's memory" in capsys.readouterr().err


def test_run_without_shapes(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "plain.pipe"
    path.write_text(SCALE.replace("shapes: M=16, N=64, alpha=2", ""))
    assert main(["run", str(path)]) == 1
    assert "needs a size for `M`, `N`" in capsys.readouterr().err
    assert main(["run", str(path), "--device", "sim", "--shape", "M=8", "N=8"]) == 0


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("y = beta * x", "there is no argument `beta`"),
        ("y = x[", "no Python expression"),
        ("x * 2", "must have the form"),
        ("y = x[:, None]", "shape (16, 1, 64)"),
        ("alpha = 3", "is a scalar"),
        ("z = x", "assigns to no argument"),
        ("y = x @ x", "`@` with 64 columns on the left and 16 rows on the right"),
        ("y = x * 9 ** 9 ** 9 ** 9", ""),
        ("y = alpha.T", "one number"),
        ("y = x @ 3", "no matrix"),
        ("y = clip(x)", "`clip` is called as `clip(x, low, high)`: `low`, `high` are missing"),
        ("y = exp(x, x)", "`exp` is called as `exp(x)`: there are 2 arguments for 1"),
        ("y = sum(x, axis=5)", "no axis 5: the array has 2 dimensions"),
        ("y = x * min(M, 32)", "of two values it is `minimum(a, b)`"),
        ("y = x * sum(x, 1)", "there are 2 arguments for 1, and `axis=` is written out\n"),
        ("y = scaled(x, x, 0)", "`0` is no whole number from 1 to"),
        ("y = block_scale(x, x, 1e12, 1e12)", "no whole number from 1 to"),
        ("y = open(x)", "`open` is not among its functions: abs, arange, argmax, argmin, block_scale, "),
        ("y = x.copy()", "not among the allowed forms"),
        ("y = " + "-" * 5000 + "x", ""),
        ("y = 3 * x", "is wrong"),
    ],
)
def test_references_that_do_not_fit(line: str, says: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "reference.pipe"
    path.write_text(SCALE.replace("numpy: y = alpha * x", f"numpy: {line}"))
    assert main(["run", str(path), "--device", "sim"]) == 1
    err = capsys.readouterr().err
    assert says in err and "internal error" not in err


def test_run_says_when_nothing_was_compared(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "plain.pipe"
    path.write_text(SCALE.replace("numpy: y = alpha * x", ""))
    assert main(["run", str(path), "--device", "sim"]) == 0
    assert "was not compared" in capsys.readouterr().out


def test_sim_runs_what_compile_wrote(scale: str, tmp_path: Path, capsys: Capture) -> None:
    ptx = str(tmp_path / "scale.ptx")
    assert main(["compile", scale, "-o", ptx]) == 0
    assert main(["sim", ptx, "--shape", "M=16", "N=64", "--timing", "late"]) == 0
    assert "thread instructions" in capsys.readouterr().out
    assert main(["sim", ptx]) == 1
    assert "needs a size" in capsys.readouterr().err
    assert main(["sim", ptx, "--kernel", "other"]) == 1
    assert "`scale`" in capsys.readouterr().err


def test_sim_names_what_it_cannot_run(scale: str, tmp_path: Path, capsys: Capture) -> None:
    ptx = tmp_path / "scale.ptx"
    assert main(["compile", scale, "-o", str(ptx)]) == 0
    shape = ["--shape", "M=16", "N=64"]
    ptx.write_text(ptx.read_text().replace("\tret;", "\tfrobnicate.b32 %r1;\n\tret;"))
    assert main(["sim", str(ptx), *shape]) == 1
    assert "frobnicate" in capsys.readouterr().err
    ptx.write_text(".version 8.8\n.target sm_100a\n.visible .entry alone() { ret; }\n")
    assert main(["sim", str(ptx)]) == 1
    assert "`alone`" in capsys.readouterr().err
    assert main(["sim", scale]) == 1
    assert f"pipec compile {scale} -o OUT.ptx" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "means"),
    [
        ("--watchdog k.pipe", "--watchdog=1 k.pipe"),
        ("--watchdog 2 k.pipe", "--watchdog=2 k.pipe"),
        ("k.pipe --watchdog 0.5", "k.pipe --watchdog=0.5"),
        ("k.pipe --watchdog", "k.pipe --watchdog=1"),
        ("--watchdog --watchdog=2 k.pipe", "--watchdog=1 --watchdog=2 k.pipe"),
        ("--watchdog 0 k.pipe", "--watchdog=1 0 k.pipe"),
    ],
)
def test_the_time_limit_is_optional(given: str, means: str) -> None:
    assert with_watchdog(given.split()) == means.split()


def test_sizes_that_commas_separate(scale: str, capsys: Capture) -> None:
    assert main(["run", scale, "--device", "sim", "--shape", "M=5,N=8"]) == 1
    assert "separated by spaces" in capsys.readouterr().err
