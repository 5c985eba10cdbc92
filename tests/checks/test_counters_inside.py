"""Counters of turns inside their tensors: by a condition of the launch, by the loops and branches around, or only assumed. What is not
assumed is counted at small sizes, by running the loops as Python."""

import itertools
from types import SimpleNamespace

import pytest

from pipec.driver import Compilation, Options, compile_source
from pipec.source import Source
from pipec.verify.conditions import met
from pipec.verify.data import formula_of

KERNEL = """
kernel k(y: tensor[f32, 64, 64], c: tensor[i32, T], n: i32, m: i32):
    grid({grid}, 1, 3)
    role a(warps=1):
        {before}
        {around}
            if {guard}:
                with semaphore(c[{counter}], block.z, 3):
                    store(y[0, 0], fill(1.0, f32, 64, 64), reduce="add")
            {after}
"""
COUNTED = """
{before}
{around}
    if {guard}:
        touched.add({counter})
    {after}
"""
WHOLE = {"before": "pass", "guard": "True", "counter": "t", "after": "pass", "grid": "1"}
SIZES, PARAMETERS = range(6), range(-2, 7)

LAUNCHED = [  # a launch is asked for it
    {"around": "for t in range(n):"},
    {"around": "for t in range(n):", "counter": "n - 1 - t"},
    {"around": "for t in range(n - 1, -1, -1):"},
    {"around": "for t in range(n - 1, -1, -1):", "counter": "n - 1 - t"},
    {"around": "for t in range(n, m):", "counter": "m - 1 - t"},
    {"around": "for t in range(n):", "counter": "t + n - 1"},
]
SHOWN = [
    {"around": "for t in range(T):", "counter": "T - 1 - t"},
    {"around": "for t in range(block.x, T, grid.x):", "grid": "2"},
    {"around": "for t in range(block.x, T, grid.x):", "grid": "2", "counter": "T - 1 - t"},
    {"around": "for t in range(0, T, 2):"},
    {"around": "for t in range(min(n, T)):"},
    {"around": "for t in range(n):", "guard": "t < T"},
    {"around": "if block.x < T:", "grid": "2", "counter": "block.x"},
    {"before": "t = 0", "around": "while t < T:", "after": "t += 1"},
    {"before": "t = 0", "around": "while t < T:", "after": "t += 1", "counter": "T - 1 - t"},
    {"before": "t = T", "around": "while t > 0:", "after": "t -= 1", "counter": "t - 1"},
    {"before": "t = T", "around": "while t >= 2:", "after": "t -= 2", "counter": "t - 2"},
]
ASSUMED = [
    {"around": "for t in range(block.x, T + 1, grid.x):", "grid": "2"},
    {"around": "for t in range(block.x, T, grid.x):", "grid": "2", "counter": "T - t"},
    {"around": "for t in range(block.x, T, grid.x):", "grid": "2", "counter": "t - 1"},
    {"around": "for t in range(n):", "guard": "t <= T"},
    {"around": "for t in range(min(n, T + 1)):"},
    {"around": "for t in range(n):", "guard": "t < T", "counter": "T - 2 - t"},
    {"around": "if block.x <= T:", "grid": "2", "counter": "block.x"},
    {"before": "t = 0", "around": "while t < T:", "after": "t += 1", "counter": "T - t"},
    {"before": "t = 0", "around": "while t <= T:", "after": "t += 1"},
    {"before": "t = T", "around": "while t > 0:", "after": "t -= 1"},
    {"before": "t = T", "around": "while t > 0:", "after": "t -= 2", "counter": "t - 2"},
    {"around": "for t in range(n):", "counter": "min(t, T - 1)"},  # there may be no element
    {"around": "for t in range(n):", "counter": "t * m"},
]


def _compiled(parts: dict[str, str]) -> Compilation:
    return compile_source(
        Source("k.pipe", KERNEL.format(**WHOLE | parts)), Options("sm_90a", allow_undecided=True), until="limits"
    )


def _touched(parts: dict[str, str], numbers: dict[str, int]) -> set[int]:
    """The counters that all blocks come to."""
    touched, blocks = set[int](), int((WHOLE | parts)["grid"])
    for block in range(blocks):
        places = {"block": SimpleNamespace(x=block), "grid": SimpleNamespace(x=blocks)}
        exec(COUNTED.format(**WHOLE | parts), {"touched": touched} | places | numbers)  # noqa: S102 - the text is our own
    return touched


@pytest.mark.parametrize("parts", [*LAUNCHED, *SHOWN, *ASSUMED])
def test_counters_that_are_not_assumed_to_be_inside_are(parts: dict[str, str]) -> None:
    state = _compiled(parts)
    assert state.plans is not None and not state.failed
    conditions = [formula_of(one) for one in state.plans[0].interface.conditions]
    every = [dict(zip("Tnm", sizes, strict=True)) for sizes in itertools.product(SIZES, PARAMETERS, PARAMETERS)]
    launched = [numbers for numbers in every if all(met(one, numbers) for one in conditions)]
    outside = any(not _touched(parts, numbers) <= set(range(numbers["T"])) for numbers in launched)
    assumed = [one for one in state.findings["k"].assumed if "lies inside" in one]
    assert launched and (bool(assumed), outside) == ((True, True) if parts in ASSUMED else (False, False))
    if parts in SHOWN:
        assert launched == every
        assert any("lies inside" in one for one in state.findings["k"].checked) is (parts is not SHOWN[0])
