"""Records what a Hopper GPU computes for alu_cases, as expected values for the simulator.

python -m tests.sim.record_alu prepare FOLDER     (NumPy and ptxas needed: cubin, inputs, manifest)
python tests/sim/record_alu.py run FOLDER OUT     (on the GPU machine; needs only libcuda)
python -m tests.sim.record_alu store OUT          (writes tests/sim/data/alu_h200.npz)
"""

from __future__ import annotations

import ctypes
import json
import pathlib
import subprocess
import sys

THREADS = 256


def prepare(folder: str, ptxas: str = "ptxas") -> None:
    from tests.sim.alu_cases import cases, inputs, module

    target = pathlib.Path(folder)
    target.mkdir(exist_ok=True)
    (target / "alu.ptx").write_text(module())
    subprocess.run([ptxas, "-arch=sm_90a", str(target / "alu.ptx"), "-o", str(target / "alu.cubin")], check=True)
    blob, manifest = bytearray(), []
    for case in cases():
        arrays = inputs(case)
        manifest.append([case.name, [array.nbytes for array in arrays], case.output // 8 * THREADS])
        for array in arrays:
            blob += array.tobytes()
    (target / "inputs.bin").write_bytes(bytes(blob))
    (target / "manifest.json").write_text(json.dumps(manifest))


def check(code: int) -> None:
    if code:
        raise SystemExit(f"CUDA error {code}")


def run(folder: str, out: str) -> None:
    source, cuda = pathlib.Path(folder), ctypes.CDLL("libcuda.so.1")
    check(cuda.cuInit(0))
    context, module = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuModuleLoadData(ctypes.byref(module), (source / "alu.cubin").read_bytes()))
    data, position, results = (source / "inputs.bin").read_bytes(), 0, bytearray()
    memory = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 16)))
    for name, sizes, output in json.loads((source / "manifest.json").read_text()):
        addresses = [ctypes.c_uint64(memory.value + 8192 * place) for place in range(len(sizes) + 1)]
        for size, address in zip(sizes, addresses):
            check(cuda.cuMemcpyHtoD_v2(address, data[position : position + size], ctypes.c_size_t(size)))
            position += size
        function = ctypes.c_void_p()
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, f"k_{name}".encode()))
        pointers = (ctypes.c_void_p * len(addresses))(*(ctypes.addressof(address) for address in addresses))
        check(cuda.cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, None, pointers, None))
        buffer = ctypes.create_string_buffer(output)
        check(cuda.cuMemcpyDtoH_v2(buffer, addresses[len(sizes)], ctypes.c_size_t(output)))
        results += buffer.raw
    pathlib.Path(out, "outputs.bin").write_bytes(bytes(results))


def store(out: str) -> None:
    import numpy as np

    from tests.sim.alu_cases import cases

    data, position, arrays = pathlib.Path(out, "outputs.bin").read_bytes(), 0, {}
    for case in cases():
        size = case.output // 8 * THREADS
        arrays[case.name] = np.frombuffer(data[position : position + size], f"uint{case.output}")
        position += size
    np.savez_compressed(pathlib.Path(__file__).parent / "data" / "alu_h200.npz", **arrays)


if __name__ == "__main__":
    {"prepare": prepare, "run": run, "store": store}[sys.argv[1]](*sys.argv[2:])
