"""Random roles that multiply into accumulators in registers compute what Python does (`fuzz_wgmma.py`)."""

import random

import pytest
from fuzz.fuzz_wgmma import attempt, tried
from fuzz.wgmma_kernels import Program, draw
from samples import numbers


@pytest.mark.parametrize("number", numbers("wgmma", 12, 300))
def test_what_is_accepted_computes_what_python_does(number: int) -> None:
    assert attempt(random.Random(f"wgmma/0/{number}")) is None


def test_another_number_is_noticed() -> None:
    """A step that Python takes and the role does not."""
    found = []
    for number in range(12):
        program = draw(random.Random(f"wgmma/0/{number}"))
        found.append(tried(Program(program.source, program.steps + "y += 1\n", program.columns, program.groups), 0) or "")
    assert sum("another result" in one for one in found) > 6
