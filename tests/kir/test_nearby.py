"""Every pair of accesses that may meet, in one iteration or in different ones, is among those that are said to be near each other."""

import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest

from pipec.driver import compile_source
from pipec.kir.global_memory.accesses import Access, RoleAccesses, collect, may_meet, not_compared
from pipec.kir.global_memory.nearby import nearby
from pipec.kir.ir import Loop
from pipec.source import Source

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.pipe"))


def roles_of(source: Source) -> list[RoleAccesses]:
    state = compile_source(source, until="build")
    assert state.kernels is not None, [one.title for one in state.diagnostics]
    return [row for kernel in state.kernels for row in collect(kernel)]


Question = Callable[..., bool]


def pairs(row: RoleAccesses, question: Question) -> Iterator[tuple[int, int]]:
    """By number the earlier and the later access of each pair of which the answer is yes in some iterations of the loops around both."""
    for (first, a), (second, b) in product(enumerate(row.accesses), repeat=2):
        common = [loop for loop in row.role.loops if a.block in loop.blocks and b.block in loop.blocks]
        crossings = [common[outermost:] for outermost in range(len(common))]
        if question(a, b) or any(_across(question, a, b, loops) for loops in crossings):
            yield first, second


def _across(question: Question, a: Access, b: Access, loops: list[Loop]) -> bool:
    steps = {loop.statement: loop.step for loop in loops if loop.variable is not None}
    return question(a, b, steps, followed=len(steps) == len(loops))


def check(row: RoleAccesses) -> tuple[int, int]:
    """How many pairs meet, and how many were left out."""
    near = nearby(row.accesses, ())
    met = list(pairs(row, may_meet))
    for first, second in (*met, *pairs(row, not_compared)):
        few = near[second]
        assert few is None or first in few, (row.accesses[first].span, row.accesses[second].span)
    return len(met), sum(len(row.accesses) - len(found) for found in near if found is not None)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    for row in roles_of(Source(path.name, path.read_text(encoding="utf-8"))):
        check(row)


def mixed(seed: int) -> Source:
    """Stores and loads of two tensors at random places, in loops with and without known bounds."""
    draw = random.Random(seed)
    lines = [
        "kernel mixed(x: tensor[f32, N], y: tensor[f32, N], z: tensor[f32, M, N]):",
        "    grid(1)",
        "    role move(warps=4):",
    ]
    loads_too = draw.random() < 0.5
    for at in range(8):
        deep, inside = draw.randrange(3), list[str]()
        for level in range(deep):
            bound = draw.choice(("N", "3", "2"))
            lines.append(f"{' ' * (8 + 4 * level)}for i{at}_{level} in range({bound}):")
            inside.append(f"i{at}_{level}")
        pad = " " * (8 + 4 * deep)
        terms = [f"{draw.choice((32, 64, 128, 512))} * {name}" for name in inside if draw.random() < 0.7]
        terms += draw.choice(([], ["block.x"], ["N"]))
        for _ in range(draw.randrange(1, 4)):
            place = " + ".join([str(32 * draw.randrange(12)), *terms])
            source = f"{draw.choice('xy') if loads_too else 'x'}[{' + '.join([str(32 * draw.randrange(12)), *terms])}]"
            if draw.random() < 0.3:
                lines.append(f"{pad}store.direct(z[{draw.randrange(3)}, {place}], per_column(x[0], 64))")
            else:
                lines.append(f"{pad}store.direct(y[{place}], per_column({source}, 64))")
    return Source("mixed.pipe", "\n".join(lines) + "\n")


def test_random_places() -> None:
    counts = [check(row) for seed in range(100) for row in roles_of(mixed(seed))]
    # Both happen: pairs that meet, and pairs that need not be compared.
    assert sum(met for met, _ in counts) > 1000 and sum(left for _, left in counts) > 1000, counts


def test_a_load_that_the_next_iteration_stores_over() -> None:
    """In one iteration the two are apart, and all of their places differ by constants."""
    lines = ["kernel shifted(x: tensor[f32, N], y: tensor[f32, N], z: tensor[f32, N]):", "    grid(1)", "    role move(warps=4):"]
    lines += ["        for i in range(N):", "            store.direct(y[128 * i + 128], per_column(x[0], 64))"]
    lines += ["            store.direct(z[0], per_column(y[128 * i], 64))"]
    (row,) = roles_of(Source("shifted.pipe", "\n".join(lines) + "\n"))
    met, _ = check(row)
    assert met > len(row.accesses)
