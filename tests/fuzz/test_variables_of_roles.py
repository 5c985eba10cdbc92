"""Random roles with variables in branches and loops compute what Python does (`fuzz_variables.py`)."""

import random

import pytest
from fuzz.fuzz_variables import attempt, tried
from fuzz.variable_kernels import Program, draw
from samples import numbers


@pytest.mark.parametrize("number", numbers("variables", 20, 400))
def test_accepted_kernels_compute_what_python_does(number: int) -> None:
    assert attempt(random.Random(f"variables/0/{number}")) is None


def test_another_number_is_noticed() -> None:
    """A step that Python takes and the role does not."""
    program = draw(random.Random("variables/0/1"))
    assert "another result" in (tried(Program(program.source, program.steps + "y[0] += 1\n"), 0) or "")
