"""Compiles Triton and Gluon kernels for sm_100a without a GPU and runs their PTX in pipec's simulator.

Arguments are laid out as Triton's own launcher does (triton/backends/nvidia/driver.py, 3.9.0): a descriptor argument is
its 128-byte tensor map, then its sizes as u32, then its strides in elements as u64; after the kernel's arguments follow
the pointers to global and to profile scratch memory.
"""

from __future__ import annotations

import os
import struct
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Read when Triton is imported: results of other runs must not decide what is tested here.
_CACHE = tempfile.TemporaryDirectory(prefix="pipec-oracle-")  # removed when the process ends
os.environ["TRITON_CACHE_DIR"] = _CACHE.name
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.experimental.gluon import GluonASTSource, GluonJITFunction

from pipec import sim

# Nobody here needs the machine code, and assembling takes as long as the rest.
CUDABackend.make_cubin = lambda self, src, metadata, opt, capability: b""

TARGET = GPUTarget("cuda", 100, 32)
HOPPER = GPUTarget("cuda", 90, 32)
# What ptxas of the CUDA 13 line accepts; Triton would else write the newest version it knows.
PTX_VERSION = 90

TIMINGS = (sim.Options("order"), sim.Options("late"), sim.Options("random", seed=1), sim.Options("random", seed=2))

_SWIZZLES = ("none", "32B", "64B", "128B")
# The element types of `tensordesc_meta`: the numbering of tensormap.replace (PTX ISA 9.7.9.26).
_ELEMENT_TYPES = {0: "u8", 1: "u16", 2: "u32", 3: "s32", 6: "f16", 7: "f32", 10: "bf16", 13: "b4x16", 14: "b4x16_p64"}
_SCALARS = {"i1": "?", "i8": "<b", "u8": "<B", "i16": "<h", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q", "fp32": "<f"}


@dataclass(frozen=True)
class Compiled:
    """`signature` maps the names of the arguments to Triton's type strings; constexpr ones are left out."""

    name: str
    ptx: str
    metadata: Any
    signature: Mapping[str, str]

    @property
    def threads(self) -> int:
        return 32 * self.metadata.num_warps


def build(
    function, signature: Mapping[str, str], constants: Mapping[str, Any] | None = None, target=TARGET, **options
) -> Compiled:
    """Compiles one kernel; pointers are promised to be 16-byte aligned, as PyTorch's allocator has them."""
    constants = dict(constants or {})
    names = list(signature)
    attributes: dict = {(names.index(n),): [["tt.divisibility", 16]] for n in names if signature[n].startswith("*")}
    language = GluonASTSource if isinstance(function, GluonJITFunction) else ASTSource
    whole = {**signature, **{name: "constexpr" for name in constants}}
    source = language(fn=function, signature=whole, constexprs=constants, attrs=attributes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = triton.compile(source, target=target, options={"ptx_version": PTX_VERSION, **options})
    return Compiled(made.metadata.name, made.asm["ptx"], made.metadata, dict(signature))


def simulate(compiled: Compiled, grid: Sequence[int], options: sim.Options | None = None, **arguments: Any) -> sim.Result:
    """Runs the kernel over `grid` programs; arrays are changed in place."""
    described = iter(compiled.metadata.tensordesc_meta or ())
    flat: list[sim.Argument] = []
    for name, kind in compiled.signature.items():
        flat += _parameters(kind, arguments[name], described)
    flat += [sim.ScalarArgument(bytes(8))] * 2
    clusters = compiled.metadata.num_ctas
    return sim.launch(
        compiled.ptx,
        compiled.name,
        grid=(grid[0] * clusters, *grid[1:]),
        block=compiled.threads,
        cluster=clusters if clusters > 1 else None,
        dynamic_smem=compiled.metadata.shared,
        arguments=flat,
        options=options,
    )


def _parameters(kind: str, value: Any, described) -> list[sim.Argument]:
    if kind.startswith("tensordesc"):
        return _descriptor(value, next(described))
    if kind.startswith("*"):
        return [sim.ArrayArgument(value)]
    return [sim.ScalarArgument(struct.pack(_SCALARS[kind], value))]


def _descriptor(array: np.ndarray, meta: Mapping[str, Any]) -> list[sim.Argument]:
    """What Triton's `make_tensordesc_arg` passes for one descriptor of a contiguous array."""
    sizes = array.shape
    inner = sizes[-1] * (2 if meta["fp4_padded"] else 1)
    tensor_map = sim.TensorMap(
        dtype=_ELEMENT_TYPES[meta["elem_type"]],
        dims=(inner, *reversed(sizes[:-1])),
        strides=tuple(reversed(array.strides[:-1])),
        box=tuple(reversed(meta["block_size"])),
        swizzle=_SWIZZLES[meta["swizzle"]],
    )
    strides = [stride // array.itemsize for stride in array.strides]
    return [
        sim.TensorMapArgument(tensor_map, array),
        *(sim.ScalarArgument(struct.pack("<I", size)) for size in sizes),
        *(sim.ScalarArgument(struct.pack("<Q", stride)) for stride in strides),
    ]
