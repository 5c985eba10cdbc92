"""What a block does, counted on the typed tree, against what the shapes of a GEMM say by hand."""

from pathlib import Path

import pytest
from examples.catalogue import Case, compiled

from pipec.api.files import read_source
from pipec.driver import Options, compile_source
from pipec.predict.bounds import dram_bytes
from pipec.predict.counting import workload
from pipec.predict.device import DEVICES
from pipec.predict.workload import Workload
from pipec.sema import tree

EXAMPLES = Path(__file__).parents[2] / "examples"


def kernel(example: str, **constants: object) -> tree.Kernel:
    state = compile_source(read_source(str(EXAMPLES / f"{example}.pipe")), Options(None, constants), until="analyse")
    assert state.trees, state.diagnostics
    return state.trees[0]


def gemm(example: str, m: int, n: int, k: int, **constants: object) -> Workload:
    return workload(kernel(example, **constants), {"M": m, "N": n, "K": k}, 132)


def test_a_block_that_stays_does_the_tiles_dealt_to_it() -> None:
    """4096^3 in tiles of 128 x 256: 512 tiles for 132 blocks, four of them for the first block, each of 64 steps."""
    work = gemm("gemm_sm90_persistent", 4096, 4096, 4096)
    assert work.blocks == 132 and work.stays and work.stages == {"input": 4}
    a, b = work.loads
    assert (a.rows, a.row_bytes, a.times, b.rows, b.times) == (128, 128, 256, 256, 256)
    (product,) = work.roles[1].products
    assert (product.m, product.n, product.k_bytes, product.times) == (128, 256, 128, 256)
    (epilogue,) = work.roles[1].epilogues
    assert (epilogue.elements, epilogue.bytes, epilogue.times) == (128 * 256, 128 * 256 * 2, 4)
    assert work.tensors == {"a": 4096 * 4096 * 2, "b": 4096 * 4096 * 2}


@pytest.mark.parametrize("example", ["gemm_sm90", "gemm_sm90_persistent", "gemm_sm90_cluster", "gemm_sm90_pingpong"])
@pytest.mark.parametrize("size", [(1024, 1024, 512), (1056, 4096, 128), (256, 16896, 64)])
def test_all_blocks_together_do_the_whole_product(example: str, size: tuple[int, int, int]) -> None:
    """Sizes of which every block gets the same number of tiles: nothing is counted twice, nothing is left out."""
    m, n, k = size
    work = gemm(example, m, n, k, BM=128, BN=128, STAGES=3)
    flops = work.blocks * sum(p.m * p.n * p.k_bytes * p.times for role in work.roles for p in role.products)
    tiles = -(-m // 128) * -(-n // 128)
    if example == "gemm_sm90" or tiles % 264 == 0:
        assert flops == pytest.approx(128 * 128 * tiles * 2 * k)
    assert flops >= m * n * 2 * k


@pytest.mark.parametrize(
    "example", ["gemm_sm90", "gemm_sm90_persistent", "gemm_sm90_cluster", "gemm_sm90_halves", "gemm_sm90_pingpong"]
)
@pytest.mark.parametrize("size", [(256, 28672, 256), (2048, 4096, 512), (768, 8448, 64), (4096, 6144, 192)])
def test_tiles_that_do_not_come_out_even_are_counted_once(example: str, size: tuple[int, int, int]) -> None:
    """Some blocks have a tile more than others, and of roles that take turns one has a tile more than the other."""
    m, n, k = size
    work = gemm(example, m, n, k, BM=128, BN=128, STAGES=3)
    assert work.flops == pytest.approx(m * n * 2 * k)
    halves = 2 if example == "gemm_sm90_halves" else 1
    most = -(-m * n // (128 * 128 * halves) // work.blocks) if work.stays else 1
    assert work.tiles == most
    assert work.uses == {"input": most * k // 64}


def test_tiles_that_blocks_share_are_counted_once() -> None:
    """The first 132 blocks in strips of 8 rows of tiles: 8 rows, and 17 columns of which the last is not full."""
    a, b = gemm("gemm_sm90_persistent", 8192, 8192, 8192).loads
    assert a.distinct == pytest.approx(8 / 132) and b.distinct == pytest.approx(17 / 132)
    # Of six neighbours each, from six rows of one strip: none shares a tile of A, and most share that of B.
    runs = [range(first, first + 6) for first in range(0, 132, 6)]
    assert a.requested == 1.0 and b.requested == sum(len({place // 8 for place in run}) for run in runs) / 132
    # Column by column: 64 rows of tiles, and three columns.
    a, b = gemm("gemm_sm90", 8192, 8192, 8192).loads
    assert a.distinct == pytest.approx(64 / 132) and b.distinct == pytest.approx(3 / 132)


def test_rows_outside_the_tensor_are_counted_separately() -> None:
    a, b = gemm("gemm_sm90_persistent", 100, 4096, 64).loads
    assert a.inside == pytest.approx(100 / 128) and b.inside == 1.0


def test_multicast_is_shared_by_the_cluster() -> None:
    a, b = gemm("gemm_sm90_cluster", 4096, 4096, 4096).loads
    assert (a.shared, b.shared) == (1, 2)
    assert gemm("gemm_sm90_cluster", 4096, 4096, 4096).blocks == 132


def test_empty_sizes() -> None:
    assert gemm("gemm_sm90", 0, 128, 128).blocks == 0
    work = gemm("gemm_sm90", 128, 128, 0)
    assert list(work.loads) == [] and work.roles[1].epilogues[0].times == 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.pipe")), ids=lambda path: path.stem)
def test_every_example_can_be_counted(path: Path) -> None:
    """Whatever its sizes are called: no kernel stops the count, and what multiplies has products."""
    state = compiled(Case(path, ()))
    assert state.trees
    products = []
    for one in state.trees:
        names = {extent for tensor in one.tensors for extent in tensor.shape if isinstance(extent, str)}
        work = workload(one, dict.fromkeys(names | {scalar.name for scalar in one.scalars}, 256), 148)
        assert work.blocks > 0 and work.threads % 32 == 0
        products += [product for role in work.roles for product in role.products]
    multiplies = any("mma(" in line for line in path.read_text().splitlines() if not line.strip().startswith("#"))
    if multiplies and path.stem.startswith("gemm_sm90"):
        assert products


def test_rows_that_start_within_a_cache_line_are_counted() -> None:
    """K elements of two bytes: whole lines of 128 bytes; every second row in the middle of one; three of four; seven of eight. Only the
    last rows start within a sector of 32 bytes, every second one."""
    found = [gemm("gemm_sm90", 1024, 1024, k).loads[0] for k in (1024, 1056, 1040, 1032)]
    assert [(load.crooked, load.cut) for load in found] == [(0.0, 0.0), (0.5, 0.0), (0.75, 0.0), (0.875, 0.5)]


def test_a_cluster_asks_once_for_what_its_ctas_share() -> None:
    """Two CTAs one below the other, and three clusters that are neighbours: in strips of 8 clusters they have a column in common."""
    a, b = gemm("gemm_sm90_cluster", 8192, 8192, 8192, CX=2, CY=1).loads
    assert b.shared == 2 and a.requested == 1.0
    runs = [range(first, first + 3) for first in range(0, 66, 3)]
    assert b.requested == sum(len({place // 8 for place in run}) for run in runs) / 132


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_a_cta_of_a_split_adds_up_its_part_of_the_others(splits: int) -> None:
    """Of 32 columns of 64 rows each stores as many as the cluster has parts, and reads them from all others."""
    work = gemm("gemm_sm90_narrow", 32, 4096, 4096, BM=32, BN=64, BK=64, SPLITS=splits, STAGES=5)
    (stored,) = (one for role in work.roles for one in role.epilogues)
    assert stored.times == 1 and stored.elements == 64 * 32 // splits
    assert sum(role.remote for role in work.roles) == 64 * (32 // splits) * (splits - 1)


def test_what_the_cache_gives_up_first_is_read_again() -> None:
    """A GEMM whose loads of B say so. With all rows in one block B is read once, with two blocks more than once and less than twice."""
    size = 14336 * 4096 * 2
    moved = {rows: dram_bytes(gemm("gemm_sm90_narrow", 64, 4096, 14336, BM=rows, SPLITS=1), DEVICES["h200"]) for rows in (64, 32)}
    others = 64 * (14336 + 4096) * 2
    assert moved[64] == pytest.approx(size + others, rel=0.01) and 1.1 * size < moved[32] - others < 2 * size
    # Unlike this one's, which are not told to go.
    twice = dram_bytes(gemm("gemm_sm90_persistent", 256, 4096, 14336, BM=128, BN=64, STAGES=8), DEVICES["h200"])
    assert twice == pytest.approx(size + 256 * (14336 + 4096) * 2, rel=0.01)


@pytest.mark.parametrize("name", ["attention_sm90", "attention_sm90_persistent"])
def test_blocks_out_of_step_share_what_all_of_their_trips_load(name: str) -> None:
    """With a mask blocks of queries begin at blocks of keys of their own and walk to the first. All of one head load the same keys, and so
    what comes from memory is little more than each tensor once, as where they keep in step."""
    sizes = {"H": 16, "KEPT": 16, "SEQUENCES": 1, "S": 16384, "T": 16384}
    state = compiled(Case(EXAMPLES / f"{name}.pipe", (("BN", 128), ("CAUSAL", True), ("D", 128))))
    assert state.trees
    work = workload(state.trees[0], sizes, 132)
    walked = [load for load in work.loads if load.tensor in ("k", "v") and load.times > 100]
    assert len(walked) == 2 and all(load.distinct > 0.4 and load.fresh < 0.2 for load in walked)
    tensors = 4 * 16 * 16384 * 128 * 2
    assert tensors < dram_bytes(work, DEVICES["h200"]) < 5 * tensors
