"""Divisors that are at least 1 by a condition of launches: numbers of splits, heads and batches that are parameters, and sizes."""

import textwrap

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source
from pipec.verify.accept import accept
from pipec.verify.reader.readings import readings_as_stated
from pipec.verify.reader.values.interpretation import LIMITS

TEXT = """
kernel k(x: tensor[f32, M, N], y: tensor[f32, K], lengths: tensor[i32, S], B: i32, H: i32, unread: i32):
    grid({grid})
    assume({condition})
    kb = ceildiv(K, 64)
    tiles = ceildiv(M, 128) * ceildiv(N, 128)
    share = ceildiv(tiles * kb, grid.x)
    p = ProducerConsumerPipeline(stages=3)
    role load(warps=1) produces p:
{load}
    role take(warps=1) consumes p:
{take}
"""
FILL, TAKE = "p.producer_signal_and_step()", "p.consumer_signal_and_step()"
SPLIT = "4, 4, H"
RANGE = "for k in range(block.z * {per}, min(block.z * {per} + {per}, kb)):\n    {it}"
COUNT = "n = min({per}, kb - block.z * {per})\nfor k in range(n):\n    {it}"
LEFT = "n = max(min({per}, kb - block.z * {per}), 0)\nwhile n > 0:\n    {it}\n    n -= 1"
PER, BY_HAND = "ceildiv(kb, H)", "((kb + H - 1) // H)"
LENGTH = "for t in range(block.x, B * H, grid.x):\n    for k in range(load(lengths[{which}])):\n        {it}"
SHARE = """
at = block.x * share
last = min(at + share, tiles * kb)
while at < last:
    n = min(kb - at % kb, last - at{less})
    for k in range(n):
        {it}
    at += n
""".strip()
ALWAYS, SCALARS = "H > 0", "H > 0 and B > 0"


def said(grid: str, condition: str, load: str, take: str, *, unchecked: bool = False) -> tuple[list[str], str, object]:
    roles = {
        name: textwrap.indent(text.format(it=it), " " * 8) for name, text, it in (("load", load, FILL), ("take", take, TAKE))
    }
    text = TEXT.format(grid=grid, condition=condition, **roles)
    state = compile_source(Source("k.pipe", text), Options("sm_90a", unchecked=unchecked))
    return [one.code for one in state.diagnostics], state.ptx or "", state.certificates.get("k")


def _of(text: str, **known: str) -> str:
    """With the places for `it` left."""
    return text.format(it="{it}", **known)


RIGHT = {
    "a range and a count": (SPLIT, ALWAYS, _of(RANGE, per=PER), _of(COUNT, per=PER)),
    "rounded up by hand": (SPLIT, ALWAYS, _of(RANGE, per=BY_HAND), _of(COUNT, per=PER)),
    "a range and what is left": (SPLIT, ALWAYS, _of(RANGE, per=PER), _of(LEFT, per=PER)),
    "joined with another condition": (SPLIT, "H > 0 and H <= 64", _of(RANGE, per=PER), _of(COUNT, per=PER)),
    "joined with one of a parameter that is not read": (SPLIT, "unread > 3 and H >= 1", _of(RANGE, per=PER), _of(COUNT, per=PER)),
    "remainders": ("4", SCALARS, _of(LENGTH, which="t % B"), _of(LENGTH, which="t - t // B * B")),
    "shares of blocks": ("4", "K > 0", _of(SHARE, less=""), _of(SHARE, less="")),
}
WRONG = {
    "another share": (SPLIT, ALWAYS, _of(RANGE, per=PER), _of(COUNT, per="ceildiv(kb + 1, H)")),
    "rounded down": (SPLIT, ALWAYS, _of(RANGE, per="(kb // H)"), _of(COUNT, per=PER)),
    "one more": (SPLIT, ALWAYS, _of(RANGE, per=PER), _of(COUNT, per=PER).replace("range(n)", "range(n + 1)")),
    "the next one's": ("4", SCALARS, _of(LENGTH, which="t % B"), _of(LENGTH, which="(t + 1) % B")),
    "by the other parameter": ("4", SCALARS, _of(LENGTH, which="t % B"), _of(LENGTH, which="t % H")),
    "one less of a share": ("4", "K > 0", _of(SHARE, less=""), _of(SHARE, less=" - 1")),
}


@pytest.mark.parametrize("name", RIGHT)
def test_it_is_proved(name: str) -> None:
    codes, ptx, proof = said(*RIGHT[name])
    assert codes == []
    assert accept(ptx, proof)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", WRONG)
def test_its_neighbour_is_not(name: str) -> None:
    assert said(*WRONG[name])[0] != []


def test_a_text_is_also_read_as_if_conditions_told_no_sign() -> None:
    """A proof may add the condition that does, to a text in which the reader did not know it."""
    _, ptx, _ = said("4, 4, H + 1", *RIGHT["a range and a count"][1:])
    plain = [one for one in readings_as_stated(ptx, "k") if one.how.limit == LIMITS[0]]
    assert [one.how.stated for one in plain] == [len(plain[0].interface.conditions), 0]
    assert plain[0].network.processes != plain[1].network.processes


@pytest.mark.parametrize(("grid", "least"), [(SPLIT, 1), ("4, 4, H + 1", -(1 << 31)), ("4, 4, max(H, 4)", -(1 << 31))])
def test_a_number_of_blocks_is_positive_without_a_condition(grid: str, least: int) -> None:
    """Wherever a thread runs there is one; one less than that may be none."""
    _, ptx, _ = said(grid, "K > 0", *RIGHT["a range and a count"][2:], unchecked=True)
    assert next(iter(readings_as_stated(ptx, "k"))).ranges["k_scalar_H"][0] == least
