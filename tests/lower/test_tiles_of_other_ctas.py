"""A name for a tile of another CTA keeps the rank that it was given with."""

import numpy as np
import pytest
from running import run

KERNEL = """
kernel k(y: tensor[f32, 64, 16]):
    \"\"\"Each of two CTAs stores the tile of the other.

    arch: sm_90a
    \"\"\"
    cluster(2)
    grid(2)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 32, 16]), stages=1, scope="cluster")
    role fill(warps=1) produces ring:
        with ring.produce() as s:
            write(s.x, fill(cast[f32](cta.rank + 1), f32, 32, 16))
    role keep(warps=1) consumes ring:
        with ring.consume() as s:
            rank = 1 - cta.rank
            other = {named}
            rank = 1 - rank
            store(y[block.x * 32, 0], {stored})
"""


@pytest.mark.parametrize("named", ["s.x.of(rank)", "s.x.of(rank) * 1.0"])
@pytest.mark.parametrize("stored", ["other", "columns(other, 0, 16)", "other + 0.0"])
def test_a_name_keeps_its_rank(named: str, stored: str) -> None:
    y = np.zeros((64, 16), np.float32)
    run(KERNEL.format(named=named, stored=stored), "k", y)
    np.testing.assert_array_equal(y, np.repeat([2, 1], 32)[:, None] * np.ones((1, 16)))
