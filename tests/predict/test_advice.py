"""Advice is followed: what a report says that another value is worth comes true when the kernel is compiled with it."""

import json
import random
from typing import Any

import pytest
from predict.predictions import EXAMPLES, LENGTHS_IN_MEMORY, predicted

from benchmarks.prediction.predict import MAIN_LOOP
from pipec.api.files import read_source
from pipec.commands.cli import main
from pipec.driver import Compilation, Options, carried_on, compile_source
from pipec.predict import sensitivity
from pipec.predict.explanation import finding
from pipec.predict.launch import Prediction, prediction
from pipec.predict.parameters import integers
from pipec.predict.sensitivity import Variation, tried, variations
from pipec.predict.tile_loops import operations_in
from pipec.source import Source
from pipec.syntax import ast

Capture = pytest.CaptureFixture[str]

KERNELS = [path.stem for path in sorted(EXAMPLES.glob("*.pipe")) if path.stem not in ("seed_pages", *LENGTHS_IN_MEMORY)]
HEADS = {"H": 32, "KEPT": 32, "SEQUENCES": 1, "G": 4, "window": 256}


def report(name: str, seed: int) -> tuple[Compilation, Prediction, tuple[Variation, ...]]:
    """Of an example with other values and sizes, the first that the checks accept."""
    chance = random.Random(f"{name} {seed}")
    source = read_source(str(EXAMPLES / f"{name}.pipe"))
    base = compile_source(source, Options(), "plan")
    assert base.trees is not None
    kernel = base.trees[0]
    state = _accepted(base, kernel.name, chance)
    names = {extent for tensor in kernel.tensors for extent in tensor.shape if isinstance(extent, str)}
    names |= {scalar.name for scalar in kernel.scalars if scalar.name in HEADS}
    size = 64 if "norm" in name or name == "softmax" else chance.choice((512, 1000, 2048, 4096))
    sizes = {one: size // 128 if "CHUNKS" in one else HEADS.get(one, size) for one in names}
    found = prediction(state, kernel.name, sizes)
    return state, found, variations(state, kernel.name, found)


def _accepted(base: Compilation, name: str, chance: random.Random) -> Compilation:
    for _ in range(20):
        constants: dict[str, object] = {}
        for parameter, value in integers(base, name).items():
            if "STAGES" in parameter:
                constants[parameter] = chance.choice((2, 3, 4, 5))
            elif parameter in ("BM", "BN") and value >= 64 and chance.random() < 0.4:
                constants[parameter] = chance.choice((64, 128, 256))
        state = compile_source(base.source, Options(constants=constants, kernel=name), "limits", base.file)
        if not state.failed:
            return state
    raise AssertionError(f"{name}: no values that the checks accept")


@pytest.mark.sample(0.2)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", KERNELS)
def test_advice_helps_as_predicted(name: str, seed: int) -> None:
    """The launch with each value that was followed takes as long as told, whatever the loops say; what the closed form says of the others
    stays near what following them says, or the checks refuse them; and nothing is praised for doing less. Where a value was followed
    there is no estimate of another one on its side, which might promise more than that has shown."""
    state, found, others = report(name, seed)
    usual = integers(state, found.kernel)
    known = {(one.parameter, one.value > usual[one.parameter]) for one in others if one.followed}
    assert not [one for one in others if not one.followed and (one.parameter, one.value > usual[one.parameter]) in known]
    for one in others:
        if not one.followed and one.gain < 0.05:
            continue
        options = Options(constants={**state.options.constants, one.parameter: one.value}, kernel=found.kernel)
        other = compile_source(state.source, options, "limits")
        if other.failed:
            assert not one.followed
            continue
        told = prediction(other, found.kernel, found.sizes).seconds
        assert one.seconds == pytest.approx(told, rel=1e-9 if one.followed else 0.35), one
        assert found.seconds / one.seconds - 1 == pytest.approx(one.gain)
    for loop in found.loops:
        said = finding(loop, tried(state, found.kernel, loop, others))
        if said.bound != "stages" or "would do (" not in said.sentence or "at most" in said.sentence:
            continue
        (followed,) = (one for one in others if one.followed and f"; {one.parameter}={one.value} would do" in said.sentence)
        same = [one for one in followed.loops if (one.role, one.pipeline.name) == (loop.role, loop.pipeline.name)]
        assert followed.gain >= 0.01 and all(loop.period / one.period - 1 == pytest.approx(said.gain) for one in same)


@pytest.mark.parametrize("name", KERNELS)
def test_a_report_takes_bounded_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many parameters a kernel has, a few other kernels are typed, fewer the longer it is, and two of them are checked; another
    number of stages needs neither."""
    typed, checked = [], []

    def compiled(source: Source, options: Options, until: str, parsed: ast.File) -> Compilation:
        typed.append(options.constants)
        return compile_source(source, options, until, parsed)

    def carried(state: Compilation, after: str, until: str) -> Compilation:
        checked.append(state.options.constants)
        return carried_on(state, after, until)

    monkeypatch.setattr(sensitivity, "compile_source", compiled)
    monkeypatch.setattr(sensitivity, "carried_on", carried)
    state, found, _ = report(name, 0)
    (kernel,) = (one for one in state.trees or () if one.name == found.kernel)
    length = sum(1 for role in kernel.roles for _ in operations_in(role.body))
    assert len(checked) <= 2 and (len(typed) - len(checked)) * length <= max(220, 2 * length)


def test_other_stages_are_followed_without_another_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the parameter says nothing else: not where a role's body mentions it, nor where stages come in groups."""
    typed = []

    def compiled(source: Source, options: Options, until: str, parsed: ast.File) -> Compilation:
        typed.extend(one for one, value in options.constants.items() if one == "STAGES" and value != 2)
        return compile_source(source, options, until, parsed)

    monkeypatch.setattr(sensitivity, "compile_source", compiled)
    sizes = {"M": 4096, "N": 4096, "K": 4096}
    for name, anew in (("gemm", False), ("gemm_sm90", False), ("gemm_direct", True), ("gemm_k_group", True)):
        state = compile_source(read_source(str(EXAMPLES / f"{name}.pipe")), Options(constants={"STAGES": 2}), "limits")
        assert state.trees is not None
        found = prediction(state, state.trees[0].name, sizes)
        typed.clear()
        others = variations(state, found.kernel, found)
        assert any(one.parameter == "STAGES" and one.followed for one in others)
        assert bool(typed) == anew, name


def test_the_command_tells_what_it_then_says_itself(capsys: Capture) -> None:
    def run(*more: str) -> dict[str, Any]:
        command = ["predict", str(EXAMPLES / "gemm.pipe"), "--shape", "M=8192", "N=8192", "K=8192", "--format", "json", *more]
        assert main(command) == 0
        (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
        assert isinstance(kernel, dict)
        return kernel

    slow = run("-D", "STAGES=2")
    (followed,) = (one for one in slow["sensitivity"] if one["followed"] and one["parameter"] == "STAGES")
    assert slow["loops"][0]["says"].endswith(
        f"STAGES={followed['value']} would do ({slow['loops'][0]['gain']:+.0%}, the launch {followed['gain']:+.0%})"
    )
    fast = run("-D", f"STAGES={followed['value']}")
    assert fast["seconds"] == pytest.approx(followed["seconds"])
    assert slow["loops"][0]["period"] / fast["loops"][0]["period"] - 1 == pytest.approx(slow["loops"][0]["gain"])


def test_stages_that_cost_a_block_are_not_recommended(capsys: Capture) -> None:
    """With a third stage one block fits on a multiprocessor instead of two, and the launch takes longer although the loop is faster."""
    command = ["predict", str(EXAMPLES / "gemm_linear.pipe"), "--kernel", "gemm_linear", "-D", "STAGES=2", "--shape"]
    assert main([*command, "M=2048", "N=2048", "K=2048"]) == 0
    said = capsys.readouterr().out
    assert "with STAGES=3 the launch would be slower (-" in said and "STAGES=3 (" not in said


def test_stages_that_do_not_fit_are_not_recommended(capsys: Capture) -> None:
    tile = ["-D", "BM=128", "-D", "BN=256", "-D", "BK=128", "-D", "STAGES=2"]
    assert main(["predict", str(EXAMPLES / "gemm.pipe"), *tile, "--shape", "M=512", "N=512", "K=65536"]) == 0
    assert "there is no room for more in shared memory" in capsys.readouterr().out


def test_another_head_is_another_problem() -> None:
    """A value that changes what is computed is no way to compute it faster."""
    for name, parameter in (("attention_sm90", "D"), ("role_pipeline", "ROUNDS")):
        made = report(name, 0)
        assert parameter in integers(made[0], made[1].kernel)
        assert not any(one.parameter == parameter and one.gain > 0.01 for one in made[2])


def test_the_pace_of_a_loop_is_one_of_whole_laps() -> None:
    """Three stages, which no power of two is a multiple of: cut short or not, the loop takes as long."""
    constants = {"BM": 128, "BN": 256, "BK": 64, "STAGES": 3}
    times = [predicted(MAIN_LOOP, constants, M=128, N=256, K=64 * count).cycles for count in (40, 80, 120, 240, 480)]
    pace = [(more - less) / (40 * each) for less, more, each in zip(times, times[1:], (1, 1, 3, 6), strict=False)]
    assert max(pace) == pytest.approx(min(pace), rel=0.002)
