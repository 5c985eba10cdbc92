"""Attention of one new token on a Hopper GPU: pipec against torch's scaled_dot_product_attention (cuDNN, FlashAttention-2, memory
efficient) in one process.

    python benchmarks/gpu/h200_decode.py [--rounds 15] [-o FILE]

bf16, heads of 64 or 128, with keys and values of their own or shared by groups of four. Random data; launches are replayed from CUDA
graphs in shuffled rounds (pipec.tune.rounds), and a ratio is the median over the rounds of the times within one. Buffers rotate through
more than twice the L2. Each result is compared with float32 before it is timed. Bytes are keys and values, once.

pipec has two ways: a cluster for each head of keys, and any number of blocks with a second kernel that adds up; `two kernels` names the
second.
"""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from pipec.tune.torch_clock import GpuClock, l2_bytes

EXAMPLE = "attention_sm90_decode"
SPLIT = "attention_sm90_decode_split"
BACKENDS = {
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
}
# Keys in a step, stages; with as few bytes as the second half of them two blocks share a multiprocessor.
_STEPS: dict[int, tuple[tuple[int, int], ...]] = {64: ((128, 4), (128, 2), (64, 3)), 128: ((128, 2), (64, 4), (48, 2))}
_SPLITS = (1, 2, 3, 4, 8)
_SPLIT_STEPS: dict[int, tuple[tuple[int, int], ...]] = {64: ((128, 2), (64, 4)), 128: ((128, 2), (64, 2))}
_BLOCKS = (4, 8, 16, 32)  # for a head of keys


@dataclass(frozen=True, slots=True)
class Case:
    batch: int
    heads: int  # of keys and values
    group: int  # heads of queries to each
    length: int
    size: int

    def __str__(self) -> str:
        return f"batch {self.batch}, {self.heads * self.group} heads on {self.heads}, {self.length} keys, D={self.size}"

    @property
    def bytes(self) -> int:
        return 4 * self.batch * self.heads * self.length * self.size


CASES = [
    Case(batch, heads, group, length, size)
    for size in (128, 64)
    for heads, group in ((32, 1), (8, 4))
    for batch, length in ((1, 1024), (1, 8192), (1, 32768), (8, 1024), (8, 8192), (32, 2048))
]
Launch = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


def torchs(backend: SDPBackend, case: Case) -> Launch:
    """One query for each of all heads."""

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        heads = case.heads * case.group
        shaped = q.view(case.batch, heads, 1, case.size)
        keys, values = (one.view(case.batch, case.heads, case.length, case.size) for one in (k, v))
        with sdpa_kernel(backend):
            found = scaled_dot_product_attention(shaped, keys, values, enable_gqa=case.group > 1)
        return found.view(q.shape)

    return run


def ours(case: Case, tile: Tile, built: Built) -> Launch:
    """A launch of what did not compile raises RuntimeError."""
    kernels = () if built.failed else launchers(built)
    scale = case.size**-0.5
    splits, kept = int(tile.constants.get("SPLITS", 0)), case.batch * case.heads

    def parts(*shape: int) -> torch.Tensor:
        return torch.empty(kept, *shape, device="cuda")

    # What the two kernels hand on; launches of a stream follow each other, so that one set serves all.
    between = (
        (parts(splits, case.group, case.size), parts(case.group, splits), parts(case.group, splits))
        if tile.example == SPLIT
        else ()
    )

    def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        first, *rest = kernels or launchers(built)
        stream = torch.cuda.current_stream()
        first((q, k, v, *(between or (out,)), scale), device="cuda", stream=stream)
        for add_up in rest:
            add_up((*between, out, scale), device="cuda", stream=stream)
        return out

    return run


def tiles(size: int) -> dict[str, Tile]:
    """By name."""
    one = [Tile(EXAMPLE, _constants(size, *step, splits)) for step in _STEPS[size] for splits in _SPLITS]
    two = [Tile(SPLIT, _constants(size, *step, splits)) for step in _SPLIT_STEPS[size] for splits in _BLOCKS]
    return {_name(tile): tile for tile in (*one, *two)}


def _constants(size: int, bn: int, stages: int, splits: int) -> dict[str, int | str]:
    return {"D": size, "BN": bn, "STAGES": stages, "SPLITS": splits}


def _name(tile: Tile) -> str:
    words = [f"{name}={value}" for name, value in tile.constants.items() if name != "D"]
    return " ".join(["pipec", *(["two kernels"] if tile.example == SPLIT else []), *words])


def contenders(case: Case, built: Mapping[str, Built]) -> dict[str, Launch]:
    found = {name: torchs(backend, case) for name, backend in BACKENDS.items()}
    for name, tile in tiles(case.size).items():
        found[name] = ours(case, tile, built[key(tile)])
    return found


def measure(case: Case, rounds: int, built: Mapping[str, Built]) -> dict[str, Any]:
    generator = torch.Generator(device="cuda").manual_seed(0)
    kept = case.batch * case.heads

    def draw(rows: int) -> torch.Tensor:
        return torch.randn(kept, rows, case.size, device="cuda", generator=generator, dtype=torch.bfloat16)

    count = max(2, min(64, -(-3 * l2_bytes() // case.bytes)))
    sets = [(draw(case.group), draw(case.length), draw(case.length), draw(case.group)) for _ in range(count)]
    q, k, v, _ = sets[0]
    wanted = torch.softmax(q.float() @ k.float().mT * case.size**-0.5, -1) @ v.float()
    clock = GpuClock(count, max(case.bytes / 3.5e12, 4e-6))
    figures: dict[str, Any] = {}
    for name, run in contenders(case, built).items():
        try:
            sets[0][3].fill_(float("nan"))
            error = float((run(*sets[0]).float() - wanted).norm() / wanted.norm())
            if not error < 0.02:
                raise ValueError(f"differs from float32 by {error:.3g} of the norm")
            clock.add(name, lambda index, run=run: run(*sets[index]))
        except Exception as failure:  # noqa: BLE001 - one contender that fails must not hide the others
            figures[name] = {"failed": f"{type(failure).__name__}: {str(failure)[:200]}"}
            continue
        figures[name] = {"difference": error}
    timed = [name for name, row in figures.items() if "failed" not in row]
    done = compare(timed, clock, rounds, str(case))
    rivals = [name for name in timed if name in BACKENDS]
    for name in timed:
        time = done.time(name)
        figures[name] |= {"microseconds": time.median * 1e6, "gigabytes_per_second": case.bytes / time.median / 1e9}
    if rivals:
        rival = min(rivals, key=lambda name: done.time(name).median)
        for name in timed:
            ratio = done.ratio(name, rival)
            figures[name]["to the fastest rival"] = {"name": rival, "median": ratio.median, "low": ratio.low, "high": ratio.high}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("-o", dest="output", type=Path, default=RESULTS / "h200_decode.json")
    options = parser.parse_args()
    record = surroundings() | {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "rounds": options.rounds}
    record["figures"] = {}
    built = build_all([tile for size in _STEPS for tile in tiles(size).values()], 0)
    for case in CASES:
        record["figures"][str(case)] = figures = measure(case, options.rounds, built)
        torch.cuda.empty_cache()
        options.output.write_text(json.dumps(record, indent=1) + "\n")
        mine = [name for name in figures if name.startswith("pipec") and "failed" not in figures[name]]
        if not mine:
            print(f"{case!s:52} nothing of pipec ran: {figures}", flush=True)
            continue
        best = min(mine, key=lambda name: figures[name]["microseconds"])
        told = {name: round(row["microseconds"], 1) for name, row in figures.items() if name in BACKENDS and "failed" not in row}
        ratio = figures[best].get("to the fastest rival", {}).get("median", 0)
        print(f"{case!s:52} {best} {figures[best]['microseconds']:.1f} us  {told}  {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
