"""GEMM on a Hopper GPU: pipec against cuBLAS (torch.matmul) and Triton's persistent TMA matmul, in one process.

    python benchmarks/h200.py [--shapes 4096x4096x4096,8192x8192x8192] [--rounds 15] [--only pipec,cublas,triton] [--name h200]

D[M, N] = A[M, K] @ B[N, K].T; bf16 throughout, or with e4m3 operands and bf16 results for shapes that end in `:fp8`; those that end in
`:split`, with few tiles and tall K, also by blocks that share a tile. Random data, as many
sets of buffers as it takes to be larger than the L2 cache several times over; the contenders take turns, launches are replayed from CUDA
graphs, and a figure is the median of the rounds. Every result is compared with cuBLAS before it is timed.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).resolve().parent)]

from common import surroundings

import pipec

SHAPES = [
    "512x512x512",
    "1024x1024x1024",
    "2048x2048x2048",
    "4096x4096x4096",
    "8192x8192x8192",
    "16384x16384x4096",
    "8192x8192x512",
    "128x8192x8192",
    "4096x4096x14336",
    "8192x28672x8192",
    "4096x4096x4096:fp8",
    "8192x8192x8192:fp8",
]
EXAMPLES = ROOT / "examples"
# What pipec runs: example and compile-time parameters. The fastest is compared, all are recorded.
KERNELS: dict[str, list[tuple[str, dict[str, object]]]] = {
    "bf16": [
        ("gemm_sm90_persistent", {}),
        ("gemm_sm90_persistent", {"STAGES": 3}),
        ("gemm_sm90_persistent", {"BN": 128, "STAGES": 6}),
        ("gemm_sm90_persistent", {"BM": 64, "BN": 128, "WARPS": 4, "STAGES": 8}),
        ("gemm_sm90", {"BN": 64, "STAGES": 8}),
        ("gemm_sm90", {"BM": 64, "BN": 32, "BK": 128, "WARPS": 4}),
        ("gemm_sm90_cluster", {}),
        ("gemm_sm90_cluster", {"CX": 1, "CY": 2}),
        ("gemm_sm90_pingpong", {}),
    ],
    "split": [
        ("gemm_sm90_persistent", {"BN": 128, "STAGES": 6}),
        ("gemm_sm90_persistent", {"BN": 64, "STAGES": 6}),
        *(("gemm_sm90_split_k", {"SPLITS": splits, "BN": 128, "STAGES": 6}) for splits in (2, 4, 8, 16)),
        *(("gemm_sm90_split_k", {"SPLITS": splits, "BN": 256, "STAGES": 4}) for splits in (4, 8)),
    ],
    "fp8": [
        ("gemm_sm90_persistent", {"AB": "e4m3", "BK": 128}),
        ("gemm_sm90_persistent", {"AB": "e4m3", "BK": 128, "BN": 128, "STAGES": 6}),
        ("gemm_sm90_cluster", {"AB": "e4m3", "BK": 128}),
        ("gemm_sm90_pingpong", {"AB": "e4m3", "BK": 128}),
    ],
}
GRAPH_SECONDS = 0.004  # about how long one replay of a graph takes
L2_BYTES = 50 * 2**20

Sets = list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]


def buffers(m: int, n: int, k: int, kind: str) -> Sets:
    size = (m + n) * k * (1 if kind == "fp8" else 2) + 2 * m * n
    count = max(2, min(64, -(-4 * L2_BYTES // size)))
    generator = torch.Generator(device="cuda").manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        drawn = torch.randn(shape, device="cuda", generator=generator, dtype=torch.bfloat16)
        return drawn.to(torch.float8_e4m3fn) if kind == "fp8" else drawn

    return [(draw(m, k), draw(n, k), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)) for _ in range(count)]


# ------------------------------------------------------------------------------------------------------------- contenders


def cublas(kind: str) -> Callable:
    if kind == "fp8":
        one = torch.ones((), device="cuda")

        def scaled(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
            torch._scaled_mm(a, b.T, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=d)

        return scaled
    return lambda a, b, d: torch.matmul(a, b.T, out=d)


def ours(example: str, constants: dict[str, object]) -> Callable:
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    path = EXAMPLES / f"{example}.pipe"
    persistent = {"BLOCKS": blocks} if "BLOCKS" in path.read_text(encoding="utf-8") else {}
    program = pipec.compile(path, constants={**persistent, **constants})
    kernel = program[example]
    if any(argument.name == "turns" for argument in kernel.interface.arguments):
        return split(kernel)
    return lambda a, b, d: kernel(a, b, d, device="cuda", stream=torch.cuda.current_stream())


def split(kernel: Any) -> Callable:
    """With what the blocks of a tile share: sums and turns, made once for a size."""
    shared: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def run(a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        m, n = d.shape
        if (m, n) not in shared:
            counters = torch.zeros(-(-m // 64), -(-n // 64), device="cuda", dtype=torch.int32)
            shared[m, n] = torch.empty(m, n, device="cuda", dtype=torch.float32), counters
        kernel(a, b, *shared[m, n], d, device="cuda", stream=torch.cuda.current_stream())

    return run


def tritons() -> Callable:
    from h200_triton import matmul

    return matmul


def contenders(kind: str, only: list[str]) -> dict[str, Callable]:
    found: dict[str, Callable] = {}
    if "cublas" in only:
        found["cublas"] = cublas(kind)
    if "triton" in only:
        try:
            found["triton"] = tritons()
        except ImportError as missing:
            print(f"no Triton here: {missing}", file=sys.stderr)
    if "pipec" in only:
        for example, constants in KERNELS[kind]:
            words = " ".join(f"{name}={value}" for name, value in constants.items() if name != "AB")
            found[f"pipec {example.removeprefix('gemm_').removeprefix('sm90_')} {words}".strip()] = ours(example, constants)
    return found


# ------------------------------------------------------------------------------------------------------------ measurement


def right(run: Callable, sets: Sets, kind: str) -> float:
    """The largest difference from cuBLAS, relative to the largest value."""
    a, b, d = sets[0]
    wanted = torch.empty_like(d)
    cublas(kind)(a, b, wanted)
    d.fill_(float("nan"))
    run(a, b, d)
    torch.cuda.synchronize()
    difference = (d.float() - wanted.float()).abs().max() / wanted.float().abs().max()
    return float(difference)


def graph_of(run: Callable, sets: Sets, seconds: float) -> tuple[torch.cuda.CUDAGraph | None, int]:
    """A graph that goes through the sets of buffers in turn, and its number of launches."""
    count = max(len(sets), min(400, int(GRAPH_SECONDS / seconds)))
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for index in range(count):
                run(*sets[index % len(sets)])
    except Exception as error:  # noqa: BLE001 - a contender that cannot be captured is launched one by one
        print(f"not captured: {type(error).__name__}: {error}", file=sys.stderr)
        torch.cuda.synchronize()
        return None, count
    return graph, count


def once(run: Callable, graph: torch.cuda.CUDAGraph | None, sets: Sets, count: int) -> float:
    """Seconds per launch."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    if graph is not None:
        graph.replay()
    else:
        for index in range(count):
            run(*sets[index % len(sets)])
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / count


def measure(shape: str, rounds: int, only: list[str]) -> dict[str, Any]:
    size, _, kind = shape.partition(":")
    kind = kind or "bf16"
    m, n, k = (int(part) for part in size.split("x"))
    sets = buffers(m, n, k, kind)
    flops = 2 * m * n * k
    ready: dict[str, tuple] = {}
    figures: dict[str, Any] = {}
    for name, run in contenders(kind, only).items():
        try:
            error = right(run, sets, kind)
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            figures[name] = {"failed": f"{type(failure).__name__}: {failure}"}
            print(f"{shape:24} {name:44} failed: {failure}", file=sys.stderr)
            continue
        if not error < 0.02:
            figures[name] = {"failed": f"differs from cuBLAS by {error:.3g} of the largest value"}
            print(f"{shape:24} {name:44} WRONG: {error:.3g}", file=sys.stderr)
            continue
        graph, count = graph_of(run, sets, flops / 600e12)
        once(run, graph, sets, count)
        ready[name] = run, graph, count, error
    times: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(rounds):
        for name, (run, graph, count, _) in ready.items():
            times[name].append(once(run, graph, sets, count))
    for name, taken in times.items():
        median = statistics.median(taken)
        figures[name] = {
            "microseconds": median * 1e6,
            "teraflops": flops / median / 1e12,
            "spread": (max(taken) - min(taken)) / median,
            "difference": ready[name][3],
            "graph": ready[name][1] is not None,
        }
        print(f"{shape:24} {name:44} {flops / median / 1e12:8.1f} TFLOP/s {median * 1e6:10.1f} us", flush=True)
    best = max((row.get("teraflops", 0.0) for name, row in figures.items() if name.startswith("pipec")), default=0.0)
    if best and "teraflops" in figures.get("cublas", {}):
        figures["ratio to cublas"] = best / figures["cublas"]["teraflops"]
        print(f"{shape:24} {'best pipec / cublas':44} {figures['ratio to cublas']:8.3f}", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="cublas,triton,pipec")
    parser.add_argument("--name", default="h200")
    options = parser.parse_args()
    figures = {}
    for shape in options.shapes.split(","):
        figures[shape] = measure(shape, options.rounds, options.only.split(","))
        torch.cuda.empty_cache()
    import triton

    gpu = {
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "triton": triton.__version__,
    }
    record = surroundings() | gpu | {"rounds": options.rounds, "figures": figures}
    target = ROOT / "benchmarks" / "results" / f"{options.name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
