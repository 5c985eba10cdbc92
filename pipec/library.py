"""Kernels that are ready to use: examples that come with pipec, chosen among by the sizes of each call.

import pipec.library
gemm = pipec.library.gemm()
gemm(a, b, d)  # D = A @ B.T
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pipec
from pipec.api.choosing import Alternative, choose
from pipec.api.embed import compile
from pipec.api.files import read_source
from pipec.api.planned import Planned
from pipec.api.program import CompiledKernel, CompileError
from pipec.diag.catalogue.commands.run import BadCall
from pipec.diag.shown import shown
from pipec.driver import Options, compile_source
from pipec.record import field, record
from pipec.source import Source
from pipec.syntax import ast
from pipec.tune.devices import gpu_for


@record
class Entry:
    """A file of the examples, its kernels in order of execution, and settings of compile-time parameters."""

    file: str
    kernels: tuple[str, ...]
    constants: Mapping[str, object] = field(default_factory=dict)


def _one(name: str, **constants: object) -> Entry:
    return Entry(name, (name,), constants)


# The simplest first: it represents all of them in the simulator, and wins ties of predicted time.
GEMM: Mapping[str, tuple[Entry, ...]] = {
    "sm_90a": (
        _one("gemm_sm90"),
        _one("gemm_sm90", BM=64, BN=32, BK=128, WARPS=4),
        _one("gemm_sm90", BN=64, STAGES=8),
        _one("gemm_sm90_persistent"),
        _one("gemm_sm90_cluster"),
        _one("gemm_sm90_pingpong"),
        _one("gemm_sm90_halves"),
        _one("gemm_sm90_swapped"),
        _one("gemm_sm90_swapped", ONCE=True, CX=1, CY=8, BM=128, BN=64, STAGES=8),
        _one("gemm_sm90_swapped", ONCE=True, CX=2, CY=2, BM=80, BN=128, STAGES=7),
        _one("gemm_sm90_swapped", CX=2, CY=1, BM=64, BN=128, STAGES=8),
        _one("gemm_sm90_narrow"),
        Entry("gemm_sm90_split_k_sums", ("add_products", "round_sums")),
    ),
    "sm_100a": (
        _one("gemm"),
        _one("gemm", BN=128, STAGES=6),
        _one("gemm", BN=64, STAGES=8),
        _one("gemm_persistent"),
        _one("gemm_persistent", BN=64, STAGES=8),
        _one("gemm_clc"),
        _one("gemm_2cta"),
        _one("gemm_2cta", BN=128, STAGES=8),
        _one("gemm_2cta_persistent"),
        _one("gemm_2cta_persistent", BN=128, STAGES=8),
    ),
}
# Type of A and B -> the settings. The rows of a stage are 128 bytes long, like the widest swizzle.
_OPERANDS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "sm_90a": {"bf16": {}, "f16": {"AB": "f16", "OUT": "f16"}, "e4m3": {"AB": "e4m3", "BK": 128}},
    "sm_100a": {"bf16": {}},
}


def folder() -> Path:
    """The folder of the examples: in the package, or next to it in a checkout."""
    return next(path for place in pipec.__path__ if (path := Path(place) / "examples").is_dir())


def gemm(arch: str | None = None, *, dtype: str = "bf16") -> CompiledKernel:
    """D = A @ B.T: `gemm(a, b, d)` with A of M x K, B of N x K and D of M x N elements, rows in multiples of 16 bytes.

    `arch` is sm_90a or sm_100a; without it, that of the first GPU, or sm_90a. `dtype` is that of A and B: bf16, on Hopper f16 or e4m3 as
    well; D is f16 for f16, else bf16. On a GPU the kernel and its tile follow from the sizes of each call (docs/tuning.md). Sums are in
    f32; where K is split among blocks, the order of additions may differ between launches. All kernels are typed here; each is
    compiled on its first call, once per process. Raises CompileError for unsupported arguments.
    """
    return _gemm(_arch_here() if arch is None else arch, dtype)


@cache
def _gemm(arch: str, dtype: str) -> CompiledKernel:
    for parameter, value, known in (("arch", arch, GEMM), ("dtype", dtype, _OPERANDS.get(arch, {}))):
        if value not in known:
            raise CompileError([BadCall(parameter=parameter, expected=" or ".join(known), found=shown(value)).diagnostic()])
    operands = _OPERANDS[arch][dtype]
    first, *others = GEMM[arch]
    program = compile(_path(first), arch=arch, constants={**first.constants, **operands})
    alternatives: list[Alternative] = [tuple(program[kernel] for kernel in first.kernels)]
    alternatives += (_planned(entry, arch, {**entry.constants, **operands}) for entry in others)
    return choose(*alternatives, scratch=("sums",), name="gemm")


def _path(entry: Entry) -> Path:
    return folder() / f"{entry.file}.pipe"


def _planned(entry: Entry, arch: str, constants: Mapping[str, object]) -> tuple[Planned, ...]:
    source, parsed = _parsed(_path(entry))
    state = compile_source(source, Options(arch, dict(constants)), until="analyse", parsed=parsed)
    if state.failed:
        raise CompileError(state.diagnostics)
    return tuple(Planned(state, kernel) for kernel in entry.kernels)


@cache
def _parsed(path: Path) -> tuple[Source, ast.File | None]:
    """An entry's file, which others may be of as well."""
    state = compile_source(read_source(str(path)), until="parse")
    return state.source, state.file


def _arch_here() -> str:
    return next((arch for arch in GEMM if gpu_for(arch, (), "auto") is not None), next(iter(GEMM)))
