"""The gradients of attention on a Hopper GPU: pipec against those of torch's scaled_dot_product_attention (cuDNN, FlashAttention-2).

    python benchmarks/gpu/h200_attention_backward.py [--rounds 15] [--lengths 1024,8192] [-o FILE]

As h200_attention.py beside it, with its shapes and method. Both sides begin with the forward pass's output and logarithms, and end with the
gradients of queries, keys and values: pipec by three kernels, which give the same result in every launch, and by one kernel for all
gradients between one for the sums and one that rounds (`pipec fused`).
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
from benchmarks.gpu.h200_attention import BACKENDS, TOKENS, WIDTH
from pipec.runtime import Launcher
from pipec.tune.rounds import compare
from pipec.tune.torch_clock import GpuClock

EXAMPLE, FUSED = "attention_sm90_backward", "attention_sm90_backward_fused"
SIZES = (64, 128)


def tile(size: int, causal: bool, example: str = EXAMPLE) -> Tile:
    return Tile(example, {"D": size, "CAUSAL": causal})


def tiles() -> list[Tile]:
    return [tile(size, causal, example) for size in SIZES for causal in (False, True) for example in (EXAMPLE, FUSED)]


def torchs(backend: SDPBackend, causal: bool, given: dict[str, torch.Tensor]) -> Callable[[], tuple[torch.Tensor, ...]]:
    leaves = [given[name][None].detach().requires_grad_() for name in ("q", "k", "v")]
    with sdpa_kernel(backend):
        out = scaled_dot_product_attention(*leaves, is_causal=causal)
    return lambda: tuple(one[0] for one in torch.autograd.grad(out, leaves, given["dout"][None], retain_graph=True))


Run = Callable[[], tuple[torch.Tensor, ...]]


def forward(causal: bool, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """The output of attention and the logarithms of its sums."""
    q, k, v = (given[name] for name in ("q", "k", "v"))
    scores = q.float() @ k.float().mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    return (scores.softmax(-1) @ v.float()).bfloat16(), scores.logsumexp(-1)


def ours(built: Built, given: dict[str, torch.Tensor], out: torch.Tensor, lse: torch.Tensor) -> Run:
    sums_of, keys_of, queries_of = launchers(built)
    q, k, v, dout = (given[name] for name in ("q", "k", "v", "dout"))
    scale = q.shape[-1] ** -0.5
    sums = torch.empty_like(lse)
    dq, dk, dv = (torch.empty_like(one) for one in (q, k, v))

    def run() -> tuple[torch.Tensor, ...]:
        stream = torch.cuda.current_stream()
        sums_of((out, dout, sums), device="cuda", stream=stream)
        keys_of((q, k, v, dout, lse, sums, dk, dv, scale), device="cuda", stream=stream)
        queries_of((q, k, v, dout, lse, sums, dq, scale), device="cuda", stream=stream)
        return dq, dk, dv

    return run


def fused(built: Built, given: dict[str, torch.Tensor], out: torch.Tensor, lse: torch.Tensor) -> Run:
    sums_of, all_of, round_of = launchers(built)
    q, k, v, dout = (given[name] for name in ("q", "k", "v", "dout"))
    (heads, length, size), block = q.shape, parts_of(all_of)
    sums, parts = torch.empty_like(lse), torch.empty(heads, -(-length // block), size, block, device="cuda")
    dq, dk, dv = (torch.empty_like(one) for one in (q, k, v))

    def run() -> tuple[torch.Tensor, ...]:
        stream = torch.cuda.current_stream()
        sums_of((out, dout, sums, parts), device="cuda", stream=stream)
        all_of((q, k, v, dout, lse, sums, parts, dk, dv, size**-0.5), device="cuda", stream=stream)
        round_of((parts, dq, size**-0.5), device="cuda", stream=stream)
        return dq, dk, dv

    return run


def parts_of(launcher: Launcher) -> int:
    """Queries to a part of the sums."""
    (parts,) = (argument for argument in launcher.interface.arguments if argument.name == "parts")
    return int(parts.shape[-1])


def measure(size: int, length: int, causal: bool, rounds: int, built: Mapping[str, Built]) -> dict[str, Any]:
    heads = TOKENS // length * WIDTH // size
    flops = 10 * heads * length * length * size / (2 if causal else 1)  # five products, as is usual to count them
    generator = torch.Generator(device="cuda").manual_seed(0)
    shape = (heads, length, size)
    given = {
        name: torch.randn(shape, device="cuda", generator=generator, dtype=torch.bfloat16) for name in ("q", "k", "v", "dout")
    }
    runs: dict[str, Run] = {name: torchs(backend, causal, given) for name, backend in BACKENDS.items()}
    out, lse = forward(causal, given)
    runs["pipec"] = ours(built[key(tile(size, causal))], given, out, lse)
    runs["pipec fused"] = fused(built[key(tile(size, causal, FUSED))], given, out, lse)
    wanted = [one.float() for one in runs["cudnn"]()]
    clock = GpuClock(1, flops / 400e12)
    figures: dict[str, Any] = {}
    label = f"D={size} {'causal' if causal else 'full'} {length}"
    for name, run in runs.items():
        pairs = zip(run(), wanted, strict=True)
        error = max(float((one.float() - other).abs().max() / other.abs().max()) for one, other in pairs)
        if not error < 0.03:
            raise ValueError(f"{label}: {name} differs from cuDNN by {error:.3g} of the largest value")
        figures[name] = {"difference": error}
        clock.add(name, lambda _, run=run: run())
    done = compare(list(figures), clock, rounds, label)
    for name, figure in figures.items():
        time, ratio = done.time(name), done.ratio(name, "cudnn")
        figure |= {"microseconds": time.median * 1e6, "teraflops": flops / time.median / 1e12}
        figure["to cudnn"] = {"median": ratio.median, "low": ratio.low, "high": ratio.high}
        print(f"{label:24} {name:12} {figure['teraflops']:8.1f} TFLOP/s {time.median * 1e6:10.1f} us", flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_attention_backward.json")
    options = parser.parse_args()
    lengths = [int(length) for length in options.lengths.split(",")]
    built = build_all(tiles(), 0)
    figures = {
        f"{size} {'causal' if causal else 'full'} {length}": measure(size, length, causal, options.rounds, built)
        for size in SIZES
        for causal in (False, True)
        for length in lengths
    }
    gpu = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "cuda": torch.version.cuda}
    options.output.write_text(json.dumps(surroundings() | gpu | {"rounds": options.rounds, "figures": figures}, indent=2) + "\n")
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
