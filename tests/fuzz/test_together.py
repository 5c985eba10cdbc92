"""Random kernels of many features at once, seeded; and the judge notices what it is there for."""

import random
import re

import pytest
from fuzz.fuzz_together import attempt, tried
from fuzz.together_kernels import FAULTS, draw
from fuzz.together_words import COUNTS, WALKS
from samples import numbers

from pipec.record import replace


@pytest.mark.parametrize("number", numbers("together", 6, 300))
def test_what_is_proved_runs(number: int) -> None:
    assert attempt(random.Random(f"together/0/{number}")) is None


def test_walks_and_counts_have_names_of_their_own() -> None:
    """A count stands inside a walk, whose end it must not assign."""
    walks, counts = (
        {name for text in texts for name in re.findall(r"(?:^|\n| for |^for )\s*(\w+)(?: [+-]?=| in) ", text)}
        for texts in (
            [text for words in WALKS.values() for text in words],
            [text for one in COUNTS.values() for text in one.said],
        )
    )
    assert {"end", "turn"} <= walks and {"reach", "k"} <= counts
    assert walks.isdisjoint(counts), walks & counts


def test_another_result_is_noticed() -> None:
    for number in range(40):
        program = draw(random.Random(f"noticed/{number}"), right=True)
        changed = replace(program, source=program.source.replace(") + 1.0)", ") + 2.0)"))
        if changed != program:
            found = tried(changed, random.Random(0))
            if found.said == "proved":
                assert found.wrong is not None and "differs" in found.wrong
                return
    raise AssertionError("none was proved")


def test_a_role_that_waits_for_ever_is_noticed() -> None:
    for number in range(40):
        chance = random.Random(f"hangs/{number}")
        program = draw(chance, right=False)
        found = tried(program, chance, unchecked=True) if program.fault in ("count", "level") else None
        if found is not None and found.wrong is not None and "deadlock" in found.wrong:
            return
    raise AssertionError("none was noticed")


def test_each_fault_is_drawn() -> None:
    assert {draw(random.Random(f"fault/{number}"), right=False).fault for number in range(80)} == set(FAULTS)
