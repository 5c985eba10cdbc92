"""Products that an MMA overwrites (E0804), beside what a walk through all iterations of the same loops loses."""

import random

import pytest
from test_values import GEMM, codes, gemm

CODE = "E0804"
MMA = "mma(acc, s.a, s.b, accumulate={})"
CONDITIONS = (
    "k > 0", "k > 1", "k != 0", "k != 2", "k >= 1", "k % 2 == 1", "k % 3 != 0", "r > 0", "r > 1", "r > 0 or k > 0",
    "r > 0 and k > 0", "r + k > 0", "r + k > 1", "r * 4 + k > 0", "k > 0 or r > 1", "k > r", "k == r or k > 0",
    "r > 0 or k % 2 == 1", "not (r == 0 and k == 0)", "k * r > 0", "r != 1 or k > 0", "False", "r != k or r > 0",
)  # fmt: skip


def loses(condition: str, outer: int, inner: int) -> bool:
    """Whether an MMA behind the first one overwrites."""
    steps = [(r, k) for r in range(outer) for k in range(inner)]
    return any(not eval(condition, {"r": r, "k": k}) for r, k in steps[1:])


def body(outer: str, inner: str, condition: str) -> tuple[str, ...]:
    return (
        f"for r in range({outer}):",
        f"    for k in range({inner}):",
        "        with input.consume() as s:",
        "            " + MMA.format(condition),
    )


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(
    ("outer", "inner"), [("n", "ceildiv(K, 64)"), ("3", "4"), ("1", "ceildiv(K, 64)"), ("n", "1"), ("2", "2")]
)
def test_loops(condition: str, outer: str, inner: str) -> None:
    """What is reported is lost at some sizes; where both bounds are known, what the first two iterations lose is reported."""
    counts = [[int(bound)] if bound.isdigit() else [1, 2, 3, 5] for bound in (outer, inner)]
    lost = any(loses(condition, r, k) for r in counts[0] for k in counts[1])
    reported = CODE in gemm(*body(outer, inner, condition))
    assert lost or not reported
    steps = [(r, k) for r in range(min(2, max(counts[0]))) for k in range(min(2, max(counts[1])))]
    second = [step for step in steps[1:] if step in ((0, 1), (1, 0))]
    assert reported or all(eval(condition, {"r": r, "k": k}) for r, k in second)


def drawn(seed: int) -> str:
    draw = random.Random(seed)

    def term() -> str:
        left, right = draw.choice(("k", "r", "r + k", "2 * r + k", "k % 2")), draw.randrange(3)
        return f"({left} {draw.choice(('>', '>=', '!=', '=='))} {right})"

    text = term()
    for _ in range(draw.randrange(3)):
        text = f"({text} {draw.choice(('and', 'or'))} {draw.choice(('', 'not '))}{term()})"
    return text


@pytest.mark.parametrize("seed", range(40))
def test_drawn_conditions(seed: int) -> None:
    condition = drawn(seed)
    found = gemm(*body("n", "ceildiv(K, 64)", condition))
    assert CODE not in found or any(loses(condition, r, k) for r in (1, 2, 3) for k in (1, 2, 3))
    # Together with the check of the first MMA: what is accepted is false in the first iteration and in no other that was looked at.
    if "E0802" not in found and "E0803" not in found:
        assert not eval(condition, {"r": 0, "k": 0})
        if CODE not in found:
            assert all(eval(condition, {"r": r, "k": k}) for r, k in ((0, 1), (1, 0)))


def test_the_second_of_two_overwrites_the_first() -> None:
    twice = ("for k in range(ceildiv(K, 64)):", "    with input.consume() as s:", "        " + MMA.format("k > 0"))
    assert CODE in gemm(*twice, "        " + MMA.format("k > 0"))
    assert CODE not in gemm(*twice, "        " + MMA.format("True"))
    assert CODE not in gemm(*twice, "        mma(acc, s.a, s.b)")


def test_a_first_product_in_front_of_the_loop() -> None:
    """The K blocks without the first one; a second product behind the first one, without a loop around them, overwrites it."""
    taken = ("with input.consume() as s:", "    " + MMA.format("False"))
    others = ("for k in range(1, ceildiv(K, 64)):", "    with input.consume() as s:", "        " + MMA.format("True"))
    assert {CODE, "E0001"}.isdisjoint(gemm(*taken, *others))
    assert CODE in gemm(*taken, "    " + MMA.format("False"), *others)
    assert CODE not in gemm(*taken, "    " + MMA.format("True"), *others)


def test_a_variable_that_counts() -> None:
    counted = (
        "i = 0",
        "for k in range(ceildiv(K, 64)):",
        "    with input.consume() as s:",
        "        " + MMA.format("i > {limit}"),
        "    i = i + 1",
    )
    assert CODE in gemm(*(line.format(limit=1) for line in counted))
    assert CODE not in gemm(*(line.format(limit=0) for line in counted))


def test_a_flag_that_is_never_set() -> None:
    flagged = (
        "more = False",
        "for k in range(ceildiv(K, 64)):",
        "    with input.consume() as s:",
        "        " + MMA.format("more"),
        "    more = {value}",
    )
    assert CODE in gemm(*(line.format(value="False") for line in flagged))
    assert CODE not in gemm(*(line.format(value="True") for line in flagged))


def test_an_inner_loop_that_has_no_iteration_at_first() -> None:
    """With two iterations outside, the first MMA is in the second one."""
    triangle = body("2", "r", "k > 0")
    assert CODE not in gemm(*triangle)
    assert CODE not in gemm("i = 0", *body("n", "i", "r > 0"), "    i += 1")


def test_under_a_condition_nothing_is_said() -> None:
    """An MMA of its own for the first block of K."""
    branches = (
        "for k in range(ceildiv(K, 64)):",
        "    with input.consume() as s:",
        "        if k == 0:",
        "            " + MMA.format("False"),
        "        else:",
        "            " + MMA.format("True"),
    )
    assert CODE not in gemm(*branches)


def test_a_stage_of_its_own_for_each() -> None:
    text = GEMM.replace("        with output.produce() as acc:\n{body}\n", "{body}\n").replace(
        "        with output.consume() as acc:\n            store(d[block.x * 128, block.y * 64], acc)",
        "        for t in range(n):\n            with output.consume() as acc:\n"
        "                store(d[block.x * 128, block.y * 64], acc)",
    )
    stages = (
        "        for t in range(n):",
        "            with output.produce() as acc:",
        "                for k in range(ceildiv(K, 64)):",
        "                    with input.consume() as s:",
        "                        " + MMA.format("k > 0"),
    )
    assert CODE not in codes(text.replace("{body}", "\n".join(stages)))
