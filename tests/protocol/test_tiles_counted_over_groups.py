"""Each block walks over all tiles of all groups, whose numbers are in memory, and does those that are its own by a counter that no loop
bounds: it may come round, and roles that count alike then come round alike."""

import textwrap

import numpy as np
import pytest

import pipec
from pipec.budgets import BUDGETS
from pipec.driver import Compilation, Options, compile_source
from pipec.record import replace
from pipec.sim import SimulationError
from pipec.source import Source
from pipec.verify.accept import accept

KERNEL = """
kernel k[C: int = 3](sizes: tensor[i32, G]):
    grid(C)
    p = ProducerConsumerPipeline(stages=2)
    back = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces p consumes back:
{fill}
    role take(warps=1) consumes p produces back:
{take}
"""
# (Each waits for the other, so that neither gets further.)
FILLED = ("p.producer_signal_and_step()", "back.consumer_signal_and_step()")
TAKEN = ("p.consumer_signal_and_step()", "back.producer_signal_and_step()")
GROUPS = """
seen = {first}
for g in range(G):
    for t in range(ceildiv(load(sizes[g]), 64)):
        if {asked}:
            {{it}}
        seen += 1
"""
SKIPPED = GROUPS.format(first="0", asked="seen % C == block.x")
DOWN = """
seen = 0
for g in range(G):
    left = load(sizes[g])
    while left > 0:
        if seen % C == block.x:
            {it}
        seen += 1
        left -= 64
"""
ITS_NEXT = """
seen = 0
mine = block.x
for g in range(G):
    for t in range(ceildiv(load(sizes[g]), 64)):
        if seen == mine:
            {it}
            mine += C
        seen += 1
"""
AHEAD = """
seen = 0
for g in range(G):
    for t in range(ceildiv(load(sizes[g]), 64)):
        seen += 1
        if seen % C == block.x:
            for k in range(g):
                {it}
"""
WIDE = GROUPS.format(first="cast[i64](0)", asked="seen % C == cast[i64](block.x)")
# Of few tiles the last ones have numbers that 32 bits do not hold.
LAST = GROUPS.format(first="2147483646", asked="seen % C == block.x")
WIDE_LAST = GROUPS.format(first="cast[i64](2147483646)", asked="seen % C == cast[i64](block.x)")


def source(fill: str, take: str) -> str:
    def body(words: str, does: tuple[str, str]) -> str:
        lines = []
        for line in words.strip().split("\n"):
            lines += [line.replace("{it}", one) for one in does] if "{it}" in line else [line]
        return textwrap.indent("\n".join(lines), " " * 8)

    return KERNEL.format(fill=body(fill, FILLED), take=body(take, TAKEN))


def compiled(fill: str, take: str) -> Compilation:
    return compile_source(Source("k.pipe", source(fill, take)), Options("sm_90a"))


@pytest.mark.parametrize(
    ("fill", "take"),
    [(SKIPPED, SKIPPED), (ITS_NEXT, ITS_NEXT), (AHEAD, AHEAD), (SKIPPED, DOWN), (WIDE, WIDE)],
    ids=["skipped", "its next", "ahead", "down", "wide"],
)
def test_it_is_proved_and_nothing_is_assumed(fill: str, take: str) -> None:
    state = compiled(fill, take)
    assert not state.failed, state.diagnostics
    assert "for all sizes; proof" in state.protocol["k"].sentence
    (proof,) = state.certificates.values()
    assert state.ptx is not None and accept(state.ptx, proof).kernel == "k"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seen = 0", "seen = 1"),
        ("seen % C", "seen % (C + 1)"),
        ("        seen += 1", "            seen += 1"),
        ("ceildiv(load(sizes[g]), 64)", "load(sizes[g]) // 64"),
    ],
)
def test_its_neighbour_is_refused(old: str, new: str) -> None:
    assert old in SKIPPED
    assert compiled(SKIPPED, SKIPPED.replace(old, new)).failed


def test_what_comes_round_is_not_what_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in both roles is proved, and ends; of one that counts in 64 bits and one that comes round neither is true."""
    sizes = np.array([64, 128], np.int32)
    pipec.compile(source(LAST, LAST), arch="sm_90a")["k"](sizes, device="sim")
    for name in ("all proof steps", "proof steps"):  # more than the proof of the same takes
        monkeypatch.setitem(BUDGETS, name, replace(BUDGETS[name], limit=250_000))
    mixed = pipec.compile(source(LAST, WIDE_LAST), arch="sm_90a", allow_undecided=True)
    assert "protocol: not decided" in str(mixed.report)
    with pytest.raises(SimulationError, match="wait"):
        mixed["k"](sizes, device="sim")
