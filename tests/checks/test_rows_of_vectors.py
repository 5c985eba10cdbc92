"""The first rows of a tile that is stored to a tensor of one dimension lie along its only axis, also where places are compared."""

import pytest

from pipec.driver import Options, compile_source
from pipec.source import Source

TEXT = """
kernel k(x: tensor[f32, M, 64], y: tensor[f32, L], z: tensor[f32, L], n: i32, c: i32):
    grid(1)
    q = ProducerConsumerPipeline(stages=2)
    role fill(warps=1) produces q:
        for i in range(n):
            with q.produce():
                store.direct(y[i * 64], load(x[i * 32, 0], 64, 1), rows=c)
    role save(warps=1) consumes q:
        for i in range(n):
            with q.consume():
                store.direct(z[i * 64], per_row(y[{first}], 64) + fill(0.0, f32, 64, 1))
"""


@pytest.mark.parametrize(("first", "code"), [("i * 64", None), ("i * 64 + 64", "E0614"), ("0", "E0614")])
def test_rows_along_the_only_axis(first: str, code: str | None) -> None:
    state = compile_source(Source("k.pipe", TEXT.format(first=first)), Options("sm_90a"))
    assert [one.code for one in state.diagnostics] == ([] if code is None else [code])
