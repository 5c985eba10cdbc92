"""Tile schedulers on an sm_90a GPU: every tile once, at its place, by as many blocks as the GPU has multiprocessors."""

import numpy as np
import pytest
from gpu.gpus import needs_gpu

import pipec
from pipec.runtime.gpu import cuda

pytestmark = needs_gpu

# Each CTA of a cluster adds the tile's place and the number of the block to the rows of its rank.
VISITS = """kernel visits[CX: int = 1, GROUP: int = 3](seen: tensor[i32, R, T, 5], x: i32, y: i32, z: i32):
    cluster(CX)
    tiles = TileScheduler(x, y, z, group=GROUP)
    role look(warps=2):
        for tile in tiles:
            one = fill(1, i32, 1, 1)
            store.direct(seen[cta.rank, tile.index, 0], one * tile.x, reduce="add")
            store.direct(seen[cta.rank, tile.index, 1], one * tile.y, reduce="add")
            store.direct(seen[cta.rank, tile.index, 2], one * tile.z, reduce="add")
            store.direct(seen[cta.rank, tile.index, 3], one, reduce="add")
            store.direct(seen[cta.rank, tile.index, 4], one * block.x, reduce="add")
"""


@pytest.mark.parametrize("extents", [(1, 1, 1), (7, 5, 2), (40, 33, 3), (1000, 1, 1)])
@pytest.mark.parametrize("ctas", [1, 2, 4])
def test_every_tile_once(extents: tuple[int, int, int], ctas: int) -> None:
    x, y, z = extents
    seen = np.zeros((ctas, x * y * z, 5), np.int32)
    kernel = pipec.compile(VISITS, arch="sm_90a", constants={"CX": ctas})["visits"]
    result = kernel(seen, x, y, z, device="cuda")
    workers = min(x * y * z, cuda.fitting_device("sm_90a").multiprocessors // ctas)
    assert result.grid == (ctas * workers, 1, 1)
    strips = [range(first, min(first + 3, x)) for first in range(0, x, 3)]
    places = [(i, j, k, 1) for k in range(z) for strip in strips for j in range(y) for i in strip]
    for rank in range(ctas):
        assert seen[rank, :, :4].tolist() == [list(place) for place in places]
        assert seen[rank, :, 4].tolist() == [index % workers * ctas + rank for index in range(x * y * z)]
