"""One warpgroup: TMA loads, wgmma, staging in shared memory, TMA store. From hopper_tile.cu through nvcc."""

from __future__ import annotations

import pathlib

import ml_dtypes
import numpy as np
import pytest

from pipec.sim import ArrayArgument, Options, Result, SimulationError, TensorMap, TensorMapArgument, launch

TEXT = (pathlib.Path(__file__).parent / "ptx" / "hopper_tile.ptx").read_text()
FENCE = "wgmma.fence.sync.aligned;"
# nvcc has put zeros into the accumulator between the fence and the first wgmma; here is one behind them.
_FIRST = TEXT.index("wgmma.mma_async")
FENCED = f"{TEXT[:_FIRST]}{FENCE} {TEXT[_FIRST:]}"


def run(text: str, options: Options) -> Result:
    rng = np.random.default_rng(0)
    a = rng.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16)
    b = rng.integers(-4, 5, (32, 64)).astype(ml_dtypes.bfloat16)
    d = np.zeros((64, 32), np.float32)
    maps = [
        TensorMapArgument(TensorMap("bf16", (64, x.shape[0]), (128,), (64, x.shape[0]), swizzle="128B"), x, False) for x in (a, b)
    ]
    out = TensorMapArgument(TensorMap("f32", (32, 64), (128,), (32, 64)), d)
    result = launch(text, block=128, dynamic_smem=16384 + 8192, arguments=[*maps, out, ArrayArgument(d)], options=options)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.astype(np.float32).T)
    return result


@pytest.mark.parametrize("options", [Options("order"), Options("late"), Options("random", seed=5)], ids=lambda o: o.timing)
def test_tile(options):
    run(TEXT, options)


def test_missing_proxy_fence_is_a_race():
    broken = TEXT.replace("fence.proxy.async.shared::cta;", "")
    assert broken != TEXT
    with pytest.raises(SimulationError) as caught:
        run(broken, Options())
    assert caught.value.kind == "race" and "fence.proxy.async" in caught.value.message


@pytest.mark.parametrize("timing", ["order", "late"])
def test_missing_group_wait_at_exit(timing):
    """PTX wants the source of a bulk store kept until a wait; the chip reads it all the same, and practice relies on that."""
    broken = FENCED.replace("cp.async.bulk.wait_group 0;", "")
    assert broken != FENCED
    result = run(broken, Options(timing, rules="practice"))
    assert result.relied_on == ["bulk stores at exit"]
    assert [(one.check, one.severity) for one in result.findings] == [("exit", "warn")]
    for text in (broken, FENCED.replace("cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group 1;")):
        with pytest.raises(SimulationError) as caught:
            run(text, Options(timing, rules="documents"))
        assert caught.value.kind == "undefined" and "has exited" in caught.value.message
    # A wait behind the last commit is meant for it.
    assert [one.check for one in run(text, Options(timing, rules="practice")).findings] == ["exit"]


def test_zeros_behind_the_fence_are_a_practice() -> None:
    assert run(TEXT, Options(rules="practice")).relied_on == ["registers behind wgmma.fence"]
    assert run(FENCED, Options(rules="documents")).relied_on == []
    with pytest.raises(SimulationError) as caught:
        run(TEXT, Options(rules="documents"))
    assert caught.value.kind == "race" and "no wgmma.fence stands between" in caught.value.message


WAIT = "wgmma.wait_group.sync.aligned 0;"


def moved(early: str, late: str = "", used: str = "%own") -> str:
    """The first accumulator is taken before the wait, and in its place something else is stored."""
    text = FENCED.replace(WAIT, f"{early} {WAIT} {late}").replace("[%r40+16384], %f33;", f"[%r40+16384], {used};")
    return text.replace("{\n", "{\n.reg .b32 %own, %own2; .reg .b16 %low, %high;\n", 1)


@pytest.mark.parametrize("timing", ["order", "late"])
def test_a_move_before_the_wait_is_a_practice(timing: str) -> None:
    halves = moved("mov.b32 {%low, %high}, %f33;", "mov.b32 %own, {%low, %high};")
    for text in (moved("mov.b32 %own, %f33;"), halves, moved("mov.b32 %own2, %f33; mov.b32 %own, %own2;")):
        assert run(text, Options(timing, rules="practice")).relied_on == ["moves before wgmma.wait_group"]
        with pytest.raises(SimulationError, match="an accumulator is touched while the wgmma"):
            run(text, Options(timing, rules="documents"))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (moved("mov.b32 %own, %f33; add.u32 %own, %own, 0;"), "a copy of an accumulator"),
        (moved("add.f32 %f33, %f33, 0f00000000;", used="%f33"), "an accumulator"),
        (moved("mov.b32 %own, %f33;").replace(WAIT, ""), "a copy of an accumulator"),
    ],
    ids=["used", "not moved", "no wait"],
)
def test_a_use_before_the_wait_is_a_race(text: str, what: str) -> None:
    with pytest.raises(SimulationError, match=f"a register of {what} is touched") as caught:
        run(text, Options(rules="practice"))
    assert caught.value.kind == "race"


def test_no_fence_at_all_is_a_race() -> None:
    with pytest.raises(SimulationError) as caught:
        run(TEXT.replace(FENCE, ""), Options(rules="practice"))
    assert caught.value.kind == "race" and "no wgmma.fence stands before" in caught.value.message
