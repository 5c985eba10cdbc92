"""Clusters: which CTAs a multicast and a release reach, and whether all of a cluster go the same way."""

from itertools import product

import pytest

from pipec.driver import compile_source
from pipec.kir.clusters import line, mask
from pipec.sema import tree
from pipec.source import Source

SHAPES = [(2, 1, 1), (4, 2, 1), (2, 2, 2), (1, 4, 1), (8, 1, 1), (3, 2, 1)]


# --------------------------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize(("shape", "axis", "group"), [*product(SHAPES, "xyz", (1,)), *product(SHAPES[:3], "xyz", (2,))])
def test_a_line_is_who_differs_along_the_axis_alone(shape: tuple[int, int, int], axis: str, group: int) -> None:
    cluster = tree.Cluster(shape)
    index = "xyz".index(axis)
    places = cluster.places()
    shared = line(cluster, axis, group)
    for rank, place in enumerate(places):
        expected = 0
        for other, where in enumerate(places):
            same = all(where[i] == place[i] for i in range(3) if i != index)
            # In pairs along x only CTAs with the same place in their pair hold the same half.
            same = same and (group == 1 or other % 2 == rank % 2)
            expected |= same << other
        if shared is None:
            assert expected == 1 << rank
        else:
            assert mask(shared, cluster, rank) == expected
            assert expected.bit_count() == shared.count


def test_a_tensor_that_the_kernel_writes_is_not_the_same_in_all_ctas() -> None:
    source = """
kernel bound(n: i32, ix: tensor[i32, 4], y: tensor[f32, M, 64]):
    grid(2)
    cluster(2)
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=2, scope="cluster")

    role all(warps=1) produces p consumes p:
        {store}
        for i in range(load(ix[0])):
            with p.produce() as s:
                write(s.x, fill(1.0, f32, 32, 64))
            with p.consume() as s:
                store(y[cta.rank * 32, 0], s.x.of(1 - cta.rank))
"""
    for store, codes in (("pass", set()), ("store.direct(ix[0], fill(3, i32, 1, 1))", {"E0603"})):
        found = compile_source(Source("test", source.format(store=store)), until="check").diagnostics
        assert {one.code for one in found} & {"E0603"} == codes, found


@pytest.mark.parametrize(
    ("rank", "codes"),
    [
        ("(cta.rank + n) % 4", set()),
        ("block.x % 4", set()),
        ("block.x", set()),
        ("block.x - cluster.x", set()),
        ("turn", set()),
        ("3 - turn", set()),
        ("turn ^ cta.rank", set()),
        ("min(max(n, 0), 3)", set()),
        ("n if n >= 0 and n < 4 else 0", set()),
        ("0 if n < 0 or n > 3 else n", set()),
        ("n if n == 2 else 3", set()),
        ("n if not (n < 0 or n >= 4) else 0", set()),
        ("n if n >= 0 and n <= 4 else 0", {"E0462"}),
        ("n if n >= -1 and n < 4 else 0", {"E0462"}),
        ("n if n >= 0 or n < 4 else 0", {"E0462"}),
        ("n if n < 0 or n > 3 else 0", {"E0462"}),
        ("n + 1 if n >= 0 and n < 4 else 0", {"E0462"}),
        ("n if n != 2 else 3", {"E0462"}),
        ("n + 1 if n > 0 else 0", {"E0462"}),
        ("cta.x + turn", {"E0462"}),
        ("n", {"E0462"}),
        ("cta.rank + 1", {"E0457"}),
    ],
)
def test_the_rank_of_another_cta_is_seen_to_lie_in_the_cluster(rank: str, codes: set[str]) -> None:
    source = f"""
kernel other(n: i32, y: tensor[f32, M, 64]):
    grid(4)
    cluster(4)
    p = InputTilePipeline(TilePayload(x=tile[f32, 32, 64]), stages=1, scope="cluster")

    role all(warps=1) produces p consumes p:
        with p.produce() as s:
            write(s.x, fill(1.0, f32, 32, 64))
        with p.consume() as s:
            for turn in range(4):
                store(y[turn * 32, 0], s.x.of({rank}))
"""
    found = compile_source(Source("test", source), until="check").diagnostics
    assert {one.code for one in found} == codes, found
