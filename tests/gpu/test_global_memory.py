"""On an sm_90a GPU: reductions in global memory, blocks that take turns, rows of tiles, and kernels that overlap the one in front."""

import ml_dtypes
import numpy as np
import pytest
from examples.catalogue import EXAMPLES
from gpu.gpus import needs_gpu
from lower.test_float_extremes import check_many, check_special
from lower.test_reductions import CASES, check
from lower.test_rows import check_rows

import pipec
from pipec.runtime import LaunchOptions

pytestmark = needs_gpu

SPLIT_K = (EXAMPLES / "gemm_sm90_split_k.pipe").read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "reduce", "dtype"), CASES, ids=str)
def test_reduction(path: str, reduce: str, dtype: str) -> None:
    check(path, reduce, dtype, (136, 32), device="cuda", arch="sm_90a")


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_reduction_of_rows_that_are_not_aligned(dtype: str) -> None:
    check("direct", "add", dtype, (130, 24), device="cuda", arch="sm_90a")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("reduce", ["min", "max"])
def test_minima_and_maxima_of_floats(reduce: str, dtype: str) -> None:
    """The special values, as in the simulator, and 16,384 blocks that reduce into the same 64 elements."""
    check_special(reduce, dtype, device="cuda", arch="sm_90a")
    check_many(reduce, dtype, 8 * 16384, device="cuda", arch="sm_90a")
    check_many(reduce, dtype, 8 * 1000 + 5, device="cuda", arch="sm_90a", columns=1000)


@pytest.mark.parametrize("store", ["store", "store.direct"])
@pytest.mark.parametrize("warps", [4, 3, 8])
def test_first_rows(warps: int, store: str) -> None:
    check_rows("bf16", store, warps, "order", "cuda", "sm_90a")


@pytest.mark.parametrize("splits", [2, 5, 16])
def test_turns_give_the_same_bits_in_every_launch(splits: int) -> None:
    """More blocks than fit the GPU at a time, with random numbers, whose sums depend on their order; the simulator has the same bits."""
    kernel = pipec.compile(SPLIT_K, arch="sm_90a", constants={"SPLITS": splits})["gemm_sm90_split_k"]
    m, n, k = 1024, 1536, 4096
    generator = np.random.default_rng(splits)
    a, b = (generator.standard_normal((size, k)).astype(ml_dtypes.bfloat16) for size in (m, n))
    turns, results = np.zeros((8, 12), np.int32), set()
    for _ in range(10):
        sums, d = np.zeros((m, n), np.float32), np.zeros((m, n), ml_dtypes.bfloat16)
        kernel(a, b, sums, turns, d, device="cuda")
        assert not turns.any()
        results.add((sums.tobytes(), d.tobytes()))
    assert len(results) == 1
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    assert np.abs(d.astype(np.float32) - expected).max() < np.abs(expected).max() * 2.0**-7
    for size in (64, 136):
        few = [np.zeros(shape, kind) for shape, kind in (((size, size), np.float32), ((2, 2), np.int32))]
        simulated, launched = np.zeros((size, size), ml_dtypes.bfloat16), np.zeros((size, size), ml_dtypes.bfloat16)
        for out, device in ((simulated, "sim"), (launched, "cuda")):
            kernel(a[:size, :512].copy(), b[:size, :512].copy(), *few, out, device=device)
        assert np.abs(simulated.astype(np.float32) - launched.astype(np.float32)).max() < 2.0**-4 * np.abs(expected).max()


OVERLAP = """
kernel slow(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(ceildiv(M, 128))
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 64]), stages=1)
    role load(warps=1) produces ring:
        griddepcontrol.launch_dependents()
        for k in range(64):
            with ring.produce() as s:
                tma.load(s.x, x[block.x * 128, 0])
    role compute(warps=4) consumes ring:
        for k in range(64):
            with ring.consume() as s:
                store(y[block.x * 128, 0], s.x * (k + 1))

kernel behind(x: tensor[f32, M, 64], y: tensor[f32, M, 64]):
    grid(ceildiv(M, 128))
    programmatic_launch()
    ring = InputTilePipeline(TilePayload(x=tile[f32, 128, 64]), stages=1)
    role load(warps=1) produces ring:
        with ring.produce() as s:
            tma.load(s.x, x[block.x * 128, 0])
    role compute(warps=4) consumes ring:
        with ring.consume() as s:
            store(y[block.x * 128, 0], s.x + 1.0)
"""


@pytest.mark.parametrize("programmatic", [None, False], ids=["as the kernel says", "one after the other"])
def test_a_kernel_that_overlaps_the_one_in_front_sees_all_of_it(programmatic: bool | None) -> None:
    torch = pytest.importorskip("torch")
    program = pipec.compile(OVERLAP.replace("(k + 1)", "cast[f32](k + 1)"), arch="sm_90a")
    options = LaunchOptions(programmatic=programmatic)
    x = torch.randn(128 * 512, 64, device="cuda")
    for _ in range(20):
        y, z = torch.zeros_like(x), torch.zeros_like(x)
        program["slow"](x, y, device="cuda")
        program["behind"](y, z, device="cuda", options=options)
        torch.cuda.synchronize()
        assert torch.equal(y, x * 64) and torch.equal(z, x * 64 + 1)
        assert not torch.isnan(z).any()
