"""Pairs of CTAs that use tensor memory without MMAs, so that no signal passes between them: they allocate and free it together."""

import numpy as np
import pytest
from running import compiled, run

KERNEL = """
kernel k(x: tensor[f32, 256, 32], y: tensor[f32, 256, 32]):
    cluster(2)
    grid(2)
    ring = RolePipeline(stages=1, cta_group=2)
    kept = TensorTiles(tmem[f32, 128, 32], count=1)
    role fill(warps=4) produces ring:
        ring.acquire()
        write(kept[ring.index()], load(x[block.x * 128, 0], 128, 32))
        ring.commit()
    role keep(warps=4) consumes ring:
        ring.wait()
        store(y[block.x * 128, 0], kept[ring.index()])
        ring.release()
"""


@pytest.mark.parametrize("timing", ["order", "late", "random"])
def test_tiles_of_threads(timing: str) -> None:
    x, y = np.arange(256 * 32, dtype=np.float32).reshape(256, 32), np.zeros((256, 32), np.float32)
    run(KERNEL, "k", x, y, timing=timing)
    np.testing.assert_array_equal(x, y)


def test_the_ctas_meet_before_they_allocate() -> None:
    ptx = compiled(KERNEL).ptx
    assert 0 < ptx.index("barrier.cluster.wait") < ptx.index("tcgen05.alloc.cta_group::2")
