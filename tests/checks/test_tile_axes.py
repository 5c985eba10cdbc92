"""Along which dimensions tiles and vectors are taken to run: what is refused, and what looks like it and is meant (E0739, E0798, E0799)."""

import pytest

from pipec.driver import compile_source
from pipec.source import Source

KERNEL = """
kernel k(x: tensor[f32, H, M, G], w: tensor[f32, M, 64], b: tensor[f32, M, 1], y: tensor[f32, H, M, 64]):
    grid(ceildiv(M, 64), H)

    role all(warps=2):
        m = block.x * 64
        for g in range(ceildiv(G, 64)):
            v = {vector}
            store.direct(y[block.y, m, 0], load(w[m, 0], 64, 64) + v)
"""
VECTORS = {
    # The first row of each block of rows, as the decay of a chunk in linear attention.
    "per_row(w[m, 0], 64)": [],
    "per_column(w[m, 0], 64)": [],
    "per_row(w[m + 63, 0], 64)": [],
    "per_row(x[block.y, m, g * 64], 64)": [],
    "per_row(w[g, m], 64)": [],
    "load(x[block.y, m, g], 64, 1)": [],
    "load(b[m, 0], 64, 1)": [],
    "load(x[block.y, 0, m], 64, 64, at=row_index(64))": [],
    # Vectors that overlap, or of which one element is there.
    "per_row(x[block.y, m, g], 64)": ["E0799"],
    "per_row(x[block.y, m, g // 2], 64)": ["E0799"],
    "per_row(b[m, 0], 64)": ["E0799"],
    "load(x[m, 0, 0], 64, 64)": ["E0739"],
    "load(x[m, block.y, 0], 64, 64)": ["E0798"],
    "load(x[0, g * 64, m], 64, 64)": ["E0798"],
    "per_column(x[0, g * 64, m], 64)": ["E0798"],
}


@pytest.mark.parametrize(("vector", "codes"), VECTORS.items())
def test_elements_run_along_the_last_dimensions(vector: str, codes: list[str]) -> None:
    state = compile_source(Source("k.pipe", KERNEL.format(vector=vector)), until="check")
    assert [one.code for one in state.diagnostics] == codes


STORED = """
kernel k(x: tensor[f32, M, 64], c: tensor[f32, G, M], y: tensor[f32, H, M, G]):
    assume(G == ceildiv(M, 64))
    grid(ceildiv(M, 64), H)

    role all(warps=2):
        m = block.x * 64
        v = registers(row_sum(load(x[m, 0], 64, 64)))
        {store}
"""
STORES = {
    "store.direct(c[block.x, m], v.T)": [],
    "store.direct(y[block.y, m, 0], v)": [],
    "store.direct(y[block.y, m, block.x], v)": [],
    "store.direct(c[0, m], v.T, reduce='add')": [],
    "store.direct(c[block.y, m], v)": ["E0799"],
    "store.direct(c[block.x, m], v)": ["E0799"],
    "store.direct(y[block.y, m, block.x], v.T)": ["E0799"],
}


@pytest.mark.parametrize(("store", "codes"), STORES.items())
def test_stored_elements_run_along_their_own_dimension(store: str, codes: list[str]) -> None:
    text = STORED.format(store=store.replace("'", '"'))
    assert [one.code for one in compile_source(Source("k.pipe", text), until="check").diagnostics] == codes
