"""What roles compute from numbers in memory, in words of their own, is the same unless arithmetic wraps around: that it does not a proof
takes for granted, and says so, where it cannot do without. A kernel that could be wrong for small numbers, too, is not proved."""

import numpy as np
import pytest

import pipec
from pipec.driver import Compilation, Options, compile_source
from pipec.record import replace
from pipec.sim import SimulationError
from pipec.source import Source
from pipec.verify.accept import accept
from pipec.verify.checker.configuration import Refused

KERNEL = """
kernel k(lengths: tensor[i32, B], begins: tensor[i32, B], ends: tensor[i32, B]):
    grid(B)
    p = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces p:
{fill}
    role take(warps=1) consumes p:
{take}
"""
WORDS = {
    "rounded up": "for j in range((load(lengths[block.x]) + 63) // 64):\n    {it}",
    "by ceildiv": "for j in range(ceildiv(load(lengths[block.x]), 64)):\n    {it}",
    "by steps": "for j in range(0, load(lengths[block.x]), 64):\n    {it}",
    "by hand": "n = load(lengths[block.x])\nseen = 0\nwhile seen < n:\n    {it}\n    seen += 64",
    "what is left": "n = load(lengths[block.x])\nwhile n > 0:\n    {it}\n    n -= 64",
    "from end to end": "for j in range(load(begins[block.x]), load(ends[block.x])):\n    {it}",
    "their difference": "begin = load(begins[block.x])\nfor j in range(load(ends[block.x]) - begin):\n    {it}",
    "each in a loop": "for b in range(block.x, B, grid.x):\n    for j in range(0, load(lengths[b]), 64):\n        {it}",
    "each rounded up": "for b in range(block.x, B, grid.x):\n    for j in range((load(lengths[b]) + 63) // 64):\n        {it}",
}
ASSUMED = "if arithmetic on numbers in memory, and counting up to them, does not wrap around"


def compiled(fill: str, take: str) -> Compilation:
    def body(words: str, it: str) -> str:
        return "\n".join(" " * 8 + line for line in words.replace("{it}", it).split("\n"))

    text = KERNEL.format(fill=body(fill, "p.producer_signal_and_step()"), take=body(take, "p.consumer_signal_and_step()"))
    return compile_source(Source("k.pipe", text), Options("sm_90a"))


@pytest.mark.parametrize(
    ("fill", "take"),
    [
        ("rounded up", "by ceildiv"),
        ("rounded up", "by steps"),
        ("by ceildiv", "by steps"),
        ("by hand", "rounded up"),
        ("by steps", "by hand"),
        ("from end to end", "their difference"),
        ("each in a loop", "each rounded up"),
    ],
)
def test_it_is_proved_if_they_fit(fill: str, take: str) -> None:
    state = compiled(WORDS[fill], WORDS[take])
    assert not state.failed, state.diagnostics
    assert ASSUMED in state.protocol["k"].sentence
    (proof,) = state.certificates.values()
    assert state.ptx is not None
    assert any(ASSUMED[3:] in one for one in accept(state.ptx, proof).assumptions)
    with pytest.raises(Refused):
        accept(state.ptx, replace(proof, assumptions=()))


@pytest.mark.parametrize(
    ("fill", "take"),
    [
        *((words,) * 2 for words in ("by ceildiv", "rounded up", "from end to end", "their difference")),
        ("what is left", "by ceildiv"),
    ],
)
def test_it_is_not_assumed_where_nothing_wraps(fill: str, take: str) -> None:
    """Or wraps in both roles alike."""
    state = compiled(WORDS[fill], WORDS[take])
    assert not state.failed
    assert " if " not in state.protocol["k"].sentence


@pytest.mark.parametrize(
    ("words", "old", "new"),
    [
        ("rounded up", "+ 63", "+ 64"),
        ("rounded up", "+ 63", "+ 62"),
        ("rounded up", "// 64", "// 32"),
        ("rounded up", "+ 63", "- 63"),
        ("by steps", "0, load", "1, load"),
        ("by hand", "seen < n", "seen <= n"),
        ("by hand", "+= 64", "+= 63"),
        ("by hand", "seen = 0", "seen = 64"),
        ("what is left", "n > 0", "n > 1"),
        ("what is left", "load(lengths[block.x])", "load(lengths[0])"),
        ("rounded up", "load(lengths[block.x])", "load(begins[block.x])"),
    ],
)
def test_its_neighbour_is_not(words: str, old: str, new: str) -> None:
    assert old in WORDS[words]
    assert compiled(WORDS[words].replace(old, new), WORDS["by ceildiv"]).failed
    assert compiled(WORDS["by ceildiv"], WORDS[words].replace(old, new)).failed


def test_part_of_a_number_is_no_sum_that_fits() -> None:
    """A mask of which one role looks at some bits."""
    text = """kernel k(masks: tensor[{kind}, B]):
    grid(B)
    p = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces p:
        if {fill}:
            p.producer_signal_and_step()
    role take(warps=1) consumes p:
        if {take}:
            p.consumer_signal_and_step()
"""
    mask = "load(masks[block.x])"
    for kind, one, other in (
        ("i64", f"{mask} != 0", f"cast[i32]({mask}) != 0"),
        ("i64", f"{mask} != 0", f"cast[i32]({mask} + 1) != 1"),
        ("i32", f"{mask} != 0", f"({mask} << 16) >> 16 != 0"),
        ("i32", f"{mask} >> 16 > 0", f"({mask} << 8) >> 24 > 0"),
        ("i32", f"{mask} > 0", f"{mask} & 65535 != 0"),
    ):
        for fill, take in ((one, other), (other, one)):
            assert compile_source(Source("k.pipe", text.format(kind=kind, fill=fill, take=take)), Options("sm_90a")).failed


def test_sums_of_sizes_have_to_fit_as_before() -> None:
    """Beside what is loaded, a counter that steps up to a parameter: that no step wraps is asked of the launch."""
    text = """kernel k(n: i32, lengths: tensor[i32, B]):
    grid(B)
    p = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces p:
        for j in range((load(lengths[block.x]) + 63) // 64):
            p.producer_signal_and_step()
        for j in range(0, n, 64):
            p.producer_signal_and_step()
    role take(warps=1) consumes p:
        for j in range(ceildiv(load(lengths[block.x]), 64)):
            p.consumer_signal_and_step()
        for j in range((n + 63) // 64):
            p.consumer_signal_and_step()
"""
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    assert ASSUMED in state.protocol["k"].sentence and "n <= 2147483584" in state.protocol["k"].sentence


def test_numbers_that_do_not_fit_are_why_it_is_assumed() -> None:
    """The producer's sum is negative to the machine, and it fills nothing."""
    state = compiled(WORDS["rounded up"], WORDS["by ceildiv"])
    program = pipec.compile(state.source.text, arch="sm_90a")
    arrays = [np.array([numbers], np.int32) for numbers in (130, 0, 7)]
    program["k"](*arrays, device="sim")
    arrays[0][0] = 2147483647 - 20
    with pytest.raises(SimulationError, match="wait"):
        program["k"](*arrays, device="sim")
