"""What single accesses cost on a Hopper GPU, each measured by itself: dependent loads from every level, scattered accesses of whole warps,
additions in shared memory, products by `mma.sync`, and blocks that start where others end; 30 seconds.

    python benchmarks/gpu/h200_accesses.py [-o FILE]

The model of foreign PTX (`pipec/predict/executed/costs.py`) takes constants from the record, `benchmarks/results/h200_accesses.json`. Times
of threads are in cycles of their multiprocessor's clock; those of grids are in microseconds, with what the driver takes to launch one.
"""

import argparse
import ctypes
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.gpu.foreign_instructions import Driver
from benchmarks.gpu.h200_cuda import compiled

LINE = 128  # bytes
WARPS = 8  # of a block
MOST_WORDS = 1 << 29
TEXT = r"""
typedef unsigned int u32;
typedef unsigned long long u64;

// Each load needs the address that the one before has found.
#define CHASE(name, how) extern "C" __global__ void name(u64 start, u32 trips, u64 *out) { \
    u64 at = start; \
    long long begin = clock64(); \
    for (u32 i = 0; i < trips; i++) asm volatile("ld.global." how ".u64 %0, [%0];" : "+l"(at)); \
    out[0] = clock64() - begin; \
    out[1] = at; \
}
CHASE(chase, "ca")
CHASE(chase_l2, "cg")

#define PLACE(i) z + (warp + i * warps) * between_warps + (threadIdx.x % 32) * (u64)between_lanes
#define HEAD u64 warp = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, warps = gridDim.x * (blockDim.x / 32);
extern "C" __global__ void stores(u32 *z, u32 between_lanes, u32 between_warps, u32 trips) {
    HEAD for (u32 i = 0; i < trips; i++) *(PLACE(i)) = i;
}
extern "C" __global__ void additions(u32 *z, u32 between_lanes, u32 between_warps, u32 trips) {
    HEAD for (u32 i = 0; i < trips; i++) asm volatile("red.global.add.u32 [%0], 1;" :: "l"(PLACE(i)));
}
extern "C" __global__ void loads(u32 *z, u32 between_lanes, u32 between_warps, u32 trips) {
    HEAD u32 sum = 0;
#pragma unroll 8
    for (u32 i = 0; i < trips; i++) sum += *(PLACE(i));
    if (sum == 12345) z[0] = sum;
}

extern "C" __global__ void shared_additions(u32 step, u32 trips, u64 *out) {
    __shared__ u32 bins[8192];
    for (u32 i = threadIdx.x; i < 8192; i += blockDim.x) bins[i] = 0;
    u32 place = (u32)__cvta_generic_to_shared(bins) + (threadIdx.x % 32) * step % 8192 * 4;
    __syncthreads();
    long long begin = clock64();
#pragma unroll 8
    for (u32 i = 0; i < trips; i++) asm volatile("red.shared.add.u32 [%0], 1;" :: "r"(place));
    __syncthreads();
    if (threadIdx.x == 0) out[0] = clock64() - begin, out[1] = bins[5];
}

extern "C" __global__ void products(u32 trips, u32 seed, u64 *out) {
    float d[4][4][4] = {};
    u32 a[4][4], b[4][2];
    for (u32 i = 0; i < 4; i++) {
        for (u32 j = 0; j < 4; j++) a[i][j] = seed * (i * 4 + j + threadIdx.x);
        for (u32 j = 0; j < 2; j++) b[i][j] = seed * (i * 2 + j * threadIdx.x);
    }
    __syncthreads();
    long long begin = clock64();
    for (u32 n = 0; n < trips; n++) {
#pragma unroll
        for (u32 i = 0; i < 4; i++)
#pragma unroll
            for (u32 j = 0; j < 4; j++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                    "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                    : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]), "+f"(d[i][j][3])
                    : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
    }
    __syncthreads();
    if (threadIdx.x == 0) out[0] = clock64() - begin;
    float sum = 0;
    for (u32 i = 0; i < 4; i++)
        for (u32 j = 0; j < 4; j++)
            for (u32 k = 0; k < 4; k++) sum += d[i][j][k];
    if (sum == 1.5f) out[1] = 1;
}

extern "C" __global__ void spin(u32 cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) {}
}
"""
#: Words between the places of neighbouring lanes and of neighbouring warps, and accesses of a warp.
SCATTERED = {
    "coalesced": (1, 32, 64),
    "a sector apart": (8, 256, 64),
    "a line apart": (32, 1024, 16),
    "4 KiB apart": (1024, 1, 64),
    "16 KiB apart": (4096, 1, 64),
}


class Gpu:
    def __init__(self) -> None:
        torch.zeros(1, device="cuda")
        self.driver, self.text = Driver(), compiled(TEXT)
        self.functions: dict[str, Any] = {}
        self.out = torch.zeros(8, dtype=torch.int64, device="cuda")
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
        self._other = torch.zeros(1 << 26, dtype=torch.int32, device="cuda")  # larger than the L2

    def launch(self, name: str, blocks: int, threads: int, *arguments: int | torch.Tensor) -> None:
        if name not in self.functions:
            self.functions[name] = self.driver.function(self.text, name)
        values = [ctypes.c_uint64(one if isinstance(one, int) else one.data_ptr()) for one in arguments]
        array = (ctypes.c_void_p * len(values))(*[ctypes.addressof(one) for one in values])
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.driver.call("cuLaunchKernel", self.functions[name], blocks, 1, 1, threads, 1, 1, 0, stream, array, None)

    def forget(self) -> None:
        """Other data takes the place of what the L2 holds."""
        self._other.add_(1)

    def cycles(self, name: str, threads: int, *arguments: int | torch.Tensor, fresh: bool = False) -> int:
        """What one block has counted, the second time: its instructions are cached then; with `fresh`, its data are not."""
        for _ in range(2):
            if fresh:
                self.forget()
            self.launch(name, 1, threads, *arguments, self.out)
            torch.cuda.synchronize()
        return int(self.out[0])

    def microseconds(self, name: str, blocks: int, threads: int, *arguments: int | torch.Tensor) -> float:
        """The median of a launch with nothing in the L2."""
        found = []
        for _ in range(5):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            self.forget()
            start.record()
            self.launch(name, blocks, threads, *arguments)
            end.record()
            torch.cuda.synchronize()
            found.append(start.elapsed_time(end) * 1e3)
        return statistics.median(found)


def dependent(gpu: Gpu) -> dict[str, dict[str, float]]:
    """Cycles of a load whose address the one before has found, over so many KiB in random order; `first touch`: of lines that are in no
    cache."""
    found: dict[str, dict[str, float]] = {"cached": {}, "L2": {}, "first touch": {}}
    for size in (32 << 10, 128 << 10, 1 << 20, 8 << 20, 24 << 20, 40 << 20, 2 << 30):
        lines = size // LINE
        order = torch.randperm(lines, device="cuda")
        memory = torch.zeros(size // 8, dtype=torch.int64, device="cuda")
        memory[order * (LINE // 8)] = memory.data_ptr() + torch.roll(order, -1) * LINE
        start, trips = memory.data_ptr(), min(20_000, max(2000, 2 * lines))
        name = str(size >> 10)
        if size <= 40 << 20:
            for _ in range(2):  # twice around, so that all of it has been loaded
                gpu.cycles("chase_l2", 1, start, 2 * lines)
            found["cached"][name] = gpu.cycles("chase", 1, start, trips) / trips
            found["L2"][name] = gpu.cycles("chase_l2", 1, start, trips) / trips
        else:
            found["first touch"][name] = gpu.cycles("chase_l2", 1, start, 4000, fresh=True) / 4000
        del memory, order
    return found


def scattered(gpu: Gpu) -> dict[str, dict[str, dict[str, float]]]:
    """Cycles of a multiprocessor, at 1.98 GHz, for each access of a warp, if all have eight blocks or one."""
    memory = torch.zeros(MOST_WORDS, dtype=torch.int32, device="cuda")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for which, (lanes, between, trips) in SCATTERED.items():
        most = (MOST_WORDS - 32 * lanes) // (between * gpu.multiprocessors * 8 * WARPS)
        turns = min(trips, most)
        for kernel in ("loads", "stores", "additions"):
            row = found.setdefault(kernel, {}).setdefault(which, {})
            for blocks in (8, 1):
                time_ = gpu.microseconds(kernel, gpu.multiprocessors * blocks, 32 * WARPS, memory, lanes, between, turns)
                row[f"{blocks} blocks"] = time_ * 1980 / (blocks * WARPS * turns)
    return found


def measured(gpu: Gpu) -> dict[str, Any]:
    blocks = [gpu.multiprocessors * times for times in (1, 8, 64, 512)]
    return {
        "dependent loads": dependent(gpu),
        "scattered accesses": scattered(gpu),
        "additions in shared memory": {
            f"{step} words apart": {
                str(warps): gpu.cycles("shared_additions", 32 * warps, step, 512) / 512 / warps for warps in (1, 4, 16, 32)
            }
            for step in (0, 1, 2, 4, 32, 33)
        },
        "products of a partition": {
            str(warps): gpu.cycles("products", 32 * warps, 256, 3) / 256 / 16 / (warps / 4) for warps in (4, 8, 16)
        },
        "grids": {
            f"{count} blocks of {threads} threads": {
                str(cycles): gpu.microseconds("spin", count, threads, cycles) for cycles in (0, 1000, 4000)
            }
            for count in blocks
            for threads in ((256,) if count != blocks[-1] else (32, 256, 1024))
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", type=Path, default=ROOT / "benchmarks" / "results" / "h200_accesses.json")
    options = parser.parse_args()
    record = {
        "gpu": torch.cuda.get_device_name(0),
        "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "versions": {"torch": torch.__version__},
        "figures": measured(Gpu()),
    }
    options.o.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record["figures"], indent=1))


if __name__ == "__main__":
    main()
