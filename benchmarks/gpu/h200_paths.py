"""How fast multiprocessors get data that others load beside them, on a Hopper GPU: what of the L2's path they share.

    python benchmarks/gpu/h200_paths.py [-o FILE] [--source]

A block on each multiprocessor copies chunks into shared memory by the copy engine, a ring of them in flight, and nothing waits for
the data but the next copy. Which multiprocessors take part, and which stream of data each of them reads, is an argument:

- pairs: the first with each other one. The partner that slows it down most is on the same TPC.
- spread: so many multiprocessors on as few TPCs as possible, and on as many; from the L2, and from memory.
- merged: groups of neighbours, or of multiprocessors far from each other, read the same stream, in step or some chunks apart.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings

MULTIPROCESSORS = 132
CHUNK, STAGES = 16384, 8
SOURCE = r"""
extern "C" __global__ void stream(const char* data, const int* of, const int* skew, long long bytes, int count, int stages, int chunk,
                                  int active, int* ready, long long* taken) {
    extern __shared__ __align__(128) char ring[];
    __shared__ __align__(8) unsigned long long full[64];
    if (threadIdx.x != 0) return;
    int sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    int own = of[sm];
    if (own < 0) { taken[sm] = -1; return; }
    unsigned base = (unsigned)__cvta_generic_to_shared(ring), barrier = (unsigned)__cvta_generic_to_shared(full);
    for (int i = 0; i < stages; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    const char* from = data + own * bytes;
    long long at = skew[sm] * (long long)chunk % bytes;
    atomicAdd(ready, 1);
    while (atomicAdd(ready, 0) < active) { }
    long long begin = clock64();
    int slot = 0, parity = 1;  // what is waited for first has never been used
    for (int i = 0; i < count + stages; ++i) {
        unsigned done = i < stages;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(barrier + 8 * slot), "r"(parity) : "memory");
        if (i < count) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier + 8 * slot), "r"(chunk) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                         :: "r"(base + slot * chunk), "l"(from + at), "r"(chunk), "r"(barrier + 8 * slot) : "memory");
            at = at + chunk == bytes ? 0 : at + chunk;
        }
        if (++slot == stages) { slot = 0; parity ^= 1; }
    }
    taken[sm] = clock64() - begin;
}
"""


class Paths:
    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._kernel = cupy.RawKernel(SOURCE, "stream", options=("--gpu-architecture=sm_90a",))
        self._kernel.max_dynamic_shared_size_bytes = 200 * 1024
        self._data = cupy.random.randint(0, 255, 6 * 2**30 // 8, dtype=cupy.int64).view(cupy.int8)

    def cycles(self, of: Sequence[int], skew: Sequence[int], size: int, count: int, stages: int, offset: int) -> list[int]:
        """Of each multiprocessor that reads a stream, `of` them -1 for none; streams of `size` bytes begin at an offset."""
        cupy, chosen = self._cupy, [one for one in of if one >= 0]
        taken, ready = cupy.zeros(MULTIPROCESSORS, cupy.int64), cupy.zeros(1, cupy.int32)
        data = self._data[offset : offset + (max(chosen) + 1) * size]
        given = (data, cupy.asarray(of, cupy.int32), cupy.asarray(skew, cupy.int32), cupy.int64(size), cupy.int32(count))
        rest = (cupy.int32(stages), cupy.int32(CHUNK), cupy.int32(len(chosen)), ready, taken)
        self._kernel((MULTIPROCESSORS,), (32,), (*given, *rest), shared_mem=200 * 1024)
        return [int(one) for one in taken.get() if one > 0]

    def rates(
        self,
        of: Sequence[int],
        *,
        skew: Sequence[int] | None = None,
        size: int = 128 * 1024,
        count: int = 512,
        stages: int = STAGES,
    ) -> dict[str, float]:
        """Bytes per cycle of a multiprocessor, the median over launches of the average one, and of the slowest one. Streams that are no
        longer than `count` chunks stay in the L2; longer ones come from memory, and each launch reads another part."""
        skew, far, found = skew or [0] * MULTIPROCESSORS, size > count * CHUNK // 2, []
        whole = (max(of) + 1) * size
        for turn in range(6):
            offset = turn * whole % (self._data.size - whole) // 128 * 128 if far else 0
            found.append(self.cycles(of, skew, size, count, stages, offset))
        moved = count * CHUNK
        average = [moved * sum(1 / one for one in cycles) / len(cycles) for cycles in found[1:]]
        return {"average": round(median(average), 2), "slowest": round(median(moved / max(cycles) for cycles in found[1:]), 2)}


def together(groups: Sequence[Sequence[int]]) -> list[int]:
    """Every multiprocessor of a group reads the stream that has the group's number."""
    of = [-1] * MULTIPROCESSORS
    for number, group in enumerate(groups):
        for one in group:
            of[one] = number
    return of


def alone(chosen: Sequence[int]) -> list[int]:
    return together([[one] for one in chosen])


def measure(paths: Paths) -> dict[str, Any]:
    everywhere = range(MULTIPROCESSORS)
    record: dict[str, Any] = {"one": paths.rates(alone([0])), "all": paths.rates(alone(everywhere))}
    record["pairs"] = {str(other): paths.rates(alone([0, other]))["average"] for other in everywhere if other}
    record["spread"] = {}
    for count in (16, 33, 48, 66, 80, 96, 112):
        few, many = alone([*everywhere][: count // 2 * 2]), alone(_widely(count))
        for name, of in (("few TPCs", few), ("many TPCs", many)):
            record["spread"][f"{count}, {name}"] = {
                "L2": paths.rates(of),
                "memory": paths.rates(of, size=8 * 2**20, count=512),
                "memory, 12 chunks": paths.rates(of, size=8 * 2**20, count=512, stages=12),
            }
    record["rings"] = {
        f"{count}, {stages} chunks": paths.rates(alone(_widely(count)), size=8 * 2**20, count=512, stages=stages)
        for count in (66, 80, 100, 132)
        for stages in (2, 4, 6, 8, 10, 12)
    }
    record["merged"] = {}
    for size in (1, 2, 4, 6, 12, 18, 33, 66, 132):
        near = together([[*everywhere][first : first + size] for first in range(0, MULTIPROCESSORS, size)])
        apart = MULTIPROCESSORS // size
        far = together([[*everywhere][first::apart] for first in range(apart)])
        for name, of in (("near", near), ("far", far)):
            for late in (0, 1, 3):
                skew = [late * one for one in everywhere]
                record["merged"][f"{size} {name}, {late} chunks apart"] = paths.rates(of, skew=skew, count=2048)
    return record


def _widely(count: int) -> list[int]:
    """One multiprocessor of each TPC first."""
    return [*range(0, MULTIPROCESSORS, 2), *range(1, MULTIPROCESSORS, 2)][:count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_paths.json")
    parser.add_argument("--source", action="store_true", help="print the kernel, and measure nothing")
    options = parser.parse_args()
    if options.source:
        print(SOURCE)
        return 0
    import torch

    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "chunk": CHUNK, "stages": STAGES}
    record |= measure(Paths())
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    slow = sorted(record["pairs"].items(), key=lambda pair: pair[1])[:4]
    print("one", record["one"], "all", record["all"], "slowest pairs", slow)
    for part in ("spread", "rings", "merged"):
        for name, rates in record[part].items():
            print(f"{part:8} {name:28} {rates}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
