"""Loops count as Python's do; and their PTX has no negation, which ptxas would lose in comparisons."""

import re
from itertools import product

import counting
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pipec
from pipec.api.program import CompiledKernel

KERNELS = counting.kernels()


@pytest.mark.sample(0.25)
@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_loops_count_as_python_does(number: int) -> None:
    source, forms = KERNELS[number]
    kernel = pipec.compile(source)["count"]
    for m, n in counting.SIZES:
        y = np.zeros((len(forms), 8), np.int32)
        kernel(y, m, n, device="sim")
        np.testing.assert_array_equal(y, counting.expected(forms, m, n))


@pytest.mark.parametrize("negation", ["-m", "-n", "0 - m", "min(m, -m)", "m * -1"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "i16"])
def test_negations_are_complements_plus_one(negation: str, dtype: str) -> None:
    source = f"""
kernel k(y: tensor[i32, 1, 8], p: i32, q: i32):
    grid(1)
    role all(warps=1):
        m = cast[{dtype}](p)
        n = cast[{dtype}](q)
        end = {negation}
        j = n
        while j > end:
            j = j - 1
        store.direct(y[0, 0], fill(cast[i32](j), i32, 1, 8))
"""
    program = pipec.compile(source)
    assert not re.search(r"\bneg\.s", program.ptx) and re.search(r"\bnot\.b(16|32|64)", program.ptx)
    y = np.zeros((1, 8), np.int32)
    program["k"](y, 5, 3, device="sim")
    assert y[0, 0] == min({"-n": -3}.get(negation, -5), 3)


LEAST, LARGEST = -(2**31), 2**31 - 1
CORNERS = sorted(
    each for base in (LEAST, -(2**30), 0, 2**30, LARGEST) for each in range(base - 4, base + 5) if LEAST <= each <= LARGEST
)
# Steps known only at launch, of three blocks, and constants; by both, starts below 0 and at a block's number.
STEPS = {
    "grid.x": 3,
    "grid.x + 5": 8,
    "grid.x * 268435456": 3 << 28,
    "grid.x + 2147483644": LARGEST,
    "1": 1,
    "7": 7,
    "-1": -1,
    "-5": -5,
}
STARTS = {"start": lambda start, _: start, "block.x": lambda _, block: block, "max(start, 0)": lambda start, _: max(start, 0)}
WALKS = tuple(product(STARTS, STEPS))
MOST_TURNS = 9


@pytest.fixture(scope="module")
def walks() -> CompiledKernel:
    """Each way once in a branch of its own, as some never end where others take few turns."""
    lines = ["kernel k(found: tensor[i32, 3, 2], way: i32, start: i32, stop: i32):", "    grid(3)", "    role all(warps=1):"]
    lines += ["        turns = 0", "        last = 77"]
    for number, (start, step) in enumerate(WALKS):
        lines += [
            f"        if way == {number}:",
            f"            for t in range({start}, stop, {step}):",
            "                turns = turns + 1",
            "                last = t",
        ]
    lines += [
        f"        store.direct(found[block.x, {column}], fill({name}, i32, 1, 1))"
        for column, name in enumerate(("turns", "last"))
    ]
    return pipec.compile("\n".join(lines) + "\n")["k"]


# A constant step from the last turn leaves the type, above and below.
@example(way=WALKS.index(("start", "7")), start=LARGEST - 3, stop=LARGEST)
@example(way=WALKS.index(("start", "-5")), start=LEAST + 8, stop=LEAST)
@settings(max_examples=300, deadline=None)
@given(way=st.sampled_from(range(len(WALKS))), start=st.sampled_from(CORNERS), stop=st.sampled_from(CORNERS))
def test_loops_between_the_ends_of_their_type_count_as_pythons_do(walks: CompiledKernel, way: int, start: int, stop: int) -> None:
    name, step = WALKS[way][0], STEPS[WALKS[way][1]]
    ranges = [range(STARTS[name](start, block), stop, step) for block in range(3)]
    if any(len(each) > MOST_TURNS for each in ranges):
        return
    found = np.full((3, 2), 9, np.int32)
    walks(found, way, start, stop, device="sim")
    assert found.tolist() == [[len(each), each[-1] if each else 77] for each in ranges]
