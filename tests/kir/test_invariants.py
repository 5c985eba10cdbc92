"""What is computed in front of a loop: only what the loop leaves alone, and the results stay what NumPy computes."""

import re

import numpy as np
import pytest
from examples.catalogue import EXAMPLES

import pipec
from pipec.driver import Compilation, compile_source
from pipec.kir.walk import subexpressions
from pipec.sema import tree
from pipec.source import Source

# A value that an outer loop leaves alone and one that only the inner one does; one helper used in two loops and behind them; a variable
# that a loop changes after it was used.
KERNEL = """
fn cell(t, width):
    return (t // width) * 3 + t % width

kernel k(y: tensor[i32, R, 32], width: i32, n: i32):
    grid(1)
    role work(warps=1):
        at = 0
        for t in range(n):
            for k in range(2):
                if k == 1:
                    store(y[at, 0], fill(cell(t, width) + width // 2 + k, i32, 1, 32))
                else:
                    store(y[at, 0], fill(cell(t, width), i32, 1, 32))
                at = at + 1
        shift = n
        for k in range(3):
            store(y[at, 0], fill(cell(shift, width) - n // width, i32, 1, 32))
            at = at + 1
            shift = shift + k % 2
        store(y[at, 0], fill(cell(shift, width), i32, 1, 32))
"""


def expected(width: int, n: int) -> list[int]:
    def cell(t: int) -> int:
        return (t // width) * 3 + t % width

    rows = [value for t in range(n) for value in (cell(t), cell(t) + width // 2 + 1)]
    shift = n
    for k in range(3):
        rows.append(cell(shift) - n // width)
        shift += k % 2
    return [*rows, cell(shift)]


@pytest.mark.parametrize(("width", "n"), [(3, 7), (-2, 5), (1, 0), (7, 1)])
def test_results_do_not_change(width: int, n: int) -> None:
    rows = expected(width, n)
    y = np.full((len(rows), 32), -99, np.int32)
    pipec.compile(KERNEL)["k"](y, width, n, device="sim")
    assert y.tolist() == [[value] * 32 for value in rows]


def compiled(path: str) -> Compilation:
    file = EXAMPLES / path
    return compile_source(Source(str(file), file.read_text(encoding="utf-8")))


def test_a_tile_is_not_divided_for_every_k_block() -> None:
    state = compiled("gemm_persistent.pipe")
    assert state.ptx is not None
    loads = [place.start() for place in re.finditer(r"cp\.async\.bulk\.tensor\.2d\.shared", state.ptx)]
    loop = state.ptx[state.ptx.rindex("nounroll", 0, loads[0]) : loads[-1]]
    assert len(loads) == 2 and not re.search(r"\b(div|rem)\.", loop) and re.search(r"\b(div|rem)\.", state.ptx)


def test_where_threads_hold_tiles_only_divisions_are_moved() -> None:
    state = compiled("gemm_persistent.pipe")
    assert state.plans is not None
    moved = {row.role.name: row.invariants for row in state.plans[0].roles}
    over_tiles, over_k = moved["load"]
    assert over_k.blocks < over_tiles.blocks and over_tiles.before < over_k.before
    assert [operators(node) for node in over_k.expressions] == [{"%", "*"}, {"//", "*"}]  # t % rows * BM, t // rows * BN
    (over_tiles,) = moved["epilogue"]
    assert [type(node) for node in over_tiles.expressions] == [tree.Call]  # rows = ceildiv(M, BM)


def operators(node: tree.Expression) -> set[str]:
    return {part.operator for part in subexpressions(node) if isinstance(part, tree.Binary)}
