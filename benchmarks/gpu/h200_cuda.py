"""Times of kernels in CUDA C on a Hopper GPU, with the PTX that NVRTC makes of them and their launches; 30 seconds.

    python benchmarks/gpu/h200_cuda.py FOLDER [--rounds 9] [--ptx FILE]

Launches are replayed from CUDA graphs over buffers that exceed the L2 cache, each kernel once in every round, in shuffled order; a figure
is the median of its rounds. Results are compared with torch's where they are easily said. `benchmarks/prediction/foreign.py` predicts the
times of what lies in the folder.
"""

import argparse
import ctypes
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.gpu.cuda_kernels import TEXT, Case, cases, launch_of
from benchmarks.gpu.foreign_instructions import Driver
from benchmarks.gpu.foreign_rounds import guessed, measure, row_of

_TURN, _MOST = 0.004, 400  # seconds of a turn, and launches in it
_TYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "u8": torch.uint8,
    "u16": torch.int16,
    "i32": torch.int32,
    "u32": torch.int32,
}
_REGISTERS, _SHARED = 4, 8  # CU_FUNC_ATTRIBUTE_NUM_REGS, _MAX_DYNAMIC_SHARED_SIZE_BYTES


def compiled(text: str) -> str:
    """PTX of NVRTC, from the library that comes with torch."""
    folder = next(path.parent for path in Path(torch.__file__).parents[1].glob("nvidia/**/libnvrtc.so.*"))
    for path in sorted(folder.glob("libnvrtc-builtins.so.*")):
        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(next(folder.glob("libnvrtc.so.*"))))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernels.cu", 0, None, None)
    options = [b"--gpu-architecture=compute_90a", b"--std=c++17", b"-lineinfo"]
    failed = library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    ask = ("nvrtcGetProgramLogSize", "nvrtcGetProgramLog") if failed else ("nvrtcGetPTXSize", "nvrtcGetPTX")
    getattr(library, ask[0])(program, ctypes.byref(size))
    found = ctypes.create_string_buffer(size.value)
    getattr(library, ask[1])(program, found)
    if failed:
        raise RuntimeError(found.value.decode())
    return found.value.decode()


class Ready:
    """A kernel with its buffers and the graph of a turn; its PTX and launch are written to a folder."""

    def __init__(self, case: Case, text: str, driver: Driver, folder: Path, l2: int) -> None:
        self.case, self._driver = case, driver
        self._function = driver.function(text, case.kernel)
        driver.call("cuFuncSetAttribute", self._function, _SHARED, case.shared)
        found = ctypes.c_int()
        driver.call("cuFuncGetAttribute", ctypes.byref(found), _REGISTERS, self._function)
        self.registers = found.value
        size = sum(math.prod(shape) * _TYPES[dtype].itemsize for dtype, shape in case.arrays.values())
        self.sets = max(1, min(64, math.ceil(3 * l2 / size)))
        self.arrays = [{name: self._array(name, *of) for name, of in case.arrays.items()} for _ in range(self.sets)]
        name = case.name.replace(" ", "_")
        (folder / f"{name}.ptx").write_text(text)
        (folder / f"{name}.json").write_text(json.dumps(launch_of(case, self.registers)))
        self.launch(0)
        torch.cuda.synchronize()
        self.right = _CHECKS[case.kernel](self.arrays[0]) if case.kernel in _CHECKS else None
        self.launches = max(self.sets, min(_MOST, int(_TURN / guessed(self.launch, self.sets))))
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            for number in range(self.launches):
                self.launch(number % self.sets)
        self.times: list[float] = []
        self.clocks: list[float] = []

    def _array(self, name: str, dtype: str, shape: tuple[int, ...]) -> torch.Tensor:
        kind = _TYPES[dtype]
        if name == "z":
            return torch.zeros(shape, dtype=kind, device="cuda")
        if kind.is_floating_point:
            return torch.randn(shape, device="cuda").to(kind)
        return torch.randint(0, self.case.below.get(name, 1 << 15), shape, dtype=kind, device="cuda")

    def launch(self, number: int) -> None:
        case = self.case
        values = [ctypes.c_uint64(one.data_ptr()) for one in self.arrays[number].values()]
        values += [ctypes.c_int32(one) for one in case.numbers]
        array = (ctypes.c_void_p * len(values))(*[ctypes.addressof(one) for one in values])
        grid, block = ((*of, 1, 1)[:3] for of in (case.grid, case.block))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._driver.call("cuLaunchKernel", self._function, *grid, *block, case.shared, stream, array, None)


def _near(found: torch.Tensor, wanted: torch.Tensor, most: float = 1e-3) -> bool:
    return bool(((found.double() - wanted.double()).norm() / wanted.double().norm()).item() < most)


def _product(most: float) -> Callable[[dict[str, torch.Tensor]], bool]:
    return lambda of: _near(
        of["z"], of["a"].double() @ (of["b"].double().T if of["b"].dtype == torch.bfloat16 else of["b"].double()), most
    )


_CHECKS: dict[str, Callable[[dict[str, torch.Tensor]], bool]] = {
    **{name: lambda of: torch.equal(of["x"], of["z"]) for name in ("copy_wide", "copy_narrow", "copy_looped")},
    **{
        name: lambda of: torch.equal(of["x"].T, of["z"])
        for name in ("transpose_plain", "transpose_conflicts", "transpose_padded")
    },
    **{name: lambda of: _near(of["z"].double().sum(), of["x"].double().sum(), 1e-2) for name in ("sum_tree", "sum_looped")},
    **{name: lambda of: _near(of["z"], torch.softmax(of["x"], 1)) for name in ("softmax_warps", "softmax_passes")},
    "product_shared": _product(1e-5),
    "product_registers": _product(1e-5),
    "product_mma": _product(1e-2),
    "product_mma_async": _product(1e-2),
    "histogram_shared": lambda of: torch.equal(of["z"].long(), torch.bincount(of["x"].int(), minlength=256)),
    "gelu": lambda of: _near(of["z"], torch.nn.functional.gelu(of["x"], approximate="tanh")),
    "vector_times_matrix": lambda of: _near(of["z"], of["x"].double() @ of["y"].double()),
    "scan_blocks": lambda of: _near(of["z"].view(-1, 4096), of["x"].view(-1, 4096).double().cumsum(1)),
    "gather": lambda of: torch.equal(of["z"], of["x"][of["index"].long()]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ptx", type=Path, help="what NVRTC made elsewhere")
    options = parser.parse_args()
    (options.folder / "ptx").mkdir(parents=True, exist_ok=True)
    properties = torch.cuda.get_device_properties(0)
    torch.zeros(1, device="cuda")
    driver, text = Driver(), options.ptx.read_text() if options.ptx else compiled(TEXT)
    ready = [Ready(case, text, driver, options.folder / "ptx", properties.L2_cache_size) for case in cases()]
    measure(ready, options.rounds, properties.L2_cache_size)
    record: dict[str, Any] = {
        "gpu": properties.name,
        "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "versions": {"torch": torch.__version__},
        "kernels": {
            one.case.name: row_of(one) | {"right": one.right, "grid": list(one.case.grid), "flops": one.case.flops}
            for one in ready
        },
    }
    (options.folder / "measured.json").write_text(json.dumps(record, indent=1))
    for name, row in record["kernels"].items():
        times = " ".join(f"{row[which] * 1e6:9.2f}" for which in ("seconds", "least", "most"))
        print(f"{name:32} {times} us, {row['clock_ghz']:.3f} GHz, right: {row['right']}")


if __name__ == "__main__":
    main()
