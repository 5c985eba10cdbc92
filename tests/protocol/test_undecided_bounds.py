"""What is advised where loops are not shown to go round equally often."""

import pytest

from pipec.driver import Options, compile_source
from pipec.kir.ir import Kernel
from pipec.protocol.reporting.explain import Places
from pipec.protocol.reporting.undecided_bounds import SAME_BOUNDS, advice
from pipec.source import Source

KERNEL = """kernel k(n: i32, m: i32, x: tensor[i32, B]):
    grid(1)
    p = ProducerConsumerPipeline(stages=2)
    q = ProducerConsumerPipeline(stages=2)
    role a(warps=1) produces p, q:
{first}
    role b(warps=1) consumes p, q:
{second}
"""
FILL, TAKE = "p.producer_signal_and_step()", "p.consumer_signal_and_step()"
Q_FILL, Q_TAKE = FILL.replace("p.", "q.", 1), TAKE.replace("p.", "q.", 1)


def kernel(first: str, second: str) -> tuple[Kernel, str]:
    bodies = {"first": first.replace("FILL", FILL), "second": second.replace("TAKE", TAKE)}
    indented = {name: "\n".join(" " * 8 + line for line in text.split("\n")) for name, text in bodies.items()}
    state = compile_source(Source("k.pipe", KERNEL.format(**indented)), Options(unchecked=True))
    assert state.kernels and state.ptx, state.diagnostics
    return state.kernels[0], state.ptx


def advised(first: str, second: str, name: str = "p") -> str:
    found, _ = kernel(f"{first}\n{Q_FILL}", f"{second}\n{Q_TAKE}")
    return advice(found.roles, [one for one in found.pipelines if one.name == name], name)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("for i in range(n):\n    FILL", "for i in range(m):\n    TAKE"),
        ("for i in range(n):\n    FILL", "i = 0\nwhile i < n:\n    TAKE\n    i += 1"),
        ("for i in range(n):\n    for j in range(m):\n        FILL", "for i in range(m):\n    for j in range(n):\n        TAKE"),
        ("for i in range(n):\n    FILL\n    FILL", "for i in range(n):\n    for j in range(2):\n        TAKE"),
        ("i = 0\nwhile i < n:\n    FILL\n    i += 1", "i = 1\nwhile i < n:\n    TAKE\n    i += 1"),
        ("s = n\nt = s + 1\nfor i in range(t):\n    FILL", "s = m\nt = s + 1\nfor i in range(t):\n    TAKE"),
    ],
)
def test_other_bounds_are_to_be_the_same(first: str, second: str) -> None:
    assert advised(first, second) == "let the loops of `a` and `b` around their stages of `p` have the same bounds"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("for i in range(n, m):\n    FILL", "for j in range(n,  m):\n    TAKE"),
        ("for i in range(n):\n    for j in range(m):\n        FILL", "for k in range(n):\n    for l in range(m):\n        TAKE"),
        ("i = 0\nwhile i < n:\n    FILL\n    i += 1", "i = 0\nwhile i < n:\n    TAKE\n    i += 1"),
        ("s = n\nt = s + 1\nfor i in range(t):\n    FILL", "s = n\nt = s + 1\nfor j in range(t):\n    TAKE"),
    ],
)
def test_bounds_that_are_the_same_are_not_the_matter(first: str, second: str) -> None:
    assert advised(first, second).endswith("(the loops around stages of `p` have the same bounds already)")


def test_conditions_of_hand_overs_are_named() -> None:
    loop = "for i in range(n):\n    if {}:\n        {}\n    if i > 5:\n        x0 = i"
    said = advised(loop.format("i >= 2", "FILL"), loop.format("i + 2 < n", "TAKE"))
    assert said.startswith("hand stages over without the conditions `i >= 2` in `a` and `i + 2 < n` in `b` (")
    said = advised(loop.format("i != m", "FILL"), loop.format("i != m", "TAKE"))
    assert said.startswith("hand stages over without the condition `i != m` in `a` and `b` (")


def test_all_pipelines_are_looked_at_where_none_is_named() -> None:
    filled, taken = "for i in range(n):\n    FILL", "for i in range(n):\n    TAKE"
    found, _ = kernel(f"{filled}\n{Q_FILL}", f"{taken}\n{Q_TAKE}")
    assert advice(found.roles, found.pipelines).endswith("(the loops have the same bounds already)")
    found, _ = kernel(f"{filled}\n{Q_FILL}", f"{taken}\nfor i in range(1):\n    {Q_TAKE}")
    assert advice(found.roles, found.pipelines) == SAME_BOUNDS


def test_a_register_is_named_by_what_computes_it() -> None:
    loop = "s = n\nfor i in range(n):\n    s = s * 3 + i\n    if s > m:\n        {}"
    found, ptx = kernel(loop.format("FILL") + "\n" + Q_FILL, loop.format("TAKE") + "\n" + Q_TAKE)
    places = Places(ptx, found)
    registers = {word.strip("%r,;") for word in ptx.split() if word.startswith("%r") and word.strip("%r,;").isdigit()}
    for role in found.roles:
        named = {places.variable(role, f"%r{number}") for number in registers}
        assert named == {"s", "i", None}
    assert places.variable(found.roles[0], "%r999") is None
