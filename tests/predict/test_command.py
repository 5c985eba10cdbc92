"""Predictions as the command and the method give them, and their timelines."""

import json
import os
import shutil
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from examples.catalogue import Case, compiled
from predict.predictions import LENGTHS_IN_MEMORY, example

import pipec
from pipec.api.files import read_source
from pipec.commands.cli import main
from pipec.commands.launching.timeline_page import trace
from pipec.driver import Options, compile_source
from pipec.predict.explanation import finding
from pipec.predict.launch import prediction
from pipec.source import Source

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
Capture = pytest.CaptureFixture[str]


SIZES: dict[str, dict[str, int]] = {
    "attention": {"H": 4, "KEPT": 4, "SEQUENCES": 1, "S": 1024, "T": 1024},
    "attention_sm90": {"H": 4, "S": 1024, "T": 1024},
    "attention_sm90_decode": {"H": 32, "G": 4, "T": 4096},
    "attention_sm90_window": {"H": 4, "KEPT": 4, "S": 1024, "window": 256},
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.pipe")), ids=lambda path: path.stem)
def test_every_example_has_a_time_or_a_reason(path: Path) -> None:
    state = compiled(Case(path, ()))
    assert state.trees is not None and state.plans is not None
    for kernel in state.trees:
        names = {extent for tensor in kernel.tensors for extent in tensor.shape if isinstance(extent, str)}
        sizes = SIZES.get(path.stem) or {name: 4 if name == "G" else 512 for name in names}
        try:
            found = prediction(state, kernel.name, sizes)
        except pipec.diag.message.Failure as failure:
            (one,) = failure.diagnostics
            assert path.stem in LENGTHS_IN_MEMORY and one.code == "E0291"
            assert f"elements of `{LENGTHS_IN_MEMORY[path.stem]}`" in one.title
        else:
            assert 1e-6 < found.seconds < 1e-2, found
            assert all(0 <= one.start <= one.end for one in found.stretches)


@pytest.mark.parametrize("name", ["gemm_peek", "gemm_direct"])
def test_stages_by_hand_take_as_long_as_scoped_ones(name: str) -> None:
    """Whether a copy's bytes or a release completes a stage is written differently, and is the same work."""
    tile = {"BM": 128, "BN": 128, "BK": 64, "STAGES": 4}
    sizes = {"M": 1024, "N": 1024, "K": 4096}
    state = compile_source(read_source(str(EXAMPLES / f"{name}.pipe")), Options(constants=tile), "plan")
    scoped = example("gemm", tile, **sizes)
    found = prediction(state, name, sizes)
    assert found.seconds >= 0.999 * scoped.seconds  # a throttle may hold the loads back
    if name == "gemm_peek":
        assert found.seconds == pytest.approx(scoped.seconds, rel=0.01)


def test_splits_that_take_turns_wait_for_each_other() -> None:
    """Twice the splits halve the loop, and each adds a turn; splits that do not run at the same time do not wait."""
    sizes = {"M": 256, "N": 256, "K": 8192, "ROWS": 64, "COLUMNS": 64}
    splits = {count: example("gemm_split_k_serial", {"SPLITS": count}, **sizes) for count in (1, 2, 4, 16)}
    assert splits[2].seconds < splits[1].seconds < splits[16].seconds
    turns = {count: found.shares.get("turns (epilogue)", 0.0) * found.cycles for count, found in splits.items()}
    assert (
        turns[1] == 0.0
        and turns[4] == pytest.approx(3 * turns[2], rel=0.01)
        and turns[16] == pytest.approx(15 * turns[2], rel=0.01)
    )
    many = example("gemm_split_k_serial", {"SPLITS": 2}, **(sizes | {"M": 8192, "N": 8192}))
    assert many.shares.get("turns (epilogue)", 0.0) == 0.0


def test_json(capsys: Capture) -> None:
    command = [
        "predict",
        str(EXAMPLES / "gemm.pipe"),
        "--shape",
        "M=4096",
        "N=4096",
        "K=4096",
        "--clock",
        "1.5",
        "--format",
        "json",
    ]
    assert main(command) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert kernel["name"] == "gemm" and kernel["device"] == "B200" and kernel["clock"] == 1.5e9
    assert kernel["seconds"] >= kernel["cycles"] / 1.5e9 and kernel["bound_by"] in kernel["bounds"]
    assert 0 < kernel["tensor_share"] < 1 and kernel["unknown"]


def test_text_and_method_agree(capsys: Capture) -> None:
    assert main(["predict", str(EXAMPLES / "gemm.pipe"), "--shape", "M=4096", "N=4096", "K=4096"]) == 0
    said = capsys.readouterr().out
    found = pipec.compile(EXAMPLES / "gemm.pipe")["gemm"].predict(M=4096, N=4096, K=4096)
    assert f"{found.seconds * 1e6:,.1f} us" in said and finding(found.loops[0]).sentence in said


def test_the_words_are_those_of_the_source(capsys: Capture) -> None:
    """A ring too short names its way and the parameter that mends it; one thread that issues too much is told how often it does."""
    tile = ["-D", "BM=128", "-D", "BN=128", "-D", "BK=32", "-D", "STAGES=2"]
    assert main(["predict", str(EXAMPLES / "gemm.pipe"), *tile, "--shape", "M=128", "N=128", "K=65536"]) == 0
    said = capsys.readouterr().out
    assert "`load` -> `mma` -> `load` over `input`: 2 stages cover" in said and "would do (+" in said and "STAGES=" in said
    assert "would help   STAGES=" in said
    tile = ["-D", "BM=64", "-D", "BN=16", "-D", "BK=128", "-D", "STAGES=8"]
    assert main(["predict", str(EXAMPLES / "gemm.pipe"), *tile, "--shape", "M=64", "N=16", "K=65536"]) == 0
    assert "one thread of `load`: 4 TMA instructions of 56 cycles a stage" in capsys.readouterr().out


def said_of(capsys: Capture, name: str, *shape: str) -> str:
    assert main(["predict", str(EXAMPLES / f"{name}.pipe"), "--shape", *shape]) == 0
    return capsys.readouterr().out


def test_each_kernel_of_a_file_takes_the_sizes_that_it_has(capsys: Capture) -> None:
    first, second = said_of(capsys, "gemm_sm90_split_k_sums", "M=128", "N=256", "K=8192").split("\nround_sums")
    assert "M=128 N=256 K=8192" in first and "M=128 N=256\n" in second and " K=" not in second
    assert main(["predict", str(EXAMPLES / "gemm_sm90_split_k_sums.pipe"), "--shape", "M=128", "N=256", "K=8192", "Q=1"]) == 1
    assert "no dimension `Q` for `add_products`, `round_sums`" in capsys.readouterr().err


def test_values_that_kernels_share_are_said_to_be_shared(capsys: Capture) -> None:
    """Stream-K's second kernel rounds the tiles of the first one: another BM for it alone would round others."""
    _, rounds = said_of(capsys, "gemm_sm90_stream_k", "M=4096", "N=4096", "K=4096").split("\nround_last_wave")
    (helps,) = [line for line in rounds.splitlines() if "would help" in line]
    gains = helps.split("%")[1:]
    assert gains and all(one.startswith((", also in multiply_waves)", ")")) for one in gains)
    assert "BM=" in helps and "also in multiply_waves" in helps
    # Kernels that do not read each other's results do not: they only have parameters of the same names.
    assert "also in" not in said_of(capsys, "rms_norm", "M=4096", "N=1000")


def test_blocks_that_stay_have_tiles_and_others_waves(capsys: Capture) -> None:
    square = "M=4096", "N=4096", "K=4096"
    assert "tiles        3.46 for each block, the last round 46% full" in said_of(capsys, "gemm_2cta_persistent", *square)
    for name in ("gemm", "gemm_clc"):  # with cluster launch control, blocks take over the tiles of others in a row
        assert "waves        3.46, the last one 46% full" in said_of(capsys, name, *square)
    assert "waves        1, less than 1% full" in said_of(capsys, "pointwise", "N=4096")


def test_what_bounds_a_launch_takes_no_longer_than_it(capsys: Capture) -> None:
    assert "bound by     launch (" in said_of(capsys, "pointwise", "N=4096")
    said = said_of(capsys, "gemm_sm90_persistent", "M=4096", "N=4096", "K=4096")
    assert "bound by     power, which lowers the clock from 1.81 GHz (each alone, in us: multiprocessors" in said
    assert ", power " not in said


def test_nothing_is_said_twice(capsys: Capture) -> None:
    attention = said_of(capsys, "attention", "S=4096", "T=4096", "H=32", "KEPT=32", "SEQUENCES=1")
    assert "main loop    `multiply` over `keys` and `values`: " in attention
    for lines in (
        attention.splitlines(),
        said_of(capsys, "seed_pages", "M=512", "N=512", "K=512").split("\noutput_pages")[0].splitlines(),
    ):
        told = [line for line in lines if "assumed" in line or "bound by the" in line]
        assert len(told) == len(set(told)) > 0


def test_what_a_parameter_buys_is_what_its_prediction_says(capsys: Capture) -> None:
    command = [
        "predict",
        str(EXAMPLES / "gemm_2cta_persistent.pipe"),
        "--shape",
        "M=4096",
        "N=4096",
        "K=4096",
        "-D",
        "STAGES=4",
        "--format",
        "json",
    ]
    assert main(command) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    more = next(one for one in kernel["sensitivity"] if (one["parameter"], one["value"]) == ("STAGES", 5))
    assert more["gain"] > 0.05 and kernel["seconds"] / more["seconds"] - 1 == pytest.approx(more["gain"])
    found = example("gemm_2cta_persistent", {"STAGES": 5}, M=4096, N=4096, K=4096)
    assert found.seconds == pytest.approx(more["seconds"])
    assert kernel["within"][0] < kernel["seconds"] < kernel["within"][1]
    assert not any(one["parameter"] == "STAGES" and one["value"] == 9 for one in kernel["sensitivity"])  # more than fit


def test_waves_traffic_and_epilogue() -> None:
    """512 tiles on 148 multiprocessors leave 68 for the last wave; a tile loads its rows and columns once, a multicast serves two."""
    plain, persistent = (example(name, {"BM": 128, "BN": 256}, M=4096, N=4096, K=4096) for name in ("gemm", "gemm_persistent"))
    assert plain.last_wave == pytest.approx(68 / 148, abs=0.01) and persistent.last_wave == pytest.approx(68 / 148, abs=0.01)
    assert plain.l2_bytes == 512 * (128 + 256) * 4096 * 2 + 4096 * 4096 * 2
    assert plain.hidden_epilogue == 0.0 and persistent.hidden_epilogue is not None and persistent.hidden_epilogue > 0.4


def test_a_prediction_takes_at_most_fifty_milliseconds() -> None:
    text = (EXAMPLES / "gemm_2cta_persistent.pipe").read_text(encoding="utf-8")
    state = compile_source(Source("a.pipe", text), Options(), "plan")
    spent = []
    for _ in range(5):
        started = time.process_time()
        prediction(state, "gemm_2cta_persistent", {"M": 8192, "N": 8192, "K": 8192})
        spent.append(time.process_time() - started)
    assert median(spent) < 0.05


def test_a_prediction_is_the_same_in_every_process() -> None:
    """Of dimensions of equal size, always the same one is shortened, whatever order sets have."""
    program = (
        "import pipec, sys; kernel = pipec.compile(sys.argv[1], arch='sm_90a')['multiply_waves']; "
        "print(kernel.predict(M=4096, N=4096, K=4096).seconds)"
    )
    command = [sys.executable, "-c", program, str(EXAMPLES / "gemm_sm90_stream_k.pipe")]
    said = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True).stdout
        for seed in ("0", "1")
    ]
    assert said[0] == said[1] and float(said[0]) > 0


LOADED_BOUND = """
kernel k(n: tensor[i32, 1], x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(t=tile[f32, 64, 64]), stages=2)
    role load(warps=1) produces ring:
        for i in range(load(n[0])):
            with ring.produce() as s:
                tma.load(s.t, x[i * 64, 0])
    role keep(warps=4) consumes ring:
        for i in range(load(n[0])):
            with ring.consume() as s:
                store(y[i * 64, 0], s.t)
"""


def test_what_only_the_gpu_knows_is_no_ground_for_a_time(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "k.pipe"
    file.write_text(LOADED_BOUND)
    assert main(["predict", str(file), "--shape", "M=64", "--allow-undecided"]) == 1
    said = capsys.readouterr().err
    assert "error[E0291]: no time can be predicted for `k`: how often this loop runs follows from elements of `n`" in said
    assert "k.pipe:6:" in said


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--shape", "M=64", "N=64"], "E0289"),
        (["--shape", "M=64", "N=64", "K=0"], "E0289"),
        (["--shape", "M=64", "N=64", "K=64", "X=1"], "E0289"),
        (["--shape", "M=64", "N=64", "K=64", "--device", "h200"], "E0292"),
    ],
)
def test_what_cannot_be_asked(arguments: list[str], code: str, capsys: Capture) -> None:
    assert main(["predict", str(EXAMPLES / "gemm.pipe"), *arguments]) == 1
    assert f"error[{code}]" in capsys.readouterr().err


def test_a_kernel_without_dimensions_takes_no_shape(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "k.pipe"
    file.write_text(
        "kernel k(x: tensor[f32, 64, 32]):\n    grid(1)\n    role all(warps=1):\n        store(x[0, 0], load(x[0, 0], 64, 32) * 2.0)\n"
    )
    assert main(["predict", str(file), "--shape", "Q=1"]) == 1
    assert "help: it has no dimensions: leave out `--shape`" in capsys.readouterr().err


def test_what_sizes_there_are_is_said(capsys: Capture) -> None:
    """In the words of the kernel: its own dimensions in the example, and what a size may be. Numbers that no time depends on are taken as
    `pipec run` takes them."""
    file, sizes = str(EXAMPLES / "attention_sm90.pipe"), ["H=2", "S=256", "T=256"]
    assert main(["predict", file, "--shape", "H=0"]) == 1
    said = capsys.readouterr().err
    assert "sizes are integers from 1 to 2147483647" in said and "`--shape H=4096 S=4096 T=4096`" in said
    assert main(["predict", file, "--shape", *sizes, "scale=0.125"]) == 0
    assert "on an H200 at" in capsys.readouterr().out
    for value in ("nan", "much", "\u0661"):
        assert main(["predict", file, "--shape", *sizes, f"scale={value}"]) == 1
        assert f"`scale={value}` is no number" in capsys.readouterr().err


def test_sizes_that_no_launch_may_have(capsys: Capture) -> None:
    """softmax.pipe assumes that a row fits its threads: a longer one has no time, since a launch of it is refused."""
    assert main(["predict", str(EXAMPLES / "softmax.pipe"), "--kernel", "softmax", "--shape", "M=64", "N=8192"]) == 1
    said = capsys.readouterr().err
    assert "error[E0289]: no launch has N = 8192" in said and "must hold for `softmax`" in said


@pytest.mark.parametrize("clock", ["0", "-1", "nan", "1e3", "99", "1.5.2", "\u0661"])
def test_clocks_that_are_none(clock: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(EXAMPLES / "gemm.pipe"), "--shape", "M=64", f"--clock={clock}"])
    assert ended.value.code == 2
    assert "GHz" in capsys.readouterr().err


# -------------------------------------------------------------------------------------------------------------- timeline


def test_a_timeline_as_json(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "t.json"
    assert main(["predict", str(EXAMPLES / "gemm.pipe"), "--shape", "M=256", "N=256", "K=1024", "--timeline", str(out)]) == 0
    events: list[dict[str, Any]] = json.loads(out.read_text())["traceEvents"]
    assert {"load", "mma", "epilogue", "copies", "products"} <= {event["tid"] for event in events}
    assert any(event["args"]["critical"] for event in events)
    capsys.readouterr()


@pytest.mark.parametrize("name", ["gemm", "gemm_sm90_persistent", "attention_sm90"])
def test_nothing_overlaps_on_a_track(name: str, tmp_path: Path) -> None:
    """Two warpgroups of a role store at different times."""
    sizes = {"M": 512, "N": 8192, "K": 1024} if name.startswith("gemm") else {"S": 384, "T": 1024, "H": 1}
    shown = json.loads(trace([(name, 1e9, example(name, **sizes).stretches)]))["traceEvents"]
    tracks: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in shown:
        tracks.setdefault((one["pid"], one["tid"]), []).append((one["ts"], one["ts"] + one["dur"]))
    for spans in tracks.values():
        spans.sort()
        assert all(end <= start + 1e-5 for (_, end), (start, _) in pairwise(spans))
    assert any("(2)" in track for _, track in tracks) == ("sm90" in name)


# What `.ci/run` installs; elsewhere the test says that it did not run.
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which .ci/run installs")
@pytest.mark.parametrize("command", ["predict", "run"])
def test_a_timeline_as_a_page_that_a_browser_draws(command: str, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "t.html"
    sizes = ["--shape", "M=256", "N=256", "K=256"]
    assert main([command, str(EXAMPLES / "gemm.pipe"), *sizes, "--timeline", str(out)]) == 0
    capsys.readouterr()
    # The page is asked to zoom once, about its middle, and then for what it drew.
    zoomed = out.read_text().replace("</html>", ZOOM + "</html>")
    out.write_text(zoomed)
    assert CHROMIUM is not None
    browser = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    # The first start of a browser takes more than a minute where other processes keep the machine busy.
    done = subprocess.run([*browser, out.as_uri()], capture_output=True, text=True, check=True, timeout=240)
    assert 'data-zoomed="yes"' in done.stdout, done.stdout[-2000:]
    drawn = int(done.stdout.partition('data-drawn="')[2].partition('"')[0])
    assert drawn > 20 and 'data-inked="yes"' in done.stdout


ZOOM = """<script>
const before = document.body.dataset.window.split(" ").map(Number), box = canvas.getBoundingClientRect();
canvas.dispatchEvent(new WheelEvent("wheel", {deltaY: -1, clientX: box.left + 500, clientY: box.top + 40, cancelable: true}));
const after = document.body.dataset.window.split(" ").map(Number);
document.body.dataset.zoomed = after[1] - after[0] < before[1] - before[0] ? "yes" : "no";
document.body.dataset.inked = pen.getImageData(0, 0, canvas.width, canvas.height).data.some(value => value) ? "yes" : "no";
</script>
"""
