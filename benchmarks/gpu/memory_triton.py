"""The rivals of benchmarks/gpu/h200_memory.py in Triton: a row to a program, or a block of a flat array, as its tutorials write them.

With OVERLAPPED, programs are set up while the launch in front ends (programmatic dependent launch), as pipec's blocks are.
"""

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def begin(OVERLAPPED: tl.constexpr):
    if OVERLAPPED:
        tl.extra.cuda.gdc_wait()
        tl.extra.cuda.gdc_launch_dependents()


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * n + column, mask=column < n, other=-float("inf")).to(tl.float32)
    powers = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * n + column, powers / tl.sum(powers, 0), mask=column < n)


@triton.jit
def rms_norm(x, weight, y, n, epsilon, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * n + column, v * tl.rsqrt(tl.sum(v * v, 0) / n + epsilon) * w, mask=inside)


@triton.jit
def rms_norm_residual(x, residual, weight, h, y, n, epsilon, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
    v += tl.load(residual + row * n + column, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(h + row * n + column, v, mask=inside)
    tl.store(y + row * n + column, v * tl.rsqrt(tl.sum(v * v, 0) / n + epsilon) * w, mask=inside)


@triton.jit
def rms_norm_fp8(x, weight, y, scales, n, epsilon, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    weighted = v * w
    largest = tl.maximum(tl.max(tl.abs(weighted), 0), 1e-30)
    tl.store(y + row * n + column, (weighted * (448.0 / largest)).to(tl.float8e4nv), mask=inside)
    tl.store(scales + row, largest * tl.rsqrt(tl.sum(v * v, 0) / n + epsilon) / 448.0)


@triton.jit
def layer_norm(x, weight, bias, y, n, epsilon, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < n
    v = tl.load(x + row * n + column, mask=inside, other=0.0).to(tl.float32)
    aside = tl.where(inside, v - tl.sum(v, 0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(aside * aside, 0) / n + epsilon)
    w = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * n + column, aside * scale * w + b, mask=inside)


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, tl.load(x + index, mask=index < n), mask=index < n)


@triton.jit
def scale_add(x, r, y, n, alpha, BLOCK: tl.constexpr, OVERLAPPED: tl.constexpr):
    begin(OVERLAPPED)
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + index, mask=index < n).to(tl.float32) * alpha + tl.load(r + index, mask=index < n).to(tl.float32)
    tl.store(y + index, tl.maximum(v, 0.0), mask=index < n)


KERNELS = {
    "softmax": softmax, "rms_norm": rms_norm, "rms_norm_residual": rms_norm_residual, "rms_norm_fp8": rms_norm_fp8,
    "layer_norm": layer_norm, "copy": copy, "scale_add": scale_add,
}  # fmt: skip
FLAT = ("copy", "scale_add")


def configurations(name: str, columns: int) -> list[tuple[int, int]]:
    """Block and warps: for rows 8 to 32 elements to a thread, as autotuning would try."""
    if name in FLAT:
        return [(1024, 4), (2048, 4), (4096, 4), (4096, 8), (8192, 8)]
    block = triton.next_power_of_2(columns)
    return [(block, warps) for warps in (1, 2, 4, 8, 16, 32) if 8 <= block // (32 * warps) <= 32]


def launch(name: str, block: int, warps: int, overlapped: bool, tensors: list[torch.Tensor], scalars: tuple[float, ...]) -> None:
    rows, columns = tensors[0].shape
    flat = name in FLAT
    size, programs = (rows * columns, triton.cdiv(rows * columns, block)) if flat else (columns, rows)
    KERNELS[name][(programs,)](*tensors, size, *scalars, **_options(block, warps, overlapped))


def prepare(name: str, block: int, warps: int, overlapped: bool, tensors: list[torch.Tensor], scalars: tuple[float, ...]) -> None:
    """Compiles, and launches nothing."""
    rows, columns = tensors[0].shape
    size = rows * columns if name in FLAT else columns
    KERNELS[name].warmup(*tensors, size, *scalars, **_options(block, warps, overlapped), grid=(1,))


def _options(block: int, warps: int, overlapped: bool) -> dict[str, Any]:
    return {"BLOCK": block, "OVERLAPPED": overlapped, "num_warps": warps, "launch_pdl": overlapped}
