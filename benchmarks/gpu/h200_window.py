"""Attention over a window of keys, with ALiBi, on a Hopper GPU: pipec against torch's flex_attention and FlashAttention-2.

    python benchmarks/gpu/h200_window.py [--rounds 11] [--budget 90] [-o FILE]

As h200_attention.py beside it, whose shapes and method it has. flex_attention is compiled with the same change of the scores, and a mask of
blocks for the window, so that it skips the same blocks; FlashAttention-2 has the window, but not the change. Two heads of every result but
that one's are compared with float32 before it is timed. Operations are counted for the pairs that are seen.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.common import RESULTS, surroundings
from benchmarks.gemm.gemm_build import Built, build_all, key, launchers
from benchmarks.gemm.gemm_shapes import Tile
from benchmarks.gpu.h200_attention import TOKENS, WIDTH
from pipec.tune.rounds import compare
from pipec.tune.torch_clock import GpuClock

EXAMPLE = "attention_sm90_window"
CASES = ((16_384, 1024), (16_384, 4096), (4096, 512))  # length of a sequence, window
SIZES = (128, 64)
KEYS = (96, 128)  # at a time
LIMIT = 0.01  # of the norm of a head
SLOPES = 32  # heads after which ALiBi's slopes repeat

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]  # q, k, v, slopes, out
Run = Callable[[], torch.Tensor]


def tile(size: int, keys: int) -> Tile:
    return Tile(EXAMPLE, {"D": size, "BN": keys})


def operands(size: int, length: int) -> Tensors:
    heads = TOKENS // length * WIDTH // size
    generator = torch.Generator(device="cuda").manual_seed(0)
    q, k, v = (torch.randn(heads, length, size, device="cuda", generator=generator, dtype=torch.bfloat16) for _ in range(3))
    slopes = 2.0 ** (-8.0 * (torch.arange(heads, device="cuda") % SLOPES + 1) / SLOPES)
    return q, k, v, slopes.float(), torch.empty_like(q)


def wanted(given: Tensors, window: int) -> dict[int, torch.Tensor]:
    """The first and the last head."""
    q, k, v, slopes, _ = given
    places = torch.arange(q.shape[1], device="cuda")
    distance = places[:, None] - places
    unseen = (distance < 0) | (distance >= window)
    found = {}
    for head in (0, q.shape[0] - 1):
        scores = (q[head].float() @ k[head].float().T) * q.shape[-1] ** -0.5 - slopes[head] * distance
        found[head] = scores.masked_fill(unseen, float("-inf")).softmax(-1) @ v[head].float()
    return found


def ours(built: Built, given: Tensors, window: int) -> Run:
    (kernel,) = launchers(built)
    q, k, v, slopes, out = given

    def run() -> torch.Tensor:
        kernel((q, k, v, slopes, out, q.shape[-1] ** -0.5, window), device="cuda", stream=torch.cuda.current_stream())
        return out

    return run


def of_flex(compiled: Callable[..., torch.Tensor], given: Tensors, window: int) -> Run:
    q, k, v, slopes, _ = given
    length = q.shape[1]

    def seen(_batch: Any, _head: Any, i: Any, j: Any) -> Any:
        return (i >= j) & (i - j < window)

    def changed(score: Any, _batch: Any, head: Any, i: Any, j: Any) -> Any:
        return score - slopes[head] * (i - j)

    mask = create_block_mask(seen, None, None, length, length, device="cuda")
    return lambda: compiled(q[None], k[None], v[None], score_mod=changed, block_mask=mask, scale=q.shape[-1] ** -0.5)[0]


def of_flash(given: Tensors, window: int) -> Run:
    q, k, v = (one.permute(1, 0, 2)[None].contiguous() for one in given[:3])  # batch, place, head, element
    forward = torch.ops.aten._flash_attention_forward
    length = q.shape[1]
    sides = {"window_size_left": window - 1, "window_size_right": 0}
    return lambda: forward(q, k, v, None, None, length, length, 0.0, True, False, scale=q.shape[-1] ** -0.5, **sides)[0]


def measure(size: int, length: int, window: int, rounds: int, built: Mapping[str, Built], compiled: Callable) -> dict[str, Any]:
    given = operands(size, length)
    right = wanted(given, window)
    pairs = given[0].shape[0] * sum(min(place + 1, window) for place in range(length))
    flops = 4 * pairs * size
    runs: dict[str, Run] = {"flash": of_flash(given, window), "flex": of_flex(compiled, given, window)}
    runs |= {f"pipec BN={keys}": ours(built[key(tile(size, keys))], given, window) for keys in KEYS}
    clock = GpuClock(1, flops / 400e12)
    errors: dict[str, float] = {}
    for name, run in runs.items():
        given[-1].fill_(float("nan"))
        found = run()
        if name != "flash":
            errors[name] = max(float((found[head].float() - one).norm() / one.norm()) for head, one in right.items())
            if not errors[name] < LIMIT:
                raise ValueError(f"{name} is off by {errors[name]:.3g} in the norm")
        clock.add(name, lambda _, run=run: run())
    label = f"{size} {length} {window}"
    done = compare(list(runs), clock, rounds, label)
    row: dict[str, Any] = {"differences": errors, "operations": flops}
    for name in runs:
        ratio = done.ratio(name, "flex")
        row[name] = {
            "microseconds": done.time(name).median * 1e6,
            "to flex": {"median": ratio.median, "low": ratio.low, "high": ratio.high},
        }
        print(f"{label:16} {name:14} {done.time(name).median * 1e6:9.1f} us {ratio.median:.3f} of flex", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--budget", type=float, default=90, help="seconds after which no further case is begun")
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_window.json")
    options = parser.parse_args()
    started = time.perf_counter()
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    built = build_all([tile(size, keys) for size in SIZES for keys in KEYS], blocks)
    compiled = torch.compile(flex_attention, dynamic=False)
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rounds": options.rounds}
    record |= {"left_out": [], "figures": {}}
    for size in SIZES:
        for length, window in CASES:
            case = f"{size} {length} {window}"
            if time.perf_counter() - started > options.budget:
                record["left_out"].append(case)
                continue
            record["figures"][case] = measure(size, length, window, options.rounds, built, compiled)
            options.output.write_text(json.dumps(record, indent=1) + "\n")
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
