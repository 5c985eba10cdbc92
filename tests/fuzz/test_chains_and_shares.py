"""Random kernels of two families compute what NumPy does: chains of MMAs (`fuzz_chains.py`), tiles that are dealt out (`fuzz_dealt.py`)."""

import random
from dataclasses import replace
from itertools import islice
from types import ModuleType

import pytest
from fuzz import chain_kernels, dealt_kernels, fuzz_chains, fuzz_dealt
from fuzz.accepted import tried
from samples import numbers


@pytest.mark.parametrize("number", numbers("chains", 4, 200))
def test_chains(number: int) -> None:
    assert fuzz_chains.attempt(random.Random(f"chains/0/{number}")) is None


@pytest.mark.parametrize("number", numbers("dealt", 2, 200))
def test_tiles_dealt_out(number: int) -> None:
    assert fuzz_dealt.attempt(random.Random(f"dealt/0/{number}")) is None


@pytest.mark.parametrize("family", [chain_kernels, dealt_kernels], ids=["chains", "dealt"])
def test_another_number_is_noticed(family: ModuleType) -> None:
    """A kernel that is accepted and stores one more than it should; half of those that are drawn are accepted."""

    def wrong(number: int) -> str | None:
        program = family.draw(random.Random(f"{family.__name__}/{number}"))
        text = program.source.replace("], o[", "], 1.0 + o[")
        text = (
            text.replace("], acc)", "], acc + 1.0)")
            .replace("], total)", "], total + 1.0)")
            .replace("+ panels[", "+ 1.0 + panels[")
        )
        found = tried(replace(program, source=text), getattr(program, "arch", "sm_100a"), family.TURNS[:1], 0)
        return found.wrong or "" if found.said == "accepted" else None

    accepted = [*islice((one for one in map(wrong, range(8)) if one is not None), 3)]
    assert len(accepted) == 3 and all("another result" in one for one in accepted)
