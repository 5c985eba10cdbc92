"""On an sm_90a GPU: bundles launched from C and from Python, against NumPy and against the kernel compiled in this process."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from bundle.c_bundle import C11, CPP17, EXAMPLES, compiled, missing, request, write
from bundle.test_build_document import block
from gpu.gpus import needs_gpu

import pipec
from pipec.bundle.build import build
from pipec.bundle.loading import load
from pipec.source import Source

pytestmark = [
    pytest.mark.gpu,
    needs_gpu,
    pytest.mark.skipif(missing() is not None, reason=f"bundles cannot be compiled here: {missing()}"),
]


def bundle(name: str, folder: Path, **changes: object) -> Path:
    """An example's bundle with its machine code, for both targets where it is for both."""
    path = EXAMPLES / f"{name}.pipe"
    return write(build(Source(path.name, path.read_text(encoding="utf-8")), name, request(**changes)), folder)


@pytest.mark.parametrize("command", [C11, CPP17], ids=["C11", "C++17"])
def test_the_program_of_the_document(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = bundle("gemm_sm90", tmp_path / "gemm_sm90")
    (tmp_path / "main.c").write_text(block("c"))
    program = tmp_path / "main"
    compiled(command, f"-I{folder}", tmp_path / "main.c", folder / "gemm_sm90.c", "-x", "none", "-l:libcuda.so.1", "-o", program)
    done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, "d[0] = 0x43c0\n"), done.stderr  # 192 * 1 * 2 = 384


def test_every_form_from_python(tmp_path: Path) -> None:
    """All sizes for which a form is chosen, and others between them; also a target that this GPU is not."""
    torch = pytest.importorskip("torch")
    shapes = {"M": (16, 512, 4096), "N": (1024,), "K": (512,)}
    folder = bundle("gemm_sm90_persistent", tmp_path, shapes=shapes)
    kernel = load(folder)["gemm_sm90_persistent"]
    taken = set()
    for m in (8, 16, 200, 512, 1000, 4096, 5000):
        a, b = (torch.randn(rows, 512, device="cuda", dtype=torch.bfloat16) for rows in (m, 1024))
        d = torch.full((m, 1024), float("nan"), device="cuda", dtype=torch.bfloat16)
        assert kernel(a, b, d).device == "cuda:0"
        torch.testing.assert_close(d.double(), a.double() @ b.double().T, rtol=1e-2, atol=0.3)
        taken.add(kernel.variant(a, b, d).cubin)
    assert len(taken) > 1


class Array(ctypes.Structure):
    _fields_ = (("data", ctypes.c_uint64), ("shape", ctypes.c_int64 * 2), ("strides", ctypes.c_int64 * 2))

    @staticmethod
    def of(tensor: object) -> "Array":
        return Array(tensor.data_ptr(), (ctypes.c_int64 * 2)(*tensor.shape), (ctypes.c_int64 * 2)(*tensor.stride()))


def test_c_and_python_agree_bit_for_bit(tmp_path: Path) -> None:
    """A cluster, launched from C on torch's memory and stream, also inside a capture; slices; a refusal."""
    torch = pytest.importorskip("torch")
    name = "gemm_sm90_cluster"
    folder = bundle(name, tmp_path)
    library_path = tmp_path / "library.so"
    compiled((*C11, "-O2"), "-shared", "-fPIC", folder / f"{name}.c", "-l:libcuda.so.1", "-o", library_path)
    library = ctypes.CDLL(str(library_path))
    compiled_here = pipec.compile(str(EXAMPLES / f"{name}.pipe"))[name]
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # torch's context is the device's primary one, and now current
    handle, message = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
    assert getattr(library, f"{name}_open")(ctypes.byref(handle), message) == 0, message.raw
    launch = getattr(library, f"{name}_launch")

    def call(a: object, b: object, d: object) -> int:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        return int(launch(handle, Array.of(a), Array.of(b), Array.of(d), stream, message))

    memory = torch.randn(1024, 512, device="cuda", dtype=torch.bfloat16)
    for a in (memory[:, :256], memory[:512, 64:448], memory):
        b = torch.randn(512, a.shape[1], device="cuda", dtype=torch.bfloat16)
        mine, theirs = (torch.full((a.shape[0], 512), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in "ab")
        assert call(a, b, mine) == 0, message.raw
        compiled_here(a, b, theirs)
        assert torch.equal(mine, theirs)
    graph, captured = torch.cuda.CUDAGraph(), torch.zeros_like(mine)
    with torch.cuda.graph(graph):
        assert call(a, b, captured) == 0, message.raw
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(captured, theirs)
    assert call(a, b, mine[:, :100]) == 1 and b"parameter `d`" in message.raw
    getattr(library, f"{name}_close")(handle)
