"""What roles compute from numbers in memory, in words of their own, is the same unless arithmetic wraps around: that it does not a proof
takes for granted, and says so, where it cannot do without. A kernel that could be wrong for small numbers, too, is not proved."""

import textwrap
import time

import numpy as np
import pytest

import pipec
from pipec.driver import Compilation, Options, compile_source
from pipec.protocol.judge import judge
from pipec.record import replace
from pipec.sim import SimulationError
from pipec.source import Source
from pipec.verify.accept import accept
from pipec.verify.checker.configuration import Refused
from pipec.verify.conditions import met
from pipec.verify.data import formula_of
from pipec.verify.terms import symbols_in

KERNEL = """
kernel k(lengths: tensor[i32, B], begins: tensor[i32, B], ends: tensor[i32, B]):
    grid(B)
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
WORDS = {
    "rounded up": "for j in range((load(lengths[block.x]) + 63) // 64):\n    {it}",
    "by ceildiv": "for j in range(ceildiv(load(lengths[block.x]), 64)):\n    {it}",
    "by steps": "for j in range(0, load(lengths[block.x]), 64):\n    {it}",
    "by hand": "n = load(lengths[block.x])\nseen = 0\nwhile seen < n:\n    {it}\n    seen += 64",
    "what is left": "n = load(lengths[block.x])\nwhile n > 0:\n    {it}\n    n -= 64",
    "from end to end": "for j in range(load(begins[block.x]), load(ends[block.x])):\n    {it}",
    "their difference": "begin = load(begins[block.x])\nfor j in range(load(ends[block.x]) - begin):\n    {it}",
    "no less than none": "n = max(load(ends[block.x]) - load(begins[block.x]), 0)\nfor j in range((n + 63) // 64):\n    {it}",
    "some, by steps": "for j in range(0, load(ends[block.x]) - load(begins[block.x]), 64):\n    {it}",
    "each in a loop": "for b in range(block.x, B, grid.x):\n    for j in range(0, load(lengths[b]), 64):\n        {it}",
    "each rounded up": "for b in range(block.x, B, grid.x):\n    for j in range((load(lengths[b]) + 63) // 64):\n        {it}",
}
ASSUMED = "if arithmetic on numbers in memory, and counting up to them, does not wrap around"


def body(words: str, does: tuple[str, str]) -> str:
    lines = []
    for line in words.split("\n"):
        lines += [line.replace("{it}", one) for one in does] if "{it}" in line else [line]
    return textwrap.indent("\n".join(lines), " " * 8)


def compiled(fill: str, take: str) -> Compilation:
    text = KERNEL.format(fill=body(fill, FILLED), take=body(take, TAKEN))
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
        ("no less than none", "some, by steps"),
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
    mask = "load(masks[block.x])"
    for kind, one, other in (
        ("i64", f"{mask} != 0", f"cast[i32]({mask}) != 0"),
        ("i64", f"{mask} != 0", f"cast[i32]({mask} + 1) != 1"),
        ("i32", f"{mask} != 0", f"({mask} << 16) >> 16 != 0"),
        ("i32", f"{mask} >> 16 > 0", f"({mask} << 8) >> 24 > 0"),
        ("i32", f"{mask} > 0", f"{mask} & 65535 != 0"),
    ):
        for fill, take in ((one, other), (other, one)):
            words = [body(f"if {asked}:\n    {{it}}", does) for asked, does in ((fill, FILLED), (take, TAKEN))]
            text = KERNEL.format(fill=words[0], take=words[1]).replace("lengths: tensor[i32", f"masks: tensor[{kind}")
            assert compile_source(Source("k.pipe", text), Options("sm_90a")).failed


OF_NUMBERS = "lengths: tensor[i32, B], begins: tensor[i32, B], a: tensor[i32, M], c: tensor[i32, L]"
# By what is not about numbers in memory, or is no arithmetic on them: what one role asks in a loop, and another one.
NOT_ABOUT_NUMBERS = {
    "counter and size": ("i + M < L", "i < L - M"),
    "multiple of a counter": ("i * 1048576 < M", "i < ceildiv(M, 1048576)"),
    "lowest bits": ("load(begins[block.x]) << 28 < 0", "load(begins[block.x]) < 0"),
    "sign bit": ("load(begins[block.x]) ^ -2147483648 < i ^ -2147483648", "load(begins[block.x]) < i"),
    "bit at a number": ("(1 << load(begins[block.x])) - 1 > 0", "1 << load(begins[block.x]) > 1"),
    "size that is chosen": ("x + M + 5 > 0", "x > -5 - M"),
}


@pytest.mark.parametrize("words", NOT_ABOUT_NUMBERS)
def test_sizes_and_bits_that_do_not_fit_are_not_assumed_to(words: str) -> None:
    """A role that goes wrong at large sizes, whatever is in memory, or at numbers as small as 8."""
    lines = ["x = M", "if load(begins[block.x]) > 0:", "    x = L", "for i in range(load(lengths[block.x])):"]
    one, other = (
        body("\n".join((*lines, f"    if {asked}:", "        {it}")), does)
        for asked, does in zip(NOT_ABOUT_NUMBERS[words], (FILLED, TAKEN), strict=True)
    )
    text = KERNEL.format(fill=one, take=other).replace(
        "lengths: tensor[i32, B], begins: tensor[i32, B], ends: tensor[i32, B]", OF_NUMBERS
    )
    state = compile_source(Source("k.pipe", text), Options("sm_90a"))
    assert [each.code for each in state.diagnostics] == ["E0604"]


def test_a_small_number_beside_a_large_size_goes_wrong() -> None:
    """Which is why that is not assumed: of these 5 turns the producer fills 4 stages, and the consumer takes none."""
    text = """kernel k(m: i32, lengths: tensor[i32, B]):
    grid(B)
    p = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces p:
        for i in range(load(lengths[block.x])):
            if i + m < 0:
                p.producer_signal_and_step()
    role take(warps=1) consumes p:
        for i in range(load(lengths[block.x])):
            if i < 0 - m:
                p.consumer_signal_and_step()
"""
    assert compile_source(Source("k.pipe", text), Options("sm_90a")).failed
    program = pipec.compile(text, arch="sm_90a", allow_undecided=True)
    program["k"](7, np.array([5], np.int32), device="sim")
    with pytest.raises(SimulationError, match="wait"):
        program["k"](2147483647, np.array([5], np.int32), device="sim")


def test_a_loop_over_rows_of_lengths_is_asked_of_the_launch() -> None:
    """What says which number is loaded counts up to a size, which is the number of blocks here."""
    walk = "b = block.x\nwhile b < B:\n    for j in {}:\n        {{it}}\n    b += grid.x"
    state = compiled(walk.format("range(0, load(lengths[b]), 64)"), walk.format("range((load(lengths[b]) + 63) // 64)"))
    assert not state.failed, state.diagnostics
    assert ASSUMED in state.protocol["k"].sentence and state.plans is not None
    asked = [formula_of(one) for one in state.plans[0].interface.conditions]
    for blocks, right in ((100, True), (1 << 30, True), ((1 << 30) + 1, False)):
        assert all(met(one, {"B": blocks, "grid.x": blocks}) for one in asked) == right


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


def loop(to: str, label: str, counter: str, step: int) -> str:
    """Two warps meet in each turn, up to a number in a register."""
    return f"""
  mov.u32 {counter}, 0;
  setp.le.s32 %p1, {to}, 0;
  @%p1 bra END_{label};
{label}:
  bar.sync 1, 64;
  add.s32 {counter}, {counter}, {step};
  setp.lt.s32 %p1, {counter}, {to};
  @%p1 bra {label};
END_{label}:
"""


@pytest.mark.parametrize("second", ["%r4", "%r5"])
def test_a_register_of_two_loops_counts_up_to_a_size_in_one_of_them(second: str) -> None:
    """That it does not wrap around there is asked of the launch, whichever register the other loop has."""
    text = f"""
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 numbers, .param .u32 m)
.reqntid 64
{{
  .reg .pred %p<3>; .reg .b32 %r<10>; .reg .b64 %rd<2>;
  ld.param.u64 %rd0, [numbers];
  cvta.to.global.u64 %rd1, %rd0;
  ld.param.u32 %r1, [m];
  ld.global.u32 %r2, [%rd1];
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p0, %r0, 32;
  @%p0 bra A;
  add.s32 %r6, %r1, 63;
  shr.u32 %r7, %r6, 6;
{loop("%r7", "FIRST_B", "%r4", 1)}
  add.s32 %r8, %r2, 63;
  shr.s32 %r9, %r8, 6;
{loop("%r9", "SECOND_B", "%r4", 1)}
  bra DONE;
A:
{loop("%r1", "FIRST_A", "%r4", 64)}
{loop("%r2", "SECOND_A", second, 64)}
DONE:
  ret;
}}
"""
    found = judge(text, "k", asked=lambda conditions: not any("ld." in repr(one) for one in conditions))
    assert found.certificate is not None and found.accepted is not None
    assert "numbers" in [one.kind for one in found.accepted.assumptions]
    assert {symbol.name for one in found.certificate.assumes for symbol in symbols_in(one)} == {"m"}


# Beside a length that is rounded up, which takes the assumption: turns as many as a size says, of which some are those in which what a turn
# counts is less than a number in memory. It goes on beyond that number.
BEYOND = """
kernel k(n: i32, m: i32, lengths: tensor[i32, B], ends: tensor[i32, B]):
    grid(B)
    p = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces p:
        for j in range((load(lengths[block.x]) + 63) // 64):
            p.producer_signal_and_step()
{fill}
    role take(warps=1) consumes p:
        for j in range(0, load(lengths[block.x]), 64):
            p.consumer_signal_and_step()
{take}
"""
LAST = "load(ends[block.x])"
# The words of the two roles, and sizes: those that fit, and those that do not.
GOES_ON = {
    "steps": (
        f"c = 0\nfor i in range(n):\n    if c < {LAST}:\n        {{it}}\n    c += 1048576",
        f"c = cast[i64](0)\nfor i in range(n):\n    if c < cast[i64]({LAST}):\n        {{it}}\n    c += 1048576",
        {"n": 2048, "m": 0},
        {"n": 2049, "m": 0},
    ),
    "from a parameter": (
        f"c = m\nfor i in range(n):\n    if c < {LAST}:\n        {{it}}\n    c += 1",
        f"for i in range(n):\n    if cast[i64](i) + cast[i64](m) < cast[i64]({LAST}):\n        {{it}}",
        {"n": 5, "m": 2147483640},
        {"n": 9, "m": 2147483640},
    ),
    "multiples": (
        f"for i in range(n):\n    if 1048576 * i < {LAST}:\n        {{it}}",
        f"for i in range(n):\n    if 1048576 * cast[i64](i) < cast[i64]({LAST}):\n        {{it}}",
        {"n": 2048, "m": 0},
        {"n": 2049, "m": 0},
    ),
    "two counters": (
        f"for i in range(n):\n    for j in range(m):\n        if i + j < {LAST}:\n            {{it}}",
        f"for i in range(n):\n    for j in range(m):\n        if cast[i64](i) + cast[i64](j) < cast[i64]({LAST}):\n            {{it}}",
        {"n": 3, "m": 2147483640},
        {"n": 1 << 30, "m": (1 << 30) + 2},
    ),
}


def beyond(fill: str, take: str) -> str:
    words = (body(one, (f"p.{side}_signal_and_step()",)) for one, side in ((fill, "producer"), (take, "consumer")))
    return BEYOND.format(fill=next(words), take=next(words))


@pytest.mark.parametrize("words", GOES_ON)
def test_a_counter_that_goes_on_beyond_a_number_is_asked_of_the_launch(words: str) -> None:
    """Whatever is in memory: it comes round to numbers below."""
    fill, take, right, wrong = GOES_ON[words]
    state = compile_source(Source("k.pipe", beyond(fill, take)), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    assert ASSUMED in state.protocol["k"].sentence and state.plans is not None
    asked = [formula_of(one) for one in state.plans[0].interface.conditions]
    numbers = {"B": 1, "grid.x": 1}
    assert all(met(one, {**numbers, **right}) for one in asked)
    assert not all(met(one, {**numbers, **wrong}) for one in asked)


def test_a_counter_that_comes_round_to_small_numbers_is_why_it_is() -> None:
    fill, take, _, _ = GOES_ON["steps"]
    program = pipec.compile(beyond(fill, take), arch="sm_90a")
    numbers = np.array([3], np.int32), np.array([5], np.int32)
    program["k"](2048, 0, *numbers, device="sim")
    with pytest.raises(ValueError, match="n <= 2048"):
        program["k"](2049, 0, *numbers, device="sim")


# Behind a sum of numbers in memory, what is counted on, and whether what that comes to is then known to fit.
COUNTED_ON = {
    "as often as a size says": ("for i in range(m):\n    if c < {last}:\n        {{it}}\n    c += 1048576", False),
    "not at all": ("for i in range(m):\n    if c < {last}:\n        {{it}}", True),
    "up to a number": ("while c < {last}:\n    {{it}}\n    c += 1048576", True),
}


@pytest.mark.parametrize("words", COUNTED_ON)
def test_a_sum_of_numbers_fits_but_not_all_that_is_counted_on_from_it(words: str) -> None:
    """With 0 in memory 2,048 steps wrap around all the same."""
    walk, fits = COUNTED_ON[words]
    walk = f"c = {{zero}}\nfor i in range(n):\n    c += {{each}}\n{walk}"
    fill = walk.format(zero="0", each="load(ends[i])", last=LAST)
    take = walk.format(zero="cast[i64](0)", each="cast[i64](load(ends[i]))", last=f"cast[i64]({LAST})")
    state = compile_source(Source("k.pipe", beyond(fill, take)), Options("sm_90a"))
    assert [each.code for each in state.diagnostics] == ([] if fits else ["E0604"])
    assert not fits or ASSUMED in state.protocol["k"].sentence


@pytest.mark.parametrize(
    "words",
    [
        f"c = 0\nwhile c < {LAST}:\n    {{it}}\n    c += 1048576",
        f"c = 0\nwhile c < min({LAST}, n):\n    {{it}}\n    c += 1048576",
        f"c = {LAST}\nwhile c > 0:\n    {{it}}\n    c -= 1048576",
        f"c = 0\ni = 0\nwhile max(c, i) < {LAST}:\n    {{it}}\n    c += 1048576\n    i += 1",
    ],
)
def test_a_counter_that_ends_at_a_number_is_not(words: str) -> None:
    other = words.replace("c = 0", "c = cast[i64](0)").replace(f"c = {LAST}", f"c = cast[i64]({LAST})")
    other = other.replace(f"c < {LAST}", f"c < cast[i64]({LAST})").replace(
        f"c < min({LAST}, n)", f"c < cast[i64](min({LAST}, n))"
    )
    other = other.replace(f"max(c, i) < {LAST}", f"max(c, cast[i64](i)) < cast[i64]({LAST})")
    state = compile_source(Source("k.pipe", beyond(words, other)), Options("sm_90a"))
    assert not state.failed, state.diagnostics
    sentence = state.protocol["k"].sentence
    assert ASSUMED in sentence and "for all sizes, if" in sentence


def test_what_grows_on_each_way_back_is_not_followed_far() -> None:
    """A loop that a compiler unrolls counts chunks by quotients of quotients, which were written out for minutes."""
    text = """kernel k(ends: tensor[i32, G], y: tensor[f32, M, N]):
    grid(G)
    role all(warps=4):
        first = load(ends[block.x])
        for m in range(first, load(ends[block.x + 1]), 32):
            store.direct(y[m, 0], fill(1.0, f32, 32, 32))
"""
    before = time.process_time()
    assert compile_source(Source("k.pipe", text), Options("sm_100a")).plans is not None
    assert time.process_time() - before < 20
