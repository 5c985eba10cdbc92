"""Kernels whose blocks follow the GPU, on fewer multiprocessors than they have tiles: each walks over several."""

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES, Case, compiled, runs

from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options


@pytest.mark.sample(0.5, of="cluster")
@pytest.mark.parametrize(
    ("cluster", "multiprocessors", "blocks"), [((2, 1), 5, 4), ((2, 1), 1, 2), ((4, 2), 20, 16), ((4, 2), 3, 8)]
)
def test_pairs_walk_over_several_tiles(cluster: tuple[int, int], multiprocessors: int, blocks: int) -> None:
    constants = (("BN", "64"), ("BM", "128"), ("CX", str(cluster[0])), ("CY", str(cluster[1])))
    state = compiled(Case(EXAMPLES / "gemm_2cta_persistent.pipe", constants))
    (plan,) = state.plans or []
    draw = np.random.default_rng(0)
    a, b = (draw.standard_normal((rows, 136)).astype(ml_dtypes.bfloat16) for rows in (700, 260))
    d = np.full((700, 264), np.nan, ml_dtypes.bfloat16)[:, :256]
    b = b[:256]
    options = LaunchOptions(multiprocessors=multiprocessors)
    launched = launch(plan.interface, state.ptx or "", (a, b, d), device="sim", options=options)
    assert np.prod(launched.grid) == blocks
    np.testing.assert_allclose(d.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64).T, rtol=0.01, atol=0.1)


@pytest.mark.sample(0.5, of="name")
@pytest.mark.parametrize("timing", ["late", "random"])
@pytest.mark.parametrize("name", ["gemm_mxfp8", "gemm_mxfp4", "gemm_nvfp4"])
def test_scale_factors_of_the_next_tile_wait_for_those_of_this_one(name: str, timing: str) -> None:
    """One block with four tiles: MMAs run while the epilogue stores the one before, and the factors have one place."""
    case = Case(EXAMPLES / f"{name}.pipe", ())
    state = compiled(case)
    (plan,) = state.plans or []
    run = runs(case)[0]
    trial = trial_of(plan, run.numbers, seed=2)
    options = LaunchOptions(Options(timing=timing, seed=5), multiprocessors=1)
    launched = launch(plan.interface, state.ptx or "", trial.arguments, device="sim", options=options)
    assert np.prod(launched.grid) == 1
    assert launched.simulation is not None and launched.simulation.warnings == []
    assert [one for one in trial.judged() if not one.passed] == []


@pytest.mark.parametrize("multiprocessors", [2, 5])
@pytest.mark.parametrize("name", ["gemm_persistent", "gemm_tiles", "gemm_grouped"])
def test_blocks_follow_the_gpu(name: str, multiprocessors: int) -> None:
    case = Case(EXAMPLES / f"{name}.pipe", (("BN", "64"), ("STAGES", "2")))
    state = compiled(case)
    (plan,) = state.plans or []
    trial = trial_of(plan, runs(case)[0].numbers, seed=2)
    options = LaunchOptions(multiprocessors=multiprocessors)
    launched = launch(plan.interface, state.ptx or "", trial.arguments, device="sim", options=options)
    assert np.prod(launched.grid) == multiprocessors
    assert [one for one in trial.judged() if not one.passed] == []
