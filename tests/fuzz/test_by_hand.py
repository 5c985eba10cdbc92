"""Kernels written by hand to mislead whoever proves: each goes wrong, or does not, by one detail that is easy to overlook.

`PROVED` must be proved, with the condition on the launch that it needs. `REFUSED` must be refused with the code given; where none is
given, the sizes at which they go wrong are out of reach of a search, and it is enough that nothing is proved.
"""

import re

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

_STAGE = re.compile(r"\b([pqr])([+-])(?=\s*$)")
_OPERATIONS = {"+": "producer_signal_and_step()", "-": "consumer_signal_and_step()"}


def _operation(found: re.Match[str]) -> str:
    return f"{found[1]}.{_OPERATIONS[found[2]]}"


def _two_roles(a: str, b: str, head: str) -> str:
    """`p+` fills a stage and `p-` reads one; `a` and `b` are the roles' lines, `;` between them. Pipelines go from `a` to `b`, but `r`."""
    head = head if "p = " in head else f"p = 2; {head}"
    pipes = re.findall(r"\b([pqr]) = (\d)", head)
    lines = [line.strip() for line in head.split(";") if line.strip()]
    lines = [re.sub(r"^([pqr]) = (\d)$", r"\1 = ProducerConsumerPipeline(stages=\2)", line) for line in lines]
    text = "kernel k(n: i32, m: i32, x: tensor[f32, M, 64]):\n    grid(1)\n" + "".join(f"    {line}\n" for line in lines)
    forth, back = ", ".join(name for name, _ in pipes if name != "r"), ", ".join(name for name, _ in pipes if name == "r")
    for name, body, fills, reads in (("a", a, forth, back), ("b", b, back, forth)):
        declared = (f" consumes {reads}" if reads else "") + (f" produces {fills}" if fills else "")
        text += f"    role {name}(warps=1){declared}:\n"
        text += "".join(f"        {_STAGE.sub(_operation, line)}\n" for line in body.split(";"))
    return text


def _verdict(text: str) -> tuple[str, list[str], str]:
    state = compile_source(Source("k.pipe", text), Options("sm_100a"))
    said = "refused" if state.failed else state.protocol["k"].outcome
    return said, [one.code for one in state.diagnostics], "" if state.failed else state.protocol["k"].sentence


# name: lines of the two roles, what stands in front of them, what the launch is held to.
PROVED: dict[str, tuple[str, str, str, str]] = {
    "the sum wraps back": ("for i in range(n + 2147483647 - 2147483647):;    p+", "for i in range(n):;    p-", "", ""),
    "a product that is 0 in 32 bits": ("for i in range(n * 65536 * 65536):;    p+", "for i in range(n - n):;    p-", "", ""),
    "the last value of a loop": (
        "last = 0;for i in range(n):;    last = i + 1;for j in range(last):;    p+",
        "for i in range(n):;    p-",
        "",
        "",
    ),
    "counted down": ("c = n;while c > 0:;    c -= 1;    p+", "for i in range(n):;    p-", "", ""),
    "a remainder, shifted by one": ("if n % 4 == 3:;    p+", "if (n + 1) % 4 == 0:;    p-", "", ""),
    "bounds near the largest number": ("for i in range(n - 1, n + 1):;    p+", "p-;p-", "", "n <= 2147483646"),
    "a sum that the launch keeps small": (
        "if n > 0 and m > 0:;    if n + m > 0:;        p+",
        "if n > 0 and m > 0:;    p-",
        "",
        "m + n <= 2147483647",
    ),
    "the prologue is assumed": ("for i in range(n):;    p+", "p-;p-;p-;for i in range(3, n):;    p-", "assume(n > 2)", "n >= 3"),
    "twice, by assumption": ("for i in range(n):;    p+", "for i in range(m):;    p-;    p-", "assume(n == 2 * m)", "n"),
    "assumed by what is not": ("for i in range(min(n, 2)):;    p+", "p-;p-", "assume(not (n < 2))", "n >= 2"),
    "an answer for two": (
        "for i in range(n):;    p+;    p+;    r-",
        "for i in range(n):;    p-;    p-;    r+",
        "p = 1; r = 1",
        "",
    ),
    "three, then a signal": (
        "for i in range(n):;    p+;    p+;    p+;    q+",
        "for i in range(n):;    q-;    p-;    p-;    p-",
        "p = 3; q = 1",
        "",
    ),
    "as many as there is room for": (
        "for i in range(min(n, 2)):;    p+;for i in range(min(n, 2)):;    r-",
        "for i in range(min(n, 2)):;    p-;    r+",
        "p = 2; r = 1",
        "",
    ),
    # Right as far as the launch is held to sizes at which nothing wraps; at others the roles would not agree.
    "the condition does not wrap": (
        "for i in range(n):;    if i * 1048576 >= 0:;        p+;    else:;        p+;        p+",
        "for i in range(n):;    p-",
        "",
        "n <= 2048",
    ),
    "a size doubled": ("if M + M >= 0:;    p+", "p-", "", "M <= 1073741823"),
}
REFUSED: dict[str, tuple[str, str, str, str]] = {
    "doubled until it is 0": ("c = n;for i in range(31):;    c = c * 2;if c == 0:;    p+", "if n % 2 == 0:;    p-", "", "E0605"),
    # Sizes at which nothing wraps are too few to ask a launch for.
    "wraps in the third turn": (
        "for i in range(n):;    if i * 1073741824 >= 0:;        p+;    else:;        p+;        p+",
        "for i in range(n):;    p-",
        "",
        "E0604",
    ),
    "the smallest number, negated": ("if -2147483647 - n < 0:;    p+", "p-", "", ""),
    "a narrow copy": ("c = cast[i16](n);for i in range(cast[i32](c)):;    p+", "for i in range(n):;    p-", "", ""),
    "the low half of a long number": (
        "c = cast[i64](n) * 4294967296;for i in range(cast[i32](c)):;    p+",
        "for i in range(n):;    p-",
        "",
        "E0601",
    ),
    "read without its sign": ("c = cast[u32](n);if c < 2:;    p+", "if n < 2:;    p-", "", ""),
    "rounded to a float": ("if cast[f32](n) > 16777216.0:;    p+", "if n > 16777216:;    p-", "", ""),
    "the last value, one too small": (
        "last = 0;for i in range(n):;    last = i;for j in range(last):;    p+",
        "for i in range(n):;    p-",
        "",
        "E0601",
    ),
    "one more at one large size": ("for i in range(n):;    p+", "for i in range(n):;    p-;if n == 1000:;    p-", "", ""),
    "one more at every 97th": ("for i in range(n):;    p+", "for i in range(n):;    p-;if n % 97 == 96:;    p-", "", ""),
    "one more at a pair of sizes": (
        "for i in range(n):;    p+",
        "for i in range(n):;    p-;if n == 13 and m == 11:;    p-",
        "",
        "",
    ),
    "two negative bounds": ("for i in range(n):;    for j in range(m):;        p+", "for i in range(n * m):;    p-", "", ""),
    "assumed one too few": ("for i in range(n):;    p+", "p-;p-;p-;for i in range(3, n):;    p-", "assume(n > 1)", "E0601"),
    "assumed of either": ("for i in range(min(n, 2)):;    p+", "p-;p-", "assume(n >= 2 or m >= 2)", "E0601"),
    "more than there is room for": (
        "for i in range(min(n, 6)):;    p+;for i in range(min(n, 6)):;    r-",
        "for i in range(min(n, 6)):;    p-;    r+",
        "p = 2; r = 1",
        "E0601",
    ),
    "a signal that comes too late": (
        "for i in range(n):;    p+;    p+;    p+;    q+",
        "for i in range(n):;    q-;    p-;    p-;    p-",
        "p = 2; q = 1",
        "E0601",
    ),
    "both wait first": ("for i in range(n):;    r-;    p+", "for i in range(n):;    p-;    r+", "p = 2; r = 1", "E0601"),
    "steps past the end": (
        "c = n;while c > 0:;    c -= 3;    p+",
        "for i in range(ceildiv(n, 3)):;    p-;if n > 6:;    p-",
        "",
        "",
    ),
}


@pytest.mark.parametrize("name", PROVED)
def test_right_kernels_are_proved(name: str) -> None:
    a, b, head, held = PROVED[name]
    said, codes, sentence = _verdict(_two_roles(a, b, head))
    assert said == "proved" and held in sentence, (said, codes, sentence)


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_kernels_are_not_proved(name: str) -> None:
    a, b, head, code = REFUSED[name]
    said, codes, _ = _verdict(_two_roles(a, b, head))
    assert said == "refused" and (not code or codes == [code]), (said, codes)
    assert {*codes} <= {"E0601", "E0602", "E0604", "E0605"}, "refused for another reason than is meant"


LOADS = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(1)
    tiles = InputTilePipeline(TilePayload(u=tile[f32, 32, 64], v=tile[f32, 32, 64], w=tile[f32, 32, 64]), stages=3)
    gate = ProducerConsumerPipeline(stages=2)
    role consumer(warps=4) consumes tiles produces gate:
        for i in range(ceildiv(M, 96)):
            with tiles.consume() as s:
                gate.producer_signal_and_step()
                store(y[i * 96, 0], s.u)
                store(y[i * 96 + 32, 0], s.v)
                store(y[i * 96 + 64, 0], s.w)
    role producer(warps=1) produces tiles consumes gate:
        for i in range(ceildiv(M, 96)):
            with tiles.produce() as s:
                tma.load(s.u, x[i * 96, 0])
                tma.load(s.v, x[i * 96 + 32, 0])
                GATE
                tma.load(s.w, x[i * 96 + 64, 0])
"""
HELD = """
kernel k(a: tensor[bf16, 64, K], d: tensor[f32, 64, 64]):
    grid(1)
    ring = InputTilePipeline(TilePayload(a=tile[bf16, 64, 64], b=tile[bf16, 64, 64]), stages=STAGES)
    role load(warps=1) produces ring:
        for k in range(ceildiv(K, 192)):
            with ring.produce() as s, ring.produce() as t, ring.produce() as u:
                tma.load(s.a, a[0, k * 192])
                tma.load(s.b, a[0, k * 192])
                tma.load(t.a, a[0, k * 192 + 64])
                tma.load(t.b, a[0, k * 192 + 64])
                tma.load(u.a, a[0, k * 192 + 128])
                tma.load(u.b, a[0, k * 192 + 128])
    role comp(warps=4) consumes ring:
        acc = accumulator(f32, 64, 64)
        for k in range(ceildiv(K, 192)):
            for j in range(3):
                with ring.consume() as s:
                    mma(acc, s.a, s.b)
        store(d[0, 0], acc)
"""


def _said(text: str, arch: str = "sm_100a") -> tuple[str, list[str]]:
    state = compile_source(Source("k.pipe", text), Options(arch, allow_undecided=True))
    return "refused" if state.failed else state.protocol["k"].outcome, [one.code for one in state.diagnostics]


def test_a_stage_is_full_with_its_last_load() -> None:
    """The consumer signals when the stage is full, and the producer waits for that before the last of its loads."""
    gate = "if i > 0:\n                    gate.consumer_signal_and_step()"
    after = "        if M > 0:\n            gate.consumer_signal_and_step()\n"
    assert _said(LOADS.replace("GATE", gate) + after) == ("proved", [])
    assert _said(LOADS.replace("GATE", "gate.consumer_signal_and_step()")) != ("proved", [])


@pytest.mark.parametrize("stages", ["3", "4", "6"])
def test_a_producer_that_holds_three_stages(stages: str) -> None:
    """A release that waited for the next MMA would keep the third stage from a producer that has but three."""
    assert _said(HELD.replace("STAGES", stages), "sm_90a") == ("proved", [])
