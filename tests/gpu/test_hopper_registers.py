"""On an sm_90a GPU: kernels that multiply in registers (wgmma) give the bits that the simulator gives.

Every example for sm_90a, with all its compile-time parameters, and every way of an accumulator out of registers. Small integers, for
which every sum is exact, must agree with NumPy and the simulator bit for bit; with random inputs the GPU must stay within the stated
bound of float64 NumPy.
"""

from collections.abc import Callable

import numpy as np
import pytest
from examples.catalogue import COMPARED_ELSEWHERE, Case, Run, cases, compiled, read, runs
from gpu.gpus import needs_gpu
from lower.register_kernels import (
    BODIES,
    arguments,
    expected,
    operand_arguments,
    operand_expected,
    operand_runs,
    operand_source,
    source,
)

import pipec
from examples import test_attention as attention
from examples import test_attention_backward as training
from examples import test_attention_decode as decode
from pipec.kir.plan.types import Plan
from pipec.reference import apply_given, expected_values, reference_lines, trial_of
from pipec.runtime import launch, random_arguments

pytestmark = needs_gpu

HERE = [case for case in cases() if read(case).arch == "sm_90a"]
CASES = [case for case in HERE if case.path.stem not in COMPARED_ELSEWHERE]
RUNS = [run for case in CASES for run in runs(case)]
# Their results are no integers.
_INEXACT = (
    "gemm_residual",
    "gemm_sm90_bias_gelu",
    "attention_sm90_decode",
    "attention_sm90_paged",
    "attention_sm90_persistent",
    "attention_sm90_roles",
    "attention_sm90_window",
    "attention_sm90_backward",
)
_MOST = 3  # the largest integer drawn


def integers(plan: Plan, numbers: dict[str, float]) -> dict:
    """Arguments whose products add up to numbers that even 8-bit operands and 16-bit accumulators hold exactly."""
    generator = np.random.default_rng(4)
    given = random_arguments(plan.interface, numbers, seed=4)
    most = 1 if "f16" in (str(plan.kernel.constants.get("ACC")), str(plan.kernel.constants.get("OUT"))) else _MOST
    for argument in plan.interface.arguments:
        array = given[argument.name]
        # What a kernel adds to is written, and read before; counters are left at 0.
        if isinstance(array, np.ndarray) and (not argument.written or array.dtype == np.float32):
            low = 0 if array.dtype == np.uint8 else -most
            array[...] = generator.integers(low, most + 1, array.shape).astype(array.dtype)
    apply_given(plan.kernel.document, given, {**plan.kernel.constants, **numbers})
    return given


@pytest.mark.parametrize("run", [run for run in RUNS if run.case.path.stem not in _INEXACT], ids=lambda run: run.name)
def test_integers_agree_bit_for_bit(run: Run) -> None:
    plan, results = run.plan, {}
    for device in ("cuda", "sim"):
        given = integers(plan, run.numbers)
        outcome = launch(plan.interface, compiled(run.case).ptx or "", given, device=device)
        assert outcome.device.startswith(device)
        results[device] = given
    lines, known = reference_lines(plan.kernel.document), {**plan.kernel.constants, **run.numbers}
    for name, reference in expected_values(lines, integers(plan, run.numbers), constants=known).items():
        on_gpu, simulated = results["cuda"][name], results["sim"][name]
        assert np.array_equal(on_gpu, reference.value.astype(np.float32).astype(on_gpu.dtype)), "GPU against NumPy"
        assert on_gpu.tobytes() == simulated.tobytes(), "GPU against simulator"


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_random_inputs_stay_within_their_bound(run: Run) -> None:
    plan = run.plan
    trial = trial_of(plan, run.numbers, seed=5)
    launch(plan.interface, compiled(run.case).ptx or "", trial.arguments, device="cuda")
    for outcome in trial.judged():
        assert outcome.passed, outcome


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("name", BODIES)
def test_ways_out_of_registers(name: str, warps: int) -> None:
    kernel = pipec.compile(source(name, warps), arch="sm_90a")["gemm"]
    for m, n, k in ((128, 64, 256), (512, 320, 128)):
        if name in ("reductions", "kept", "positions"):  # these mean one tile of columns
            m, n = 128, 64
        given = arguments(name, m, n, k)
        kernel(**given, device="cuda")
        assert np.array_equal(given["d"], expected(name, given))


@pytest.mark.parametrize("repeat", range(3))
def test_large_persistent_gemm(repeat: int) -> None:
    """Many tiles per block, so that stages, phases and staging buffers go round many times."""
    case = next(case for case in CASES if case.name == "gemm_sm90_persistent")
    (plan,) = compiled(case).plans or []
    given = integers(plan, {"M": 2112, "N": 3080, "K": 512 + 64 * repeat})
    launch(plan.interface, compiled(case).ptx or "", given, device="cuda")
    reference = given["a"].astype(np.float32) @ given["b"].astype(np.float32).T
    assert np.array_equal(given["d"], reference.astype(given["d"].dtype))


@pytest.mark.parametrize(("name", "constants"), operand_runs(), ids=str)
def test_operand_a_in_registers(name: str, constants: dict[str, object]) -> None:
    kernel = pipec.compile(operand_source(name), arch="sm_90a", constants=constants)["gemm"]
    given = operand_arguments(constants, 136, 64 if name == "from_the_product" else 200, 5)
    kernel(**given, device="cuda")
    assert np.array_equal(given["d"], operand_expected(name, constants, given))


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("backward", [training.in_three, training.fused])
def test_a_step_of_training(backward: Callable, size: int, causal: bool) -> None:
    training.check(backward, size, causal, device="cuda")


@pytest.mark.parametrize("sizes", [*decode.SIZES.values(), (128, 16, 4, 8192)], ids=str)
def test_parts_of_attention_add_up(sizes: tuple[int, int, int, int]) -> None:
    decode.check(*sizes, device="cuda")


@pytest.mark.parametrize("shape", [(2, 256, 128), (3, 1000, 1000), (1, 72, 2050), (2, 4096, 4096)], ids=str)
@pytest.mark.parametrize("case", [case for case in HERE if case.path.stem == "attention_sm90"], ids=lambda case: case.name)
def test_attention(case: Case, shape: tuple[int, int, int]) -> None:
    (plan,) = compiled(case).plans or []
    given = attention.drawn(case, *shape, 0.125)
    launch(plan.interface, compiled(case).ptx or "", given, device="cuda")
    attention.compare_output(case, given)
