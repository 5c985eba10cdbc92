"""Whether a TMA store begins in front of its tensor: what is shown of random kernels, beside the coordinates counted one by one."""

import itertools
import random

import pytest
from index_kernels import TEMPLATES, Template, filled
from test_blocks import planned

from pipec.kir.global_memory import accesses
from pipec.kir.global_memory.access_pairs import Answer
from pipec.kir.global_memory.starts import may_be_in_front, starts_inside

OWN = (
    Template("step", ("1",), ("for i in range({0|-8|n}, {R|m|n}, {8|64})",), ("i {+ 0|- 8|- 1}", "0")),
    Template("back", ("1",), ("for i in range({m|n})",), ("({m|n} - 1 - i) * 8", "{0|i * 64}")),
    Template("down", ("1",), ("for i in range({n - 1|n|m}, {-1|-2|0|m}, {-1|-2})",), ("i * 8", "{0|i // 2 * 64}")),
    Template("down in rows", ("1",), ("for i in range({(n - 1) * 8|n * 8}, {-1|-9|m}, {-8|-4|-1})",), ("i {+ 0|- 1}", "0")),
    Template("counted", ("2",), ("for i in range({n|m})",), ("(block.x * {n|m} + i {+ 0|- 1}) * 8", "0")),
    Template("guarded", ("2",), ("if {n > 0|n >= 0|n > -2|m > 0}",), ("block.x * {n|m} * 8 + {n - 1|n|n - 2}", "0")),
    Template("below", ("3",), ("for i in range(n)", "if i {<|<=|!=} {m|n}"), ("({m|n} - i {- 1|+ 0}) * 8", "0")),
    Template(
        "while", ("3",), ("while t + {grid.x|1|m} < {m|n}",), ("t * 8", "0"),
        lets=("t = block.x - {grid.x|1|n} + {grid.x|1|m}", "t = t + {grid.x|1|n}"),
    ),
    Template("while down", ("1",), ("while t {>|>=} {0|-1|m}",), ("(t {- 1|- 2|+ 0}) * 8", "0"), lets=("t = {n|m}", "t = t - {1|2}")),
    Template(
        "while down in rows", ("1",), ("while t {>=|>} {8|7|0}",), ("t {- 8|- 9|+ 0}", "0"), lets=("t = {n * 8|R|m}", "t = t - {8|4}")
    ),
    Template(
        "nested", ("1",), ("for j in range(0, {R|n}, {16|8})", "for i in range({0|-8|m}, 16, 8)"), ("j + i {+ 0|- 8}", "0")
    ),
    Template("shares", ("3",), ("for i in range(block.x * {R|n} // grid.x, (block.x + 1) * {R|m} // grid.x)",), ("i * 8", "0")),
    Template("of a half", ("1",), ("for i in range({n|m})",), ("({n|m} - 1 - i) // 2 * 8 {+ 0|- 8}", "(i - {m|1}) % 2 * 64")),
)  # fmt: skip
SIZES = [
    {"n": n, "m": m, "R": rows, "C": 130} for n, m in itertools.product((-3, 0, 1, 2, 5), (-2, 0, 1, 4)) for rows in (0, 8, 40)
]
KERNELS = 12  # of each template


def answer(text: str) -> Answer | None:
    """None if the kernel is refused before, or no coordinate is in question."""
    kernel = planned(text)
    found = list(may_be_in_front(accesses.collect(kernel))) if kernel is not None else []
    return starts_inside(kernel, *found[0][:2]) if kernel is not None and found else None


@pytest.mark.parametrize("template", (*TEMPLATES, *OWN), ids=lambda one: one.name)
def test_nothing_is_shown_that_is_not_so(template: Template) -> None:
    draw = random.Random(template.name)
    for _ in range(KERNELS):
        kernel = filled(template, draw, 0.5)
        if answer(kernel.text) in ("shown", "fitting"):
            for sizes in SIZES:
                for who, corner in kernel.corners(sizes):
                    assert min(corner) >= 0, (kernel.text, sizes, who, corner)


@pytest.mark.parametrize("template", OWN, ids=lambda one: one.name)
def test_what_is_right_is_shown(template: Template) -> None:
    kernel = filled(template, random.Random(1), 1.0)
    assert all(min(corner) >= 0 for sizes in SIZES for _, corner in kernel.corners(sizes))
    assert answer(kernel.text) in ("shown", "fitting", None)
