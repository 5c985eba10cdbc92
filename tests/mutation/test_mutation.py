"""Mutants of the examples: what is not refused while compiling must equal NumPy, or be another right program.

`benchmarks/proof/mutation.py` judges all of them; here every STRIDE-th one, always the same.
"""

import pytest

from mutation.judge import COMPARISON, EQUIVALENT, HANG, INTERNAL, KERNELS, REFUSED, SIMULATOR, Kernel, judge

STRIDE = 16


@pytest.mark.sample(0.4)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_no_mutant_slips_through(kernel: Kernel) -> None:
    verdicts = [judge(kernel, mutant) for mutant in list(kernel.mutants())[::STRIDE]]
    assert [verdict for verdict in verdicts if verdict.outcome in (INTERNAL, HANG)] == []
    slipped = [verdict for verdict in verdicts if verdict.outcome == SIMULATOR and not verdict.mutant.trips]
    assert [(verdict.mutant.name, verdict.detail) for verdict in slipped] == []
    assert sum(verdict.outcome == REFUSED for verdict in verdicts) > len(verdicts) // 2


def test_the_examples_themselves_are_right() -> None:
    from mutation.mutants import Mutant

    kernel = KERNELS[0]
    assert judge(kernel, Mutant(kernel.name, "none", "none", 1, kernel.text())).outcome == EQUIVALENT


def test_mutants_are_many_and_always_the_same() -> None:
    found = [mutant for kernel in KERNELS for mutant in kernel.mutants()]
    assert found == [mutant for kernel in KERNELS for mutant in kernel.mutants()]
    assert len(found) > 1000
    groups = {"drop", "duplicate", "move", "wrap", "form", "name", "role", "declaration", "operand", "trips"}
    assert {mutant.group for mutant in found} == groups


# Slips that once got through to the simulator or to a wrong result, one per kind.
ONCE = {
    "the signal of one thread, given again by the release": (
        "gemm_linear",
        "commit under `with elect():`",
        (REFUSED, EQUIVALENT),
    ),
    "the first MMA adds": ("gemm_linear", "accumulate=k >= 0", (REFUSED,)),
    "a coordinate of a lane": ("gemm", "a coordinate of a lane", (REFUSED,)),
    "two MMAs": ("gemm_linear", "duplicate mma", (COMPARISON,)),
    "stages given back by commits that track nothing": ("gemm_linear", "mma under `if block.x == 0:`", (COMPARISON, REFUSED)),
}


@pytest.mark.parametrize("title", ONCE)
def test_slips_that_once_got_through(title: str) -> None:
    name, what, outcomes = ONCE[title]
    kernel = next(kernel for kernel in KERNELS if kernel.name == name)
    verdicts = [judge(kernel, mutant) for mutant in kernel.mutants() if mutant.what == what]
    assert verdicts
    assert {verdict.outcome for verdict in verdicts} <= set(outcomes), verdicts
