"""Unmodified CuTe DSL programs through `pipec.cute.install`, against NumPy."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipec.cute
from pipec.sim import Options, SimulationError

pytestmark = [
    pytest.mark.skipif(
        find_spec("cutlass") is None or find_spec("tvm_ffi") is None, reason="CuTe DSL or TVM FFI is not installed"
    ),
    # CuTe DSL reads its settings when it is imported.
    pytest.mark.xdist_group("cute"),
]
ROOT = Path(__file__).resolve().parents[2]
BYTES = 32 * 64 * 2


@pytest.fixture(scope="module")
def kernels() -> Iterator[Any]:
    pipec.cute.install("sm_90a")
    from . import kernels

    yield kernels
    pipec.cute.uninstall()


def given(array: np.ndarray) -> Any:
    from cutlass.cute.runtime import from_dlpack

    return from_dlpack(array, assumed_align=4 if array.ndim == 1 else 16)


def aligned(rows: int, columns: int) -> np.ndarray:
    memory = np.zeros(2 * rows * columns + 256, np.uint8)
    first = -memory.ctypes.data % 256
    return memory[first : first + 2 * rows * columns].view(np.float16).reshape(rows, columns)


def test_pointers(kernels: Any) -> None:
    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    kernels.twice(given(x), given(y), 300)
    assert (y == 2 * x).all() and pipec.cute.findings() == []


def test_a_compiled_function_is_launched_again(kernels: Any) -> None:
    from cutlass import cute

    x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    compiled = cute.compile(kernels.twice, given(x), given(y), 300)
    for n in (100, 300):
        y[:] = 0
        compiled(given(x), given(y), n)
        assert (y[:n] == 2 * x[:n]).all() and not y[n:].any()


def test_out_of_bounds_at_its_line(kernels: Any) -> None:
    with pytest.raises(SimulationError) as caught:
        kernels.twice(given(np.zeros(300, np.float32)), given(np.zeros(300, np.float32)), 301)
    place = caught.value.source
    assert caught.value.kind == "out_of_bounds" and place is not None and place.file.endswith("kernels.py")
    assert "y[i] = x[i] * 2.0" in Path(place.file).read_text().splitlines()[place.line - 1]


def test_a_race_at_both_lines(kernels: Any) -> None:
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    kernels.turned(given(x), given(y), True)
    assert (y == x[::-1]).all()
    with pytest.raises(SimulationError, match="nothing orders them") as caught:
        kernels.turned(given(x), given(y), False)
    text = Path(kernels.__file__).read_text().splitlines()
    places = caught.value.source, caught.value.details["other"]["source"]
    assert {"shared" in text[place.line - 1] for place in places} == {True} and places[0].line != places[1].line


@pytest.mark.parametrize("swizzle", [0, 3])
def test_tensor_maps(kernels: Any, swizzle: int) -> None:
    x, y = aligned(64, 64), aligned(64, 64)
    x[:] = np.random.default_rng(swizzle).standard_normal((64, 64))
    kernels.copied(given(x), given(y), swizzle, BYTES)
    assert (x == y).all() and pipec.cute.findings() == []


@pytest.mark.parametrize("wrong", [-64, 64])
def test_a_wrong_number_of_bytes(kernels: Any, wrong: int) -> None:
    with pytest.raises(SimulationError):
        kernels.copied(given(aligned(64, 64)), given(aligned(64, 64)), 3, BYTES + wrong)


class TestArgumentsByTvmFfi:
    """Arrays as they are, or described by `from_dlpack` with `enable_tvm_ffi`."""

    def compiled(self, kernels: Any) -> Any:
        from cutlass import cute

        x = given(np.zeros(300, np.float32)).mark_layout_dynamic()
        return cute.compile(kernels.twice, x, x, 300, options="--enable-tvm-ffi")

    def test_arrays(self, kernels: Any) -> None:
        function = self.compiled(kernels)
        for n in (300, 100):
            x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
            function(x, y, n)
            assert (y == 2 * x).all()

    def test_described_arrays(self, kernels: Any) -> None:
        from cutlass.cute.runtime import from_dlpack

        x, y = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
        self.compiled(kernels)(*(from_dlpack(one, enable_tvm_ffi=True) for one in (x, y)), 300)
        assert (y == 2 * x).all()

    def test_faults(self, kernels: Any) -> None:
        function = self.compiled(kernels)
        with pytest.raises(SimulationError, match=r"out_of_bounds: .* 0 bytes past the end of allocation \d+ \(1200 bytes\)"):
            function(np.zeros(300, np.float32), np.zeros(300, np.float32), 301)
        with pytest.raises(ValueError, match="dtype"):
            function(np.zeros(300, np.int32), np.zeros(300, np.float32), 300)


def test_a_tensor_map_of_many_bytes(kernels: Any) -> None:
    """From 128 KiB on the host code describes a tensor otherwise."""
    x, y = aligned(2048, 64), aligned(2048, 64)
    x[:64] = 1
    kernels.copied(given(x), given(y), 3, BYTES)
    assert (x == y).all()


def test_a_tensor_map_that_begins_below_its_tensor(kernels: Any) -> None:
    """Only what is copied has to be in a tensor."""
    x, y = aligned(64, 64), aligned(64, 64)
    x[:] = np.arange(x.size, dtype=np.float16).reshape(x.shape)
    kernels.copied_from_below(given(x), given(y), 32, BYTES)
    assert (y == x).all()
    with pytest.raises(SimulationError) as caught:
        kernels.copied_from_below(given(x), given(y), 0, BYTES)
    assert caught.value.kind == "out_of_bounds"


def test_the_bindings_of_cuda_know_the_device(kernels: Any) -> None:
    from cuda.bindings import driver, runtime

    (done,) = driver.cuInit(0)
    assert done == driver.CUresult.CUDA_SUCCESS
    _, device = driver.cuDeviceGet(0)
    majors = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    assert driver.cuDeviceGetAttribute(majors, device) == (done, 9)
    _, context = driver.cuCtxGetCurrent()
    assert int(context) and driver.cuCtxSetCurrent(context) == (done,)
    assert runtime.cudaGetDevice() == (runtime.cudaError_t.cudaSuccess, 0)


def test_installing_again_changes_the_options(kernels: Any) -> None:
    from cutlass import cute

    x, y = np.ones(300, np.float32), np.zeros(300, np.float32)
    try:
        pipec.cute.install("sm_90a", Options(step_limit=10, trace=False))
        with pytest.raises(SimulationError, match="step_limit"):
            cute.compile(kernels.twice, given(x), given(y), 300)(given(x), given(y), 300)
    finally:
        pipec.cute.install("sm_90a")
    cute.compile(kernels.twice, given(x), given(y), 300)(given(x), given(y), 300)
    assert (y == 2).all()


def test_the_environment_is_as_before() -> None:
    """In a process of its own: this one keeps what the first installation set."""
    program = """
import os, pipec.cute
before = dict(os.environ)
pipec.cute.install("sm_90a")
kept = [os.environ["CUTE_DSL_DISABLE_FILE_CACHING"], os.environ["QUACK_CACHE_ENABLED"]]  # in files, of compiled functions: nothing
pipec.cute.uninstall()
print(dict(os.environ) == before, *kept)
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True 1 0"


PROGRAM = """
import sys
import numpy as np
from cutlass.cute.runtime import from_dlpack
from cute_programs.kernels import twice

x, y = np.ones(200, np.float32), np.zeros(200, np.float32)
twice(from_dlpack(x), from_dlpack(y), int(sys.argv[1]))
print(y.sum())
"""


@pytest.mark.parametrize(("n", "code", "said"), [("200", 0, "400.0"), ("201", 1, "ended in out of bounds")])
def test_the_command(tmp_path: Path, n: str, code: int, said: str) -> None:
    file = tmp_path / "program.py"
    file.write_text(f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n{PROGRAM}", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pipec", "cute", "--arch", "sm_90a", str(file), n],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == code and said in run.stdout + run.stderr
    assert code == 0 or "y[i] = x[i] * 2.0" in run.stderr
