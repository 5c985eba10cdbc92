"""On an sm_90a GPU: stages that are filled, or read, in several ways at once (see tests/lower/test_signals_added_up.py)."""

import pytest
from gpu.gpus import needs_gpu
from lower import test_signals_added_up as simulated

import pipec

pytestmark = needs_gpu

_LAUNCHES = 50  # a signal too few hangs, one too many lets a stage be overwritten only now and then


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(source: str, kernel: str, *arguments: object, timing: str, arch: str = "sm_90a") -> None:
        program = pipec.compile(source, arch=arch)[kernel]
        for _ in range(_LAUNCHES):
            program(*arguments, device="cuda")

    monkeypatch.setattr(simulated, "run", run)


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("third", ["cp.async(s.c, bias[k * 32])", "write(s.c, per_column(bias[k * 32], 32))"])
def test_tiles_of_one_stage_are_loaded_copied_and_written(third: str, warps: int) -> None:
    simulated.test_tiles_of_one_stage_are_loaded_copied_and_written(third, warps, "as it comes")


@pytest.mark.parametrize(("warps", "stages"), [(1, 1), (1, 3), (4, 2)])
def test_some_stages_are_loaded_and_others_written(warps: int, stages: int) -> None:
    simulated.test_some_stages_are_loaded_and_others_written(warps, stages, "as it comes")


@pytest.mark.parametrize("depth", [64, 320])
def test_a_stage_is_multiplied_copied_and_read(depth: int) -> None:
    simulated.test_a_stage_is_multiplied_copied_and_read("sm_90a", depth, "as it comes")
