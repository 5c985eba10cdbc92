"""Loops inside each other, the innermost of which counts elements of K by blocks, against one loop over the product of their bounds."""

import pytest

from pipec.protocol.restating.blocks import with_blocks
from pipec.verify.network import Edge, End, Process, State
from pipec.verify.network import Test as Branch
from pipec.verify.terms import Apply, Compare, Linear, Symbol, add, atom, floor, symbols_in
from tests.protocol.test_spellings import outcome
from tests.verify.interpret import holds

TWO = "for r in range(N):\n    for c in range(0, M, 64):\n        STAGE"
THREE = "for r in range(N):\n    for s in range(N):\n        for c in range(0, M, 64):\n            STAGE"
FLAT = "for i in range(N * ceildiv(M, 64)):\n    STAGE"
NESTED = [
    TWO,
    "for r in range(N):\n    c = 0\n    while c < M:\n        STAGE\n        c += 64",
    "for r in range(N):\n    c = 64\n    while c - 64 < M:\n        STAGE\n        c += 64",
    "r = N\nwhile r > 0:\n    for c in range(0, M, 64):\n        STAGE\n    r -= 1",
]


@pytest.mark.parametrize("nested", NESTED)
@pytest.mark.parametrize("fills", [True, False])
def test_it_is_proved(nested: str, fills: bool) -> None:
    assert outcome(*((nested, FLAT) if fills else (FLAT, nested))) == "proved"


def test_three_loops_are_proved() -> None:
    assert outcome(THREE, "for i in range(N * N * ceildiv(M, 64)):\n    STAGE") == "proved"


@pytest.mark.parametrize("bound", ["n * N", "n * ceildiv(N, 64)"])
def test_a_parameter_that_may_be_negative_is_a_factor(bound: str) -> None:
    """The product must not fall below the least number either: of a launch that is asked, too."""
    inner = "range(N)" if bound == "n * N" else "range(0, N, 64)"
    nested = f"for r in range(n):\n    for c in {inner}:\n        STAGE"
    assert outcome(nested, f"for i in range({bound}):\n    STAGE") == "proved"


WRONG = [
    (TWO, FLAT.replace("ceildiv(M, 64)", "(M // 64)")),
    (TWO, FLAT.replace("ceildiv(M, 64)", "ceildiv(M, 32)")),
    (TWO, FLAT.replace("N * ceildiv(M, 64)", "N * ceildiv(M, 64) + 1")),
    (TWO.replace("range(0, M, 64)", "range(0, M + 1, 64)"), FLAT),
    (TWO.replace("range(0, M, 64)", "range(64, M, 64)"), FLAT),
    (TWO.replace("range(0, M, 64)", "range(0, M, 48)"), FLAT),
    (TWO.replace("range(0, M, 64)", "range(32, M, 64)"), FLAT),
]


@pytest.mark.parametrize(("one", "other"), WRONG)
def test_its_neighbour_is_not(one: str, other: str) -> None:
    assert outcome(one, other) != "proved"


K, N, C = (atom(Symbol(name)) for name in ("k", "n", "0:%c"))
BLOCKS = floor(add(K, Linear(63)), 64)


def loop(first: int, step: int, further: Linear) -> Process:
    begin, onwards = Edge(1, ((Symbol("0:%c"), Linear(first)),)), Edge(1, ((Symbol("0:%c"), add(C, Linear(step))),))
    states = (
        State(1, Branch(Compare("ge", K), begin, begin)),
        State(2, Branch(Compare("ge", further), onwards, Edge(2)), (Symbol("0:%c"),)),
        State(3, End()),
    )
    return Process("a", 32, (0,), (0,), 0, states)


@pytest.mark.parametrize("further", [-65, -64, 0, -129])
@pytest.mark.parametrize("sign", [1, -1])
def test_blocks_ask_the_same(further: int, sign: int) -> None:
    bound = add(Linear(further), K, sign)
    process = loop(0, 64, add(bound, C, -sign))
    made, other = with_blocks((process, loop(0, 64, atom(Apply("mul.lo.s32", (N, floor(bound, 64)))))))
    assert made.meant and not other.meant
    asked, said = (one.states[1].action for one in (process, made.process))
    assert isinstance(asked, Branch) and isinstance(said, Branch)
    (register,) = symbols_in(said.condition) - {Symbol("k")}
    for k in range(200):
        for blocks in range(-2, 5):
            numbers = {"k": k, "0:%c": 64 * blocks, register.name: blocks}
            assert holds(asked.condition, numbers) == holds(said.condition, numbers)


@pytest.mark.parametrize("process", [loop(1, 64, add(K, C, -1)), loop(0, 1, add(K, C, -1)), loop(0, 48, add(K, C, -1))])
def test_other_counters_stay_as_they_are(process: Process) -> None:
    assert with_blocks((process, loop(0, 64, atom(Apply("mul.lo.s32", (N, BLOCKS))))))[0].process == process
