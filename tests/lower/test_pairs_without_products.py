"""An accumulator of a pair of CTAs into which nothing was multiplied reads as zero in both, though only the leader knows."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from pipec.driver import Options, compile_source
from pipec.runtime import launch
from pipec.source import Source

SOURCE = (Path(__file__).parents[2] / "examples" / "gemm_2cta.pipe").read_text(encoding="utf-8")
MMA = "                    mma(acc, s.a, s.b)\n"
# How often the leader multiplies each block of K, and whether the epilogues of both CTAs can find that out by themselves.
REPEATED = {
    "block.x": False,  # another number in the other CTA
    "block.x - cta.x": False,  # `cta.x` is not known to the host
    "block.x // 2 * 2": True,
    "2 * cluster.x": False,
    "2 * block.y": True,
}


@pytest.mark.parametrize(("times", "told"), REPEATED.items())
def test_nothing_multiplied(times: str, told: bool) -> None:
    text = SOURCE.replace(MMA, f"                    for again in range({times}):\n    {MMA}")
    constants = {"BM": "128", "BN": "32", "BK": "64", "STAGES": "2"}
    state = compile_source(Source("pairs.pipe", text), Options(constants=constants))
    assert not state.failed and state.plans is not None and state.ptx is not None
    (plan,) = state.plans
    assert [fill.condition is not None for fill in plan.zero_fills.values()] == [told]
    a, b = (np.random.default_rng(1).standard_normal((size, 128)).astype(ml_dtypes.bfloat16) for size in (256, 64))
    d = np.full((256, 64), 7, ml_dtypes.bfloat16)
    launch(plan.interface, state.ptx, {"a": a, "b": b, "d": d}, device="sim")
    pairs = np.repeat([0, 1], 128)[:, None], np.repeat([0, 1], 32)[None, :]
    expected = 2 * pairs["y" in times] * (a.astype(np.float32) @ b.astype(np.float32).T)
    assert np.abs(d.astype(np.float32) - expected).max() <= 0.01 * np.abs(expected).max()
