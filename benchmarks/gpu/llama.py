"""A small Llama (3 layers, hidden 4096, 32 heads) with linears and attention by pipec's operators, beside the same by torch.

    python benchmarks/gpu/llama.py       # needs an H200 and torch

Eager calls with fresh tensors throughout, and CUDA graphs; rounds shuffled; host time included. Writes benchmarks/results/llama.json.
"""

import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

import torch
from torch.nn import functional

import pipec
from benchmarks.common import write
from pipec import library
from pipec.torch import op

LAYERS, HIDDEN, HEADS, INNER = 3, 4096, 32, 11008
WIDTH = HIDDEN // HEADS
TOKENS = (512, 2048)
ROUNDS = 15
CALLS = 8  # of the model in a round
EXAMPLES = ROOT / "examples"


def kernel(name: str, **constants: object) -> Any:
    return pipec.compile(EXAMPLES / f"{name}.pipe", arch="sm_90a", constants=constants or None)[name]


class Model(torch.nn.Module):
    def __init__(self, linear: Callable[..., Any], attend: Callable[..., Any]) -> None:
        super().__init__()
        self.linear, self.attend = linear, attend
        generator = torch.Generator("cuda").manual_seed(1)

        def weight(rows: int, columns: int) -> torch.nn.Parameter:
            values = torch.randn(rows, columns, device="cuda", generator=generator) * columns**-0.5
            return torch.nn.Parameter(values.bfloat16(), requires_grad=False)

        self.layers = [
            {
                "qkv": weight(3 * HIDDEN, HIDDEN),
                "out": weight(HIDDEN, HIDDEN),
                "gate_up": weight(2 * INNER, HIDDEN),
                "down": weight(HIDDEN, INNER),
            }
            for _ in range(LAYERS)
        ]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            h = functional.rms_norm(x, (HIDDEN,))
            q, k, v = self.linear(h, layer["qkv"]).view(-1, 3, HEADS, WIDTH).permute(1, 2, 0, 3).contiguous()
            attended = self.attend(q, k, v).transpose(0, 1).reshape(-1, HIDDEN)
            x = x + self.linear(attended, layer["out"])
            gate, up = self.linear(functional.rms_norm(x, (HIDDEN,)), layer["gate_up"]).chunk(2, dim=1)
            x = x + self.linear(functional.silu(gate) * up, layer["down"])
        return x


def of_pipec() -> Model:
    linear = op(library.gemm(), name="llama_linear")
    attention = op(kernel("attention_sm90", D=WIDTH, CAUSAL=True), name="llama_attention")
    return Model(linear, lambda q, k, v: attention(q, k, v, WIDTH**-0.5))


def of_torch() -> Model:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]

    return Model(functional.linear, attend)


def graphed(model: Model, x: torch.Tensor) -> Callable[[], Any]:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    return graph.replay


def milliseconds(call: Callable[[], Any]) -> float:
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / CALLS * 1e3


@torch.no_grad()
def main() -> None:
    models = {"torch": of_torch(), "pipec": of_pipec()}
    figures: dict[str, Any] = {}
    for tokens in TOKENS:
        x = torch.randn(tokens, HIDDEN, device="cuda").bfloat16()
        results = {name: model(x) for name, model in models.items()}
        difference = ((results["pipec"] - results["torch"]).float().norm() / results["torch"].float().norm()).item()
        memory = {}
        for name, model in models.items():
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            model(x)
            memory[name] = torch.cuda.max_memory_allocated() - before
        calls: dict[str, Callable[[], Any]] = {f"{name} eager": partial(model, x) for name, model in models.items()}
        calls |= {f"{name} graph": graphed(model, x) for name, model in models.items()}
        times: dict[str, list[float]] = {name: [] for name in calls}
        chance = random.Random(tokens)
        for _ in range(ROUNDS):
            for name in chance.sample(list(calls), len(calls)):
                times[name].append(milliseconds(calls[name]))
        ratios = {
            form: statistics.median(a / b for a, b in zip(times[f"pipec {form}"], times[f"torch {form}"], strict=True))
            for form in ("eager", "graph")
        }
        figures[f"{tokens} tokens"] = {
            "milliseconds": {name: statistics.median(found) for name, found in times.items()},
            "pipec_over_torch": ratios,
            "relative_difference": difference,
            "peak_bytes": memory,
        }
    write("llama", {"gpu": torch.cuda.get_device_name(), "rounds": ROUNDS, "calls": CALLS} | figures)


if __name__ == "__main__":
    main()
