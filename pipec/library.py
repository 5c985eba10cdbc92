"""Kernels that are ready to use: examples that come with pipec, chosen among by the sizes of each call.

import pipec.library
gemm = pipec.library.gemm()
gemm(a, b, d)  # D = A @ B.T
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pipec
from pipec.api.choosing import choose
from pipec.api.embed import compile
from pipec.api.program import CompiledKernel, CompileError
from pipec.diag.catalogue.commands.run import BadCall
from pipec.diag.shown import shown
from pipec.record import field, record


@record
class Entry:
    """A file of the examples, and its kernels that run one after the other, with these settings of compile-time parameters."""

    file: str
    kernels: tuple[str, ...]
    constants: Mapping[str, object] = field(default_factory=dict)


def _one(name: str, **constants: object) -> Entry:
    return Entry(name, (name,), constants)


# The simplest first: it stands for all of them in the simulator, and is taken of those that are predicted to be equally fast.
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
        _one("gemm_sm90_narrow"),
        Entry("gemm_sm90_split_k_sums", ("add_products", "round_sums")),
    )
}
# Type of A and B -> what it takes. The rows of a stage are 128 bytes long, as the widest swizzle is.
_OPERANDS: Mapping[str, Mapping[str, object]] = {
    "bf16": {},
    "f16": {"AB": "f16", "OUT": "f16"},
    "e4m3": {"AB": "e4m3", "BK": 128},
}


def folder() -> Path:
    """Where the examples are: in the package, or beside it in a checkout."""
    return next(path for place in pipec.__path__ if (path := Path(place) / "examples").is_dir())


@cache
def gemm(arch: str = "sm_90a", *, dtype: str = "bf16") -> CompiledKernel:
    """D = A @ B.T: `gemm(a, b, d)` with A of M x K, B of N x K and D of M x N elements, rows in multiples of 16 bytes.

    `dtype` is that of A and B, bf16, f16 or e4m3; D is f16 for f16, else bf16. On a GPU the kernel and its tile follow from the sizes
    of each call (docs/tuning.md). Sums are in f32; where K is split among blocks, the order of additions may differ between launches.
    Compiled once in a process. Raises CompileError for what there is not.
    """
    for parameter, value, known in (("arch", arch, GEMM), ("dtype", dtype, _OPERANDS)):
        if value not in known:
            raise CompileError([BadCall(parameter=parameter, expected=" or ".join(known), found=shown(value)).diagnostic()])
    alternatives = []
    for entry in GEMM[arch]:
        constants = {**entry.constants, **_OPERANDS[dtype]}
        program = compile(folder() / f"{entry.file}.pipe", arch=arch, constants=constants)
        alternatives.append(tuple(program[kernel] for kernel in entry.kernels))
    return choose(*alternatives, scratch=("sums",), name="gemm")
