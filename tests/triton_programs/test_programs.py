"""Unmodified Triton and Gluon programs through `pipec.triton.install`, against NumPy in float64."""

import os
import struct
import tempfile

# Read when Triton is imported; see tests/oracle/support.py.
os.environ.setdefault("TRITON_CACHE_DIR", tempfile.mkdtemp(prefix="pipec-triton-"))
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
import triton
from oracle import gluon_kernels, matmul_kernels, pointer_kernels
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

import pipec.triton
from pipec.isa.targets import TARGETS
from pipec.sim import Options, SimulationError
from pipec.triton import Tensor, tensor

from . import kernels

RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    pipec.triton.install()
    yield
    found = pipec.triton.findings()
    pipec.triton.uninstall()
    assert found == []


def normal(*shape: int, dtype: type = np.float32) -> Tensor:
    return tensor(RNG.standard_normal(shape).astype(dtype))


def zeros(*shape: int, dtype: type = np.float32) -> Tensor:
    return tensor(np.zeros(shape, dtype))


def wide(x: Tensor) -> np.ndarray:
    return np.asarray(x).astype(np.float64)


def close(found: Tensor, exact: np.ndarray, within: float) -> None:
    assert np.abs(wide(found) - exact).max() <= within * max(1.0, np.abs(exact).max())


def test_add() -> None:
    x, y, z = normal(1000), normal(1000), zeros(1000)
    kernels.add[(triton.cdiv(1000, 256),)](x, y, z, 1000, BLOCK=256)
    assert np.array_equal(z, x + y)


def test_views_begin_anywhere_in_an_allocation() -> None:
    x, z = normal(4, 300), zeros(300)
    kernels.add[lambda given: (triton.cdiv(300, given["BLOCK"]),)](x[1], x[3, :], z, 300, BLOCK=128)
    assert np.array_equal(z, x[1] + x[3])


@pytest.mark.parametrize("arch", TARGETS)
def test_softmax_of_strided_rows(arch: str) -> None:
    pipec.triton.install(arch, Options("late", trace=False))
    x, y = normal(7, 100)[:, :77], zeros(7, 80)
    kernels.softmax_rows[(3,)](x, y, x.stride(0), y.stride(0), 7, 77, BLOCK=128)
    exact = np.exp(wide(x) - wide(x).max(1, keepdims=True))
    close(y[:, :77], exact / exact.sum(1, keepdims=True), 1e-6)
    assert not y[:, 77:].any()


def test_a_tuned_product() -> None:
    M, N, K = 70, 50, 100
    a, b, c = normal(M, K, dtype=np.float16), normal(K, N, dtype=np.float16), zeros(M, N, dtype=np.float16)
    grid = lambda given: (triton.cdiv(M, given["BM"]) * triton.cdiv(N, given["BN"]),)
    kernels.matmul[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), ACTIVATION="leaky")
    exact = wide(a) @ wide(b)
    close(c, np.where(exact >= 0, exact, 0.01 * exact), 2.0**-10)
    assert set(kernels.matmul.configs_timings) == set(kernels.matmul.configs), "each was run, and timed"


def test_dropout() -> None:
    x, y, again = normal(1000), zeros(1000), zeros(1000)
    for result in (y, again):
        kernels.dropout[(2,)](x, result, 1000, 0.25, 123, BLOCK=512)
    kept = np.asarray(y != 0)
    assert 0.7 < kept.mean() < 0.8 and np.array_equal(y, again)
    close(y, np.where(kept, wide(x) / 0.75, 0), 1e-6)


def test_a_gradient_summed_behind_locks() -> None:
    rows, n, groups = 12, 60, 3
    x, dy, w, dx = normal(rows, n), normal(rows, n), normal(n), zeros(rows, n)
    mean, scale = tensor(x.mean(1)), tensor(1 / np.sqrt(x.var(1) + 1e-5))
    dw, locks = zeros(groups, n), zeros(2 * groups, dtype=np.int32)
    kernels.layer_norm_gradient[(rows,)](dy, x, w, mean, scale, dx, dw, locks, n, GROUPS=groups, BLOCK=64, num_warps=2)
    unit = (wide(x) - wide(mean)[:, None]) * wide(scale)[:, None]
    weighted = wide(w) * wide(dy)
    inner = (unit * weighted).mean(1, keepdims=True)
    close(dx, (weighted - unit * inner - weighted.mean(1, keepdims=True)) * wide(scale)[:, None], 1e-5)
    close(tensor(dw.sum(0)), (wide(dy) * unit).sum(0), 1e-5)
    assert not locks[:groups].any()


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    heads, tokens, head = 2, 90, 32
    q, k, v = (normal(heads, tokens, head, dtype=np.float16) for _ in "qkv")
    out = zeros(heads, tokens, head)
    kernels.attention[(triton.cdiv(tokens, 64), heads)](q, k, v, out, 0.2, tokens, HEAD=head, BM=64, BN=32, CAUSAL=causal)
    scores = wide(q) @ wide(k).swapaxes(1, 2) * 0.2
    if causal:
        scores = np.where(np.tril(np.ones((tokens, tokens), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    close(out, weights / weights.sum(2, keepdims=True) @ wide(v), 2e-3)


def test_products_through_tables_of_pointers() -> None:
    shapes = [(40, 70, 32), (64, 33, 48), (20, 20, 16)]
    matrices = [(normal(m, k, dtype=np.float16), normal(k, n, dtype=np.float16), zeros(m, n)) for m, n, k in shapes]
    addresses = tensor(np.array([[one.data_ptr() for one in group] for group in matrices], np.int64))
    pipec.triton.reachable(*(one for group in matrices for one in group))
    kernels.grouped[(3,)](addresses, tensor(np.array(shapes, np.int32)), len(shapes), BM=32, BN=32, BK=16)
    for a, b, c in matrices:
        close(c, wide(a) @ wide(b), 1e-5)


def test_descriptors_of_the_host() -> None:
    M, N, K = 200, 128, 96
    a, b, c = (normal(*shape, dtype=ml_dtypes.bfloat16) for shape in ((M, K), (N, K), (M, N)))
    block = {"a": [128, 64], "b": [64, 64], "c": [128, 64]}
    described = [TensorDescriptor.from_tensor(one, block[name]) for name, one in (("a", a), ("b", b), ("c", c))]
    kernels.matmul_by_host_descriptors[(2, 2)](*described, K, BM=128, BN=64, BK=64)
    close(c, wide(a) @ wide(b).T, 2.0**-8)


def test_descriptors_made_on_the_device() -> None:
    x, y = normal(96, 80), zeros(80, 96)
    triton.set_allocator(lambda size, alignment, stream: tensor(np.zeros(size, np.int8)))
    kernels.transpose_by_device_descriptors[(3, 3)](x, y, 96, 80, BM=32, BN=32)
    assert np.array_equal(y, x.T)


def test_library_functions() -> None:
    x, y = tensor(np.linspace(-1, 1, 500, dtype=np.float32)), zeros(500)
    kernels.arc_sines[(4,)](x, y, 500, BLOCK=128)
    close(y, np.arcsin(wide(x)), 1e-6)


def test_tuples() -> None:
    pairs = tuple((normal(50), zeros(50)) for _ in range(3))
    kernels.of_tuples[(1,)](pairs, (2.0, 3.0, 1), 50, BLOCK=64)
    for (x, y), factor in zip(pairs, (2, 3, 1), strict=True):
        assert np.array_equal(y, factor * x)


@pytest.mark.parametrize("n", [256, 300])
def test_heuristics_and_atomics(n: int) -> None:
    x, counts = tensor(RNG.integers(0, 10, n).astype(np.int32)), zeros(10, dtype=np.int32)
    kernels.histogram_of_heuristics[(triton.cdiv(n, 128),)](x, counts, n, BLOCK=128)
    assert np.array_equal(counts, np.bincount(x, minlength=10))


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    kernels.prints[(1,)](tensor(np.arange(5, dtype=np.int32)), 5, BLOCK=32, num_warps=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 32 and lines[4] == "pid (0, 0, 0) idx ( 4) value: 4"


# ------------------------------------------------------------------------------------------------- what goes wrong


def line_of(text: str) -> int:
    with open(kernels.__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if text in line)


def test_a_store_without_a_mask() -> None:
    with pytest.raises(SimulationError) as caught:
        kernels.beyond[(1,)](normal(50), 50, BLOCK=64)
    error = caught.value
    assert error.kind == "out_of_bounds" and error.details["kernel"] == "beyond"
    assert error.source is not None and error.source.line == line_of("the mask is missing")


def test_an_assertion_that_fails() -> None:
    x = tensor(np.array([3, 2, 1, 0], np.int32))
    with pytest.raises(SimulationError, match="all of them are positive"):
        kernels.asserts[(1,)](x, 4, BLOCK=4, debug=True)
    kernels.asserts[(1,)](x, 3, BLOCK=4, debug=True)
    assert x.tolist() == [2, 1, 0, 0]


def test_a_race_of_programs() -> None:
    with pytest.raises(SimulationError) as caught:
        kernels.turned_in_place[(4,)](normal(4, 32), N=32, num_warps=1)
    assert caught.value.kind == "race"
    lines = {finding.source.line for finding in caught.value.findings if finding.source}
    assert lines <= {line_of("row = tl.load(x + other"), line_of("program_id(0) * N + i, row)")} and lines


def test_what_is_no_tensor_of_the_host() -> None:
    class OnDevice:
        dtype, device = "torch.float32", "cuda:0"

        def data_ptr(self) -> int:
            return 1 << 40

        def untyped_storage(self) -> "OnDevice":
            return self

    with pytest.raises(TypeError, match="on cuda:0: the simulator works on memory of the host"):
        kernels.beyond[(1,)](OnDevice(), 50, BLOCK=64)


class Torch:
    """As a tensor of torch on the CPU looks from here."""

    device = "cpu"

    def __init__(self, array: np.ndarray) -> None:
        self.memory = tensor(array)
        self.dtype = f"torch.{array.dtype}"

    def data_ptr(self) -> int:
        return self.memory.data_ptr()

    def numel(self) -> int:
        return self.memory.size

    def untyped_storage(self) -> "Torch":
        return self

    def nbytes(self) -> int:
        return self.memory.nbytes


def test_tensors_with_a_storage() -> None:
    x, y, z = (Torch(RNG.standard_normal(100).astype(np.float32)) for _ in "xyz")
    kernels.add[(1,)](x, y, z, 100, BLOCK=128)
    assert np.array_equal(z.memory, x.memory + y.memory)


# ------------------------------------------------------------------------- kernels of tests/oracle, launched as programs do


def test_functions_of_pointers() -> None:
    x, y = normal(3, 333), zeros(3, 333)
    pointer_kernels.softmax[(3,)](x, y, 333, SIZE=512)
    exact = np.exp(wide(x) - wide(x).max(1, keepdims=True))
    close(y, exact / exact.sum(1, keepdims=True), 1e-6)


def test_a_persistent_product() -> None:
    M, N, K = 256, 128, 96
    a, b, d = (normal(*shape, dtype=ml_dtypes.bfloat16) for shape in ((M, K), (N, K), (M, N)))
    blocks = {"a": [128, 64], "b": [64, 64], "d": [128, 32]}
    described = [TensorDescriptor.from_tensor(one, blocks[name]) for name, one in (("a", a), ("b", b), ("d", d))]
    matmul_kernels.persistent[(2,)](*described, M, N, K, BM=128, BN=64, BK=64, FLATTEN=True)
    close(d, wide(a) @ wide(b).T, 2.0**-8)


def gluon_descriptor(x: Tensor, block: list[int], kind: gl.dtype) -> GluonDescriptor:
    return GluonDescriptor.from_tensor(x, block, gl.NVMMASharedLayout.get_default_for(block, kind))


def test_gluon_by_hand() -> None:
    a, b, d = normal(128, 128, dtype=np.float16), normal(64, 128, dtype=np.float16), zeros(128, 64)
    described = (
        gluon_descriptor(a, [128, 64], gl.float16),
        gluon_descriptor(b, [64, 64], gl.float16),
        gluon_descriptor(d, [128, 64], gl.float32),
    )
    gluon_kernels.by_hand[(1, 1)](*described, 128, BM=128, BN=64, BK=64, ALONG_N=False)
    close(d, wide(a) @ wide(b).T, 1e-4)


def test_gluon_launch_control() -> None:
    x, y, times = normal(40 * 128), zeros(40 * 128), zeros(40, dtype=np.int32)
    gluon_kernels.launch_control[(40,)](x, y, times, SIZE=128)
    assert times.tolist() == [1] * 40


def test_programmatic_launches() -> None:
    """Weights may be read early, but not what the launch before wrote; nothing may where the kernel never waits."""
    x, y, z = normal(256), zeros(256), zeros(256)
    kernels.scaled_late[(1,)](x, x, y, WAIT=True, launch_pdl=True)
    kernels.scaled_late[(1,)](x, y, z, WAIT=True, launch_pdl=True)
    assert pipec.triton.findings() == []
    kernels.scaled_late[(1,)](z, x, y, WAIT=True)  # begins when the others have ended
    assert pipec.triton.findings() == []
    kernels.scaled_late[(1,)](y, x, z, WAIT=True, launch_pdl=True)
    (found,) = pipec.triton.findings(clear=True)
    assert found.check == "grid" and "which the preceding kernel `scaled_late` wrote" in str(found) and found.source
    kernels.scaled_late[(1,)](x, x, z, WAIT=False, launch_pdl=True)
    (found,) = pipec.triton.findings(clear=True)
    assert found.check == "grid" and "the kernel has no griddepcontrol.wait" in str(found)


def test_installing_can_be_undone() -> None:
    from triton import knobs
    from triton.runtime import driver

    mine, cache = driver.active, knobs.cache.dir
    pipec.triton.uninstall()
    assert driver._active is not mine and knobs.cache.dir != cache
    with pytest.raises(ValueError, match="sm_80"):
        pipec.triton.install("sm_80")


def test_scalars_are_laid_out() -> None:
    from pipec.triton.launcher import Parameters

    (half,) = Parameters(None).of("fp16", 0.5)
    (short,) = Parameters(None).of("bf16", -2.0)
    assert half.data == struct.pack("<e", 0.5) and short.data == b"\x00\xc0"


def test_what_tensors_answer() -> None:
    x = tensor(np.arange(12, dtype=np.int16).reshape(3, 4))
    assert x.data_ptr() % 256 == 0 and x[:, 1:].data_ptr() == x.data_ptr() + 2
    assert (x.T.stride(), x.stride(0), x.numel(), x.element_size()) == ((1, 4), 4, 12, 2)
    assert x.is_contiguous() and not x.T.is_contiguous()
    copy = x.clone()
    copy.zero_()
    assert x.any() and not copy.any() and np.array_equal(copy.copy_(x), x)


def test_a_fault_in_all_forms_of_a_tuned_kernel_is_reported_once() -> None:
    pipec.triton.install(options=Options(trace=False, checks={"race": "warn"}))
    for warps in (1, 2, 4):
        kernels.turned_in_place[(2,)](normal(2, 128), N=128, num_warps=warps)
    found = pipec.triton.findings(clear=True)
    assert len({one.ptx_line for one in found}) == len(found) <= 2 and all(one.check == "race" for one in found)
    assert sum(one.count for one in found) >= 3
    assert pipec.triton.findings() == []
