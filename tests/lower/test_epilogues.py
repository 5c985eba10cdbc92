"""Every element of every store is written, once, and nothing else is: each form of epilogue at many widths, against NumPy."""

import numpy as np
import pytest
from epilogues import MORE_WIDTHS, WIDTHS, Case, arguments, cases, program
from samples import some

import pipec.api.embed
from pipec.runtime.launcher import LaunchOptions
from pipec.sim.launch import Options

# Of each target, in a run without `--whole-matrix`: of two, one is narrower than a vector of 16 bytes or a group of 8 columns.
_SAMPLE = {"registers": 2, "tensor": 2, "half_warps": 1, "folded": 1, "stage": 1, "loads": 1}
_NARROW = 8


def sample() -> list[Case]:
    """Others for each commit."""
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases():
        groups.setdefault((case.source, case.target), []).append(case)
    chosen = []
    for (source, target), group in groups.items():
        narrow, wide = ([case for case in group if (case.width < _NARROW) == side] for side in (True, False))
        count = _SAMPLE[source]
        halves = [narrow, wide] if narrow and count > 1 else [group]
        for number, half in enumerate(halves):
            chosen += some(f"epilogues {source} {target} {number}", half, count / len(halves) / len(half))
    return chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        whole = metafunc.config.getoption("--whole-matrix")
        metafunc.parametrize("case", cases(WIDTHS + MORE_WIDTHS) if whole else sample(), ids=str)


def test_every_element_is_stored_once(case: Case) -> None:
    given = arguments(case)
    text, outputs = program(case, given)
    try:
        compiled = pipec.api.embed.compile(text, arch=case.target, allow_undecided=True)
    except pipec.CompileError as refused:
        codes, each = {one.code for one in refused.diagnostics}, case.rows * case.width / (32 * case.warps)
        if codes == {"E0742"}:  # the accumulator alone leaves a thread of so many too few registers
            assert case.source == "registers" and each >= 80, refused
            return
        # Rows that no warps share evenly may take more registers of a thread than there are, which is reported.
        assert codes == {"E0733"} and each >= 8, refused
        text, outputs = program(case, given, kept=False)
        compiled = pipec.api.embed.compile(text, arch=case.target, allow_undecided=True)
    found = [one.poisoned() for one in outputs]
    options = LaunchOptions(simulation=Options(timing="random", seed=case.width))
    compiled["k"](*given.values(), *found, device="sim", options=options)
    wrong = {}
    for one, array in zip(outputs, found, strict=True):
        expected = one.whole()
        same = array.view(f"u{array.itemsize}") == expected.view(f"u{array.itemsize}")
        same |= np.equal(array, expected)  # zeros of either sign
        if not same.all():
            row, column = np.argwhere(~same)[0]
            wrong[one.name] = (
                f"{(~same).sum()} elements, first [{row}, {column}]: {array[row, column]} for {expected[row, column]}"
            )
    assert not wrong, f"{wrong}\n{text}"
