"""At one of the sizes in the docstring of an example, every ring comes round: a stage that is filled only once shows nothing of whether
it was given back before it is filled again."""

from collections import Counter
from itertools import groupby

import pytest
from examples.catalogue import Run, cases, compiled, runs

from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation

# Pipelines whose first stage a block fills once, whatever the sizes: they hold what belongs to its only tile, or, where a grid has as many
# blocks as the GPU has multiprocessors, to one of fewer tiles than there are stages. Variants with fewer blocks come round there.
ACCUMULATED_ONCE = (
    "gemm", "gemm_2cta", "gemm_2cta_persistent", "gemm_b_n_major", "gemm_epilogue", "gemm_grouped", "gemm_k_group",
    "gemm_k_group_linear", "gemm_linear", "gemm_mn_major", "gemm_mxfp4", "gemm_mxfp8", "gemm_mxfp8_2cta", "gemm_nvfp4",
    "gemm_nvfp4_2cta", "gemm_peek", "gemm_persistent", "gemm_split_k", "gemm_split_k_serial", "gemm_tiles",
    "gemm_types", "output_pages", "project"
)  # fmt: skip
FILLED_ONCE: dict[str, set[str]] = {
    "attention": {"queries"},
    "attention_backward": {"keys", "gradients"},
    "attention_sm90": {"queries"},
    "attention_sm90_backward_fused": {"keys0", "keys1"},
    "attention_sm90_backward_fused_round": {"ring"},
    "attention_sm90_backward_keys": {"keys"},
    "attention_sm90_backward_queries": {"queries"},
    "attention_sm90_decode": {"queries", "parts"},
    "attention_sm90_paged": {"queries"},
    "attention_sm90_persistent": {"queries"},
    "attention_sm90_roles": {"queries0", "queries1", "queries2"},
    "attention_sm90_window": {"queries"},
    "attend_split": {"queries"},
    "activate": {"ring"},
    "copy_tma": {"ring"},
    "gemm_direct": {"done"},
    "gemm_peek_views": {"done"},
    "gemm_residual": {"addition", "output"},
    "gemm_sm90_bias_gelu": {"turn"},
    "gemm_sm90_blockwise_fp8_split": {"upper_sums", "lower_sums"},
    "gemm_sm90_narrow": {"parts"},
    "gemm_sm90_pingpong": {"turn"},
    "pipeline_linear": {"pipeline"},
    "pipeline_scoped": {"pipeline"},
    "rms_norm_cluster": {"input", "sums"},
    "with_mma": {"finished"},
} | {name: {"output"} for name in ACCUMULATED_ONCE}
_SHARED = 1024  # where the shared memory of a kernel begins: what is below belongs to the system

KERNELS = [
    pytest.param(list(of_one), id=kernel)
    for case in cases()
    if not case.constants and case.arch is None
    for kernel, of_one in groupby(runs(case), lambda run: run.kernel)
]


@pytest.mark.sample(0.2)
@pytest.mark.parametrize("sizes", KERNELS)
def test_every_ring_comes_round(sizes: list[Run]) -> None:
    once = {row.pipeline for row in sizes[0].plan.interface.barriers}
    for run in reversed(sizes):
        once -= _coming_round(run)
        if once == FILLED_ONCE.get(sizes[0].kernel, set()):
            break
    assert once == FILLED_ONCE.get(sizes[0].kernel, set())


def _coming_round(run: Run) -> set[str]:
    """The pipelines of which a block fills the first stage again. What is computed is compared, too, if an example says what that is."""
    plan = run.plan
    trial = trial_of(plan, run.numbers, seed=1)
    options = LaunchOptions(Simulation(timing="late"))
    result = launch(plan.interface, compiled(run.case).ptx or "", trial.arguments, device="sim", options=options)
    assert result.simulation is not None
    assert [outcome for outcome in trial.judged() if not outcome.passed] == []
    filled = Counter((event.cta, event.details["address"]) for event in result.simulation.trace if event.kind == "phase")
    places = {place for (_, place), times in filled.items() if times > 1}
    return {row.pipeline for row in plan.interface.barriers if row.side == "full" and _SHARED + row.offset in places}
