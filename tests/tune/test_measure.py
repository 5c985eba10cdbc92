"""Tuning with a pretended device, and what a call takes afterwards."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_choice import choices
from test_rounds import FakeGpu

import pipec
from pipec.commands.cli import main
from pipec.diag.catalogue.commands.run import CannotWrite
from pipec.diag.message import Failure
from pipec.tune.choice import Candidate, Choices
from pipec.tune.measure import NothingRuns, Outcome, best
from pipec.tune.store import table_path
from pipec.tune.table import parsed, rendered
from pipec.tune.tuned import Chosen, Gpu, Tuned

KERNEL = """
kernel scale[BM: int = 64, BN: int = 64, STAGES: int = 2](x: tensor[f32, M, N], y: tensor[f32, M, N]):
    \"\"\"Twice as much.

    arch: sm_90a
    numpy: y = 2 * x
    \"\"\"
    tune BM in (32, 64, 128), BN in (32, 64, 2048)
    grid(ceildiv(M, BM), ceildiv(N, BN))
    ring = InputTilePipeline(TilePayload(x=tile[f32, BM, BN]), stages=STAGES)

    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * BM, block.y * BN])

    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * BM, block.y * BN], 2 * s.x)
"""
SIZES = {"M": 512, "N": 512}
H200 = Gpu("pretended H200", 132)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir(mode=0o700)
    monkeypatch.setenv("PIPEC_CACHE_DIR", str(tmp_path / "cache"))


class FakeBench:
    """Implements Bench; `times` by a candidate's text, others take 9 microseconds. `broken` cannot run."""

    device, multiprocessors = H200.name, H200.multiprocessors

    def __init__(self, times: dict[str, float], broken: Sequence[str] = ()) -> None:
        self.times, self.broken = times, broken
        self.prepared: list[str] = []

    def prepare(self, candidate: Candidate) -> str | None:
        if str(candidate) in self.broken:
            return "LaunchError: pretended"
        self.prepared.append(str(candidate))
        return None

    def clock(self) -> FakeGpu:
        self.gpu = FakeGpu({name: self.times.get(name, 9e-6) for name in self.prepared}, drift=0.003, noise=0.002)
        return self.gpu


@pytest.fixture
def scale() -> Choices:
    return choices(KERNEL)


def test_the_fastest_is_found_and_said_by_how_much(scale: Choices) -> None:
    bench = FakeBench({"BM=128 BN=32": 5e-6, "BM=64 BN=64": 6e-6})
    outcome = best(scale, SIZES, bench)
    assert str(outcome.winner) == "BM=128 BN=32" and str(outcome.file) == "BM=64 BN=64"
    assert outcome.ratio.median == pytest.approx(1.2, rel=0.01) and outcome.seconds.median == pytest.approx(5e-6, rel=0.02)
    assert outcome.ranking[0][0] == outcome.winner
    assert bench.gpu.turns["BM=32 BN=32"] < bench.gpu.turns["BM=64 BN=64"]  # nearly twice as slow: given up early


def test_candidates_that_do_not_fit_are_dropped_by_the_checks_and_not_tried(scale: Choices) -> None:
    bench = FakeBench({}, broken=["BM=32 BN=64"])
    dropped = {str(candidate): why for candidate, why in best(scale, SIZES, bench).dropped}
    assert dropped["BM=32 BN=64"] == "LaunchError: pretended"
    assert dropped["BM=128 BN=2048"].startswith("E07") and "BM=128 BN=2048" not in bench.prepared
    assert set(dropped) | set(bench.prepared) == {str(candidate) for candidate in scale.candidates}


def test_what_is_equal_within_the_noise_leaves_the_file_as_it_is(scale: Choices) -> None:
    outcome = best(scale, SIZES, FakeBench({"BM=128 BN=32": 8.999e-6}))
    assert outcome.winner == scale.file and outcome.ratio.median == 1.0


def test_nothing_that_runs_is_an_error(scale: Choices) -> None:
    with pytest.raises(NothingRuns, match="pretended"):
        best(scale, SIZES, FakeBench({}, broken=[str(candidate) for candidate in scale.candidates]))


# ------------------------------------------------------------------------------------------------------ what a call takes


def tuned(of: Choices) -> Tuned[str]:
    interface = pipec.kernel(KERNEL).interface
    return Tuned(of, interface, str, lambda arguments, device: H200 if device != "cpu" else None)


def arrays(m: int, n: int) -> list[np.ndarray]:
    return [np.zeros((m, n), np.float32) for _ in "xy"]


def measured(of: Choices, fastest: str, sizes: dict[str, int] = SIZES) -> Outcome:
    return best(of, sizes, FakeBench({fastest: 1e-6}))


def test_without_measurement_the_model_chooses_and_the_simulator_does_not(scale: Choices) -> None:
    kernel = tuned(scale)
    chosen = kernel.chosen(SIZES, H200)
    assert chosen.origin in ("model", "file") and chosen.candidate == scale.choose(SIZES, 132)
    assert kernel.variant(arrays(512, 512), "sim") is None
    assert kernel.variant(arrays(512, 512), "cpu") is None


def test_what_was_measured_is_taken_from_then_on_also_by_others(scale: Choices) -> None:
    kernel = tuned(scale)
    kernel.variant(arrays(512, 512), "cuda")
    kernel.remember(measured(scale, "BM=32 BN=64").row(kernel.label))
    assert kernel.chosen(SIZES, H200) == Chosen(scale.candidates[2], "measured") and str(scale.candidates[2]) == "BM=32 BN=64"
    assert kernel.variant(arrays(512, 512), "cuda") == "BM=32 BN=64"
    another = tuned(choices(KERNEL))  # a later process
    assert another.chosen(SIZES, H200).origin == "measured"
    assert another.chosen({"M": 500, "N": 512}, H200).origin == "measured"  # the same bucket
    assert another.chosen({"M": 8192, "N": 512}, H200).origin != "measured"
    assert another.chosen(SIZES, Gpu("another", 132)).origin != "measured"
    assert tuned(choices(KERNEL + "\n# changed")).chosen(SIZES, H200).origin != "measured"


def test_what_does_not_compile_is_not_chosen_again(scale: Choices) -> None:
    """Candidates are checked when they are compiled."""

    def compiled(candidate: Candidate) -> str:
        if str(candidate) == "BM=32 BN=64":
            raise Failure(CannotWrite(name=str(candidate), reason="pretended"))
        return str(candidate)

    kernel = Tuned(scale, pipec.kernel(KERNEL).interface, compiled, lambda arguments, device: H200)
    kernel.remember(measured(scale, "BM=32 BN=64").row(kernel.label))
    assert kernel.chosen(SIZES, H200) == Chosen(scale.candidates[2], "measured") and str(scale.candidates[2]) == "BM=32 BN=64"
    taken = kernel.variant(arrays(512, 512), "cuda")
    assert scale.refusal(scale.candidates[2])
    instead = scale.choose(SIZES, 132)
    assert taken == (None if instead == scale.file else str(instead)) != "BM=32 BN=64"
    assert kernel.chosen(SIZES, H200).origin in ("model", "file")


def test_a_call_checks_what_it_takes_once(scale: Choices, monkeypatch: pytest.MonkeyPatch) -> None:
    instead = scale.choose(SIZES, 132)
    monkeypatch.setattr(
        Choices, "planned", lambda self, candidate: pytest.fail(f"{candidate} is planned, and compiled after that")
    )
    kernel = tuned(choices(KERNEL))
    assert kernel.chosen(SIZES, H200).candidate == instead
    assert kernel.variant(arrays(512, 512), "cuda") == (None if instead == scale.file else str(instead))


def test_one_choice_for_a_shape_and_arguments_that_do_not_fit_are_left_to_the_launcher(scale: Choices) -> None:
    asked = []
    kernel = Tuned(scale, pipec.kernel(KERNEL).interface, str, lambda arguments, device: asked.append(device) or H200)
    for _ in range(3):
        kernel.variant(arrays(512, 512), "auto")
    assert asked == ["auto"]
    x, y = arrays(512, 512)
    for wrong in ([x], [x, y[:7]], [x, 3], [x[0], y], [None, None]):
        assert kernel.variant(wrong, "auto") is None


def test_a_table_beside_the_kernel_is_used_and_one_that_is_none_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "scale.pipe"
    path.write_text(KERNEL)
    of = pipec.compile(path)["scale"].tuned
    assert of is not None and table_path(of.choices.source) == tmp_path / "scale.tiles"
    row = measured(of.choices, "BM=128 BN=64").row("scale")
    (tmp_path / "scale.tiles").write_text(rendered([row]))
    assert str(of.chosen(SIZES, H200).candidate) == "BM=128 BN=64" and of.chosen(SIZES, H200).origin == "table"
    (tmp_path / "scale.tiles").write_text(rendered([row]).replace("BM=128", "BM=4096"))
    again = pipec.compile(path)["scale"].tuned
    assert again is not None and again.chosen(SIZES, H200).origin != "table"  # the kernel has no such candidate any more
    (tmp_path / "scale.tiles").write_text("BM = 128\n")
    broken = pipec.compile(path)["scale"].tuned
    assert broken is not None
    with pytest.raises(Failure, match="E0286"):
        broken.chosen(SIZES, H200)


def test_what_is_set_from_outside_has_rows_of_its_own() -> None:
    of = tuned(choices(KERNEL, STAGES=1))
    assert of.label == "scale[STAGES=1]"


def test_a_call_on_the_simulator_is_right_with_the_tile_in_the_file() -> None:
    kernel = pipec.kernel(KERNEL)
    x, y = np.random.default_rng(0).standard_normal((100, 64), np.float32), np.zeros((100, 64), np.float32)
    kernel(x, y, device="sim")
    assert np.array_equal(y, 2 * x)


def test_every_variant_is_the_kernel_with_other_values() -> None:
    kernel = pipec.kernel(KERNEL)
    assert kernel.tuned is not None
    other = kernel.tuned.of(next(one for one in kernel.tuned.choices.candidates if str(one) == "BM=32 BN=32"))
    assert other.tuned is None and other.name == "scale" and other.ptx != kernel.ptx
    x, y = np.random.default_rng(0).standard_normal((100, 64), np.float32), np.zeros((100, 64), np.float32)
    other(x, y, device="sim")
    assert np.array_equal(y, 2 * x)


@pytest.mark.parametrize("arguments", [(), (np.zeros((4, 4), np.float32),) * 2])
def test_measuring_without_tensors_on_a_gpu_says_so(arguments: tuple) -> None:
    with pytest.raises(pipec.CompileError, match="E0288"):
        pipec.kernel(KERNEL).tune(*arguments)
    with pytest.raises(pipec.CompileError, match="E0287"):
        pipec.kernel(KERNEL.replace("tune BM in (32, 64, 128), BN in (32, 64, 2048)", "pass")).tune(*arguments)


# ------------------------------------------------------------------------------------------------------- the command line


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_command_ranks_by_the_model_and_says_what_it_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scale.pipe"
    path.write_text(KERNEL)
    assert main(["tune", str(path), "--shape", "M=512", "N=512", "--device", "model"]) == 0
    text = capsys.readouterr().out
    assert "scale for M=512 N=512: 9 candidates" in text and "dropped       BM=128 BN=2048" in text and "E07" in text
    assert main(["tune", str(path), "--shape", "M=512", "N=512", "--device", "model", "--message-format", "json"]) == 0
    rows = lines(capsys)
    (chosen,) = (row for row in rows if row["kind"] == "chosen")
    candidates = [row for row in rows if row["kind"] == "candidate"]
    assert chosen["measured"] is False and chosen["values"] in [row["values"] for row in candidates]
    assert len(candidates) + sum(row["kind"] == "dropped" for row in rows) == 9


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--shape", "M=512"], "E0289"),
        (["--shape", "M=512", "N=512", "K=1"], "E0289"),
        (["--shape", "M=512", "N=many"], "E0289"),
        (["--shape", "M=512", "N=99999999999999"], "E0289"),
        (["--shape", "M=512", "N=512", "-D", "BM=64", "-D", "BN=64"], "E0287"),
        (["--shape", "M=512", "N=512", "--device", "cuda"], "E0288"),
    ],
)
def test_what_the_command_refuses(
    arguments: list[str], code: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipec.commands.tuner.gpu_for", lambda *_: None)  # also where there is a GPU
    path = tmp_path / "scale.pipe"
    path.write_text(KERNEL)
    assert main(["tune", str(path), *arguments]) == 1
    assert code in capsys.readouterr().err


def test_the_text_of_a_row_is_what_a_table_holds(scale: Choices) -> None:
    row = measured(scale, "BM=32 BN=64").row("scale")
    assert str(row) == str(parsed(rendered([row]))[0])
    assert str(row).startswith("pretended H200 | scale | M=512 N=512 | BM=32 BN=64 | ")
