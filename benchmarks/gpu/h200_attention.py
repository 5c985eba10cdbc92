"""Attention on a Hopper GPU: pipec against torch's scaled_dot_product_attention (cuDNN, FlashAttention-2) in one process.

    python benchmarks/gpu/h200_attention.py [--rounds 15] [--only pipec,cudnn,flash] [--lengths 1024,8192] [-o FILE]

bf16, 16,384 tokens in sequences of one length, heads of 64 or 128 that make 2048 together. Random data; launches are replayed from CUDA
graphs in shuffled rounds (pipec.tune.rounds), and a ratio is the median over the rounds of the times within one. A masked kernel is counted
with half the operations. Every result is compared with cuDNN's before it is timed. Inputs and output, 256 MiB, exceed the L2 cache.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_build import Built, build_all, key, launchers
from benchmarks.gemm.gemm_shapes import Tile
from pipec.tune.rounds import compare
from pipec.tune.torch_clock import GpuClock

TOKENS = 16_384
WIDTH = 2048  # heads times their size
SHORT = 2048
KERNEL, PERSISTENT, ROLES = "attention_sm90", "attention_sm90_persistent", "attention_sm90_roles"
# Examples with compile-time parameters by head size; the fastest is compared, all are recorded.
KERNELS: dict[int, list[tuple[str, dict[str, int]]]] = {
    64: [
        (KERNEL, {}),
        (KERNEL, {"BM": 128}),
        (PERSISTENT, {}),
        (PERSISTENT, {"BM": 128}),
        (PERSISTENT, {"BM": 128, "BN": 192}),
        (ROLES, {}),
        (ROLES, {"GROUPS": 2}),
        (ROLES, {"GROUPS": 4}),
        (ROLES, {"CX": 2}),
    ],
    128: [
        (KERNEL, {}),
        (KERNEL, {"BN": 128}),
        (PERSISTENT, {"BN": 128}),
        (PERSISTENT, {"BN": 160}),
        (PERSISTENT, {"BN": 176}),
        (ROLES, {}),
    ],
}
BACKENDS = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def torchs(backend: SDPBackend, causal: bool) -> Callable:
    """Gives its own output: a copy would count."""

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)[0]

    return run


def tiles(size: int, length: int, causal: bool) -> list[Tile]:
    """Keys and values of a strip of heads take 32 MiB of the L2 at most, but for the longest sequences."""
    strip = {"GROUP": 32 if length <= SHORT else 8}
    return [
        Tile(example, {"D": size, "CAUSAL": causal} | given | (strip if example != KERNEL else {}))
        for example, given in KERNELS[size]
        if not (causal and "CX" in given)
    ]


def ours(size: int, built: Built) -> Callable:
    (kernel,) = launchers(built)
    scale = size**-0.5
    whole = torch.ones(1, device="cuda", dtype=torch.int32)  # no sequence is shorter

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        if built.tile.example == KERNEL:
            arguments = (q, k, v, out, scale)
        else:  # flash and cuDNN write the logarithms as well
            arguments = (q, k, v, whole, out, torch.empty(q.shape[:2], device="cuda"), scale)
        kernel(arguments, device="cuda", stream=torch.cuda.current_stream())
        return out

    return run


def contenders(size: int, length: int, causal: bool, only: list[str], built: Mapping[str, Built]) -> dict[str, Callable]:
    found = {name: torchs(backend, causal) for name, backend in BACKENDS.items() if name in only}
    if "pipec" in only:
        for tile in tiles(size, length, causal):
            words = " ".join(f"{name}={value}" for name, value in tile.constants.items() if name not in ("D", "CAUSAL"))
            named = f"pipec {tile.example.removeprefix(KERNEL).removeprefix('_')} {words}"
            found[" ".join(named.split())] = ours(size, built[key(tile)])
    return found


def measure(size: int, length: int, causal: bool, rounds: int, runs: dict[str, Callable]) -> dict[str, Any]:
    heads = TOKENS // length * WIDTH // size
    flops = 4 * heads * length * length * size / (2 if causal else 1)
    generator = torch.Generator(device="cuda").manual_seed(0)
    q, k, v = (torch.randn(heads, length, size, device="cuda", generator=generator, dtype=torch.bfloat16) for _ in range(3))
    out = torch.empty_like(q)
    wanted = torchs(SDPBackend.CUDNN_ATTENTION, causal)(q, k, v, out).float()
    clock = GpuClock(1, flops / 500e12)
    figures: dict[str, Any] = {}
    differences: dict[str, float] = {}
    label = f"D={size} {'causal' if causal else 'full'} {length}"
    for name, run in runs.items():
        try:
            out.fill_(float("nan"))
            error = float((run(q, k, v, out).float() - wanted).abs().max() / wanted.abs().max())
            if not error < 0.02:
                raise ValueError(f"differs from cuDNN by {error:.3g} of the largest value")
            clock.add(name, lambda _, run=run: run(q, k, v, out))
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            figures[name] = {"failed": f"{type(failure).__name__}: {failure}"}
            print(f"{label:24} {name:44} failed: {failure}", file=sys.stderr)
            continue
        differences[name] = error
    done = compare(list(differences), clock, rounds, label)
    for name, difference in differences.items():
        time = done.time(name)
        teraflops = flops / time.median / 1e12
        figures[name] = {
            "microseconds": time.median * 1e6,
            "low": time.low * 1e6,
            "high": time.high * 1e6,
            "teraflops": teraflops,
        }
        figures[name] |= {"difference": difference}
        if "cudnn" in differences:
            ratio = done.ratio(name, "cudnn")
            figures[name]["to cudnn"] = {"median": ratio.median, "low": ratio.low, "high": ratio.high}
        print(f"{label:24} {name:44} {teraflops:8.1f} TFLOP/s {time.median * 1e6:10.1f} us", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="cudnn,flash,pipec")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_attention.json")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    lengths, only = [int(length) for length in options.lengths.split(",")], options.only.split(",")
    wanted = {
        key(tile): tile
        for size in KERNELS
        for length in lengths
        for causal in (False, True)
        for tile in tiles(size, length, causal)
    }
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    built = build_all(list(wanted.values()), blocks) if "pipec" in only else {}
    for size in KERNELS:
        for causal in (False, True):
            for length in lengths:
                runs = contenders(size, length, causal, only, built)
                figures[f"{size} {'causal' if causal else 'full'} {length}"] = measure(size, length, causal, options.rounds, runs)
    gpu = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}
    record = surroundings() | gpu | {"rounds": options.rounds, "figures": figures}
    target = options.output
    target.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target}")


if __name__ == "__main__":
    main()
