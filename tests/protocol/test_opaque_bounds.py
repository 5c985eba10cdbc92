"""Loops with their test at the end, up to a number that is no size: each counter is 0, or the test has passed for the number before it."""

from pathlib import Path

import pytest

from pipec.driver import Options, compile_source
from pipec.protocol.effort import steps_so_far
from pipec.source import Source
from tests.protocol.drawing import Draw, Kernel, source

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "attention_sm90_roles.pipe"
LOADED = "max(1, load(ix[t]))"  # at least one turn, so the compiler leaves the test in front of the loop out
FEW = 120_000  # steps: a proof by a later schedule takes more


def parts(*bounds: str) -> Kernel:
    """So many parts of each tile as each role says, the first one for all the others; each part has N blocks."""
    names = "abcd"[: len(bounds)]
    roles = {
        name: ["for t in range(block.x, M, grid.x):", f"    for part in range({bound}):", "        for k in range(N):"]
        for name, bound in zip(names, bounds, strict=True)
    }
    for name in names[1:]:
        roles["a"].append(f"            {{p{name}+}}")
        roles[name].append(f"            {{p{name}-}}")
    return Kernel({f"p{name}": (2, "a", name) for name in names[1:]}, {**roles}, blocks="4")


@pytest.mark.parametrize("roles", [2, 3, 4])
def test_the_first_schedule_proves_it(roles: int) -> None:
    text, before = source(parts(*[LOADED] * roles), Draw(roles)), steps_so_far()
    state = compile_source(Source("right.pipe", text), Options("sm_100a"))
    assert not state.failed, f"{text}\n{state.diagnostics}"
    assert steps_so_far() - before < FEW


@pytest.mark.parametrize(
    "other",
    ["max(1, load(ix[t])) + 1", "max(2, load(ix[t]))", "max(1, load(ix[t + 1]))", "max(1, load(ix[t]) - 1)"],
)
def test_its_neighbour_is_not(other: str) -> None:
    """Not with all steps that a search may take."""
    text = source(parts(LOADED, other), Draw(other))
    state = compile_source(Source("wrong.pipe", text), Options("sm_100a", allow_undecided=True))
    assert state.protocol["k"].outcome in ("open", "refuted"), f"{text}\n{state.diagnostics}"


def test_an_example_with_four_roles_takes_a_share_of_the_budget() -> None:
    """Of parts that a tile of two blocks of queries has."""
    before = steps_so_far()
    constants = {"GROUPS": 4, "CAUSAL": True, "BLOCKS": 1}
    assert not compile_source(Source(EXAMPLE.name, EXAMPLE.read_text(encoding="utf-8")), Options("sm_90a", constants)).failed
    assert steps_so_far() - before < 1_200_000
