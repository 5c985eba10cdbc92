"""Random persistent GEMMs, each role in words of its own, seeded; and the judge notices what it is there for."""

import random
from dataclasses import replace

import pytest
from fuzz.accepted import tried
from fuzz.fuzz_persistent import attempt
from fuzz.persistent_kernels import KINDS, TURNS, draw
from samples import numbers


@pytest.mark.parametrize("number", numbers("persistent", 3, 200))
def test_persistent_kernels(number: int) -> None:
    assert attempt(random.Random(f"persistent/0/{number}")) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_that_stores_another_number_is_noticed(kind: str) -> None:
    for number in range(40):
        program = draw(random.Random(f"noticed/{kind}/{number}"), kind, right=True)
        found = tried(replace(program, source=program.source.replace("], acc)", "], acc + 1.0)")), program.arch, TURNS[:1], 0)
        if found.said == "accepted":
            assert found.wrong is not None and "another result" in found.wrong
            return
    raise AssertionError("none was accepted")


def test_what_a_fault_changes_is_in_one_role() -> None:
    """A faulty kernel is the right one but for some lines."""
    for kind in KINDS:
        assert {draw(random.Random(f"fault/{kind}/{number}"), kind, right=False).fault for number in range(40)} >= {
            "more",
            "tile",
            "start",
        }
