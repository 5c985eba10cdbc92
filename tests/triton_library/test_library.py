"""Each program is right and quiet, and says what is wrong with one mistake in it, in one run."""

from importlib import import_module

import numpy as np
import pytest

import pipec.triton
from pipec.sim import SimulationError

from .programs import PROGRAMS, Program, off_by

KINDS = ("attention", "gathers", "gluon_copies", "gluon_layouts", "gluon_products", "products", "reductions", "synchronisation")
for kind in KINDS:
    import_module(f".{kind}", __package__)  # registers its programs
CASES = [(name, fault) for name, program in PROGRAMS.items() for fault in ("", *program.faults)]


def named(program: Program, fault: str) -> set[str]:
    """What the run calls the mistake: the kind of the error that it ends with, or the checks that give warnings."""
    try:
        with np.errstate(all="ignore"):
            program.run(fault)
    except SimulationError as error:
        return {error.kind}
    return {finding.check for finding in pipec.triton.findings() if finding.check}


@pytest.mark.sample(0.08)
@pytest.mark.parametrize(("name", "fault"), CASES, ids=[f"{name}: {fault or 'right'}" for name, fault in CASES])
def test_programs(name: str, fault: str) -> None:
    program = PROGRAMS[name]
    pipec.triton.install(program.arch)
    try:
        if fault:
            assert named(program, fault) & {*program.faults[fault]}
            return
        for found, exact, tolerance in program.run(""):
            assert off_by(found, exact) <= tolerance
        assert {finding.check for finding in pipec.triton.findings()} <= program.allowed
    finally:
        pipec.triton.uninstall()
