"""`cache=` of copies by TMA: each instruction carries its own policy, and the numbers stay the same."""

import re

import numpy as np
import pytest
from lower.running import compiled, run

import pipec

SOURCE = """
kernel k(x: tensor[f32, M, 32], w: tensor[f32, M, 32], y: tensor[f32, M, 32], z: tensor[f32, M, 32]):
    grid(2 * ceildiv(M, 256))
    cluster(CLUSTER)
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 32], w=tile[f32, 128, 32]), stages=2)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[ROW, 0]OPTION, cache="evict_first")
            tma.load(s.w, w[ROW, 0]OPTION)
    role keep(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * 128, 0], s.x + s.w, cache="evict_last")
    role pass_on(warps=1) consumes ring:
        with ring.consume() as s:
            tma.store(z[block.x * 128, 0], s.w, cache="evict_normal")
"""
FORMS = {
    "alone": SOURCE.replace("    cluster(CLUSTER)\n", "").replace("OPTION", "").replace("ROW", "block.x * 128"),
    "multicast": SOURCE.replace("CLUSTER", "2").replace("OPTION", ', multicast="x"').replace("ROW", "cluster.x * 256"),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_copy_has_its_policy(form: str) -> None:
    ptx = compiled(FORMS[form]).ptx
    policies = dict(re.findall(r"createpolicy\.fractional\.L2::(\w+)\.b64 \t?(%rd\d+), 1\.0;", ptx))
    assert set(policies) == {"evict_first", "evict_last", "evict_normal"}
    copies = re.findall(r"cp\.async\.bulk\.tensor\.2d\.(shared|global)(\S*) .*?(%rd\d+)?;", ptx)
    hinted = [(to, last) for to, rest, last in copies if "L2::cache_hint" in rest]
    assert hinted.count(("shared", policies["evict_first"])) == 1 == len([one for one in hinted if one[0] == "shared"])
    assert {last for to, last in hinted if to == "global"} == {policies["evict_last"], policies["evict_normal"]}
    assert sum(to == "shared" for to, _, _ in copies) == 2


@pytest.mark.parametrize("form", FORMS)
def test_results(form: str) -> None:
    x, w = (np.random.default_rng(seed).integers(-9, 9, (256, 32)).astype(np.float32) for seed in (1, 2))
    y, z = (np.full((256, 32), np.nan, np.float32) for _ in "yz")
    run(FORMS[form], "k", x, w, y, z)
    rows = np.arange(256) % 128 if form == "multicast" else np.arange(256)
    assert np.array_equal(y, (x + w)[rows]) and np.array_equal(z, w[rows])


def test_the_threads_of_a_direct_store_take_none() -> None:
    with pytest.raises(pipec.CompileError, match="E0206"):
        pipec.compile(FORMS["alone"].replace("store(y", "store.direct(y"))
