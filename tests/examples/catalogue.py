"""The example kernels with the compile-time parameters they are tested with; shapes come from their docstrings."""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from samples import some

from pipec.diag.message import Sink
from pipec.driver import STAGES, Compilation, Options, compile_source
from pipec.kir.plan.types import Plan
from pipec.record import replace
from pipec.reference import shape_sets
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"

# Beyond the defaults: every operand type, M = 64, narrow and wide N, one stage, tiles longer than a swizzle span.
VARIANTS: dict[str, tuple[dict[str, str], ...]] = {
    "gemm": ({"BM": "64", "BN": "64"}, {"BN": "8", "STAGES": "1"}, {"BK": "128", "BN": "64", "STAGES": "2"}),
    "gemm_linear": ({"BK": "16"}, {"BK": "32", "BN": "48"}),
    "gemm_epilogue": ({"BN": "64"},),
    "gemm_types": (
        {"AB": "f16"},
        {"AB": "f16", "ACC": "f16", "OUT": "f16"},
        {"AB": "tf32", "BK": "32"},
        {"AB": "e4m3", "BK": "128"},
        {"AB": "e5m2", "BK": "64", "OUT": "bf16"},
        {"AB": "e4m3", "BK": "128", "ACC": "f16"},
        {"AB": "i8", "ACC": "i32", "OUT": "i32", "BK": "128"},
        {"AB": "u8", "ACC": "i32", "OUT": "i32", "BK": "32"},
        {"BM": "64", "BN": "128"},
        {"BN": "256", "BK": "16", "STAGES": "4"},
        {"BN": "24"},
    ),
    "gemm_mn_major": ({"AB": "f16", "BM": "64"}, {"AB": "tf32", "BK": "32", "BN": "64"}, {"AB": "e4m3", "BK": "64"}),
    "gemm_k_group": ({"K_GROUP": "1"}, {"K_GROUP": "3", "STAGES": "6", "BK": "32"}, {"K_GROUP": "4", "BK": "16", "STAGES": "8"}),
    "gemm_split_k": ({"SPLITS": "1", "BN": "64"}, {"SPLITS": "3", "BM": "64", "STAGES": "1"}, {"SPLITS": "8", "BN": "96"}),
    "gemm_split_k_serial": ({"SPLITS": "1", "BN": "64"}, {"SPLITS": "2", "BM": "64", "STAGES": "1"}, {"SPLITS": "5", "BN": "96"}),
    "gemm_grouped": (
        {"BLOCKS": "3", "BN": "64"},
        {"BLOCKS": "5", "BM": "64", "STAGES": "1"},
        {"BLOCKS": "148", "AB": "f16", "OUT": "f32", "BN": "32"},
    ),
    "gemm_sm90_split_k": ({"SPLITS": "1", "BN": "64"}, {"SPLITS": "5", "STAGES": "1", "AB": "f16", "OUT": "f32"}),
    "gemm_sm90_grouped": ({"BLOCKS": "3", "BN": "64"}, {"STAGES": "1", "OUT": "f32", "BN": "32"}),
    "gemm_persistent": ({"BLOCKS": "2"}, {"BLOCKS": "1", "BM": "64", "BN": "64", "STAGES": "2"}),
    "gemm_tiles": (
        {"MODE": "clc"},
        {"BLOCKS": "2", "GROUP": "2", "BM": "64", "BN": "64"},
        {"BLOCKS": "1", "GROUP": "3", "BN": "32", "STAGES": "2"},
        {"MODE": "clc", "GROUP": "1", "BM": "64", "BN": "64", "STAGES": "1"},
    ),
    "gemm_clc": ({"MODE": "static"}, {"BM": "64", "BN": "64", "GROUP": "3", "STAGES": "2"}),
    "gemm_blockwise_fp8": ({"BM": "64", "BN": "64"}, {"STAGES": "1", "ACCUMULATORS": "1", "BN": "32"}),
    "softmax": ({"T": "bf16", "BM": "1", "BN": "1024"}, {"BM": "2", "WARPS": "8"}),
    "rms_norm": ({"T": "f32", "BM": "1", "EARLY": "False"}, {"BM": "8", "WARPS": "8"}),
    "layer_norm": ({"T": "f32", "BM": "1", "EARLY": "False"}, {"BM": "2"}),
    "layer_norm_backward": ({"T": "f32", "BM": "2"}, {"BM": "1", "PER": "1"}),
    "quantise_fp8": ({"T": "f32", "BN": "1000"}, {"T": "f16", "WARPS": "1", "BN": "1024", "PER": "1"}),
    "pointwise": ({"T": "f32", "BN": "1001"}, {"T": "f16", "WARPS": "1"}),
    "gemm_sm90": (
        {"AB": "f16", "WARPS": "4", "BM": "64"},
        {"AB": "f16", "ACC": "f16", "OUT": "f16", "BN": "64"},
        {"AB": "tf32", "BK": "32", "OUT": "f32", "BN": "64"},
        {"AB": "e4m3", "BK": "128", "OUT": "f32", "BN": "64"},
        {"AB": "e5m2", "BK": "64", "BN": "48", "OUT": "e5m2"},
        {"AB": "e4m3", "BK": "128", "ACC": "f16", "OUT": "f16", "BN": "64"},
        {"AB": "i8", "ACC": "i32", "OUT": "i32", "BK": "128", "BN": "64"},
        {"AB": "u8", "ACC": "i32", "OUT": "i32", "BK": "32", "BN": "32"},
        {"BN": "256", "STAGES": "3"},
        {"BM": "256", "BN": "64", "STAGES": "1"},
        {"WARPS": "4", "BN": "24", "BK": "16", "STAGES": "2", "OUT": "f32"},
    ),
    "attention": (
        {"D": "128"},
        {"CAUSAL": "true"},
        {"D": "128", "CAUSAL": "true"},
        {"CTAS": "2"},
        {"CAUSAL": "true", "CTAS": "2"},
        {"D": "128", "CAUSAL": "true", "CTAS": "2"},
    ),
    "attention_backward": ({"D": "128", "CAUSAL": "true"}, {"D": "128"}, {"CAUSAL": "true"}),
    "attention_sm90": (
        {"D": "128"},
        {"CAUSAL": "true"},
        {"D": "128", "CAUSAL": "true"},
        {"BM": "64", "BN": "64", "STAGES": "1"},
    ),
    "attention_sm90_persistent": ({"D": "128", "CAUSAL": "true", "BLOCKS": "1"},),
    "attention_sm90_roles": (
        {"D": "128", "CAUSAL": "true", "BLOCKS": "1"},
        {"GROUPS": "4", "BLOCKS": "2"},
        {"GROUPS": "4", "CAUSAL": "true", "BLOCKS": "1"},
        {"CX": "2", "GROUPS": "2", "BLOCKS": "4"},
    ),
    "gemm_sm90_gathered": (
        {"BLOCKS": "3", "BN": "64"},
        {"PARTS": "2", "BN": "32"},
        {"BM": "64", "STAGES": "2", "BN": "32", "OUT": "f32"},
    ),
    "gemm_sm90_scattered": ({"BM": "128", "BN": "64", "STAGES": "2"}, {"BN": "32", "STAGES": "1"}),
    "attention_sm90_paged": ({"D": "128", "PAGE": "64", "STAGES": "2"}, {"PAGE": "8", "BN": "32"}),
    "attention_sm90_window": ({"D": "128", "BLOCKS": "2"}, {"BM": "64", "BN": "64", "STAGES": "3"}),
    "gemm_sm90_blockwise_fp8_split": ({"BN": "64", "STAGES": "2"}, {"SPLITS": "4", "STAGES": "2"}),
    "attention_sm90_backward": ({"D": "128"}, {"CAUSAL": "true"}),
    "attention_sm90_backward_fused": ({"D": "128", "CAUSAL": "true"}, {"D": "128"}, {"CAUSAL": "true"}),
    "gemm_sm90_halves": (
        {"BM": "64", "BN": "176", "STAGES": "2", "BLOCKS": "4", "CX": "2"},
        {"BM": "64", "BN": "64", "STAGES": "2", "BLOCKS": "4", "CY": "2"},
    ),
    "gemm_sm90_blockwise_fp8": (
        {"BN": "192", "STAGES": "2", "BLOCKS": "2"},
        {"BN": "64", "STAGES": "2", "BLOCKS": "4", "CX": "2"},
        {"STAGES": "2", "BLOCKS": "4", "CY": "2"},
        {"ROLES": "3", "STAGES": "2", "BLOCKS": "2", "CY": "2"},
    ),
    "gemm_sm90_split_k_sums": ({"SPLITS": "3", "BM": "64", "WARPS": "4", "BN": "64", "STAGES": "2"},),
    "gemm_sm90_pingpong": (
        {"BN": "176", "STAGES": "2", "BLOCKS": "4"},
        {"BLOCKS": "2", "CX": "1", "BN": "64", "STAGES": "2", "GROUP": "2"},
        {"BM": "64", "BN": "256", "STAGES": "3", "BLOCKS": "4", "CX": "1", "CY": "2"},
        {"BN": "168", "STAGES": "2", "BLOCKS": "4"},  # each CTA loads 84 rows of B, which end within a swizzle pattern
    ),
    "attention_sm90_decode": (
        {"D": "64", "BN": "128", "STAGES": "2", "SPLITS": "2"},
        {"STAGES": "3", "SPLITS": "1"},
        {"SPLITS": "3", "BN": "128", "STAGES": "2"},
    ),
    "gemm_sm90_narrow": (
        {"SPLITS": "1", "BM": "64"},
        {"SPLITS": "2", "BM": "8", "BN": "64", "BK": "128", "STAGES": "2"},
        {"SPLITS": "1", "AB": "e4m3", "BK": "128"},
    ),
    "gemm_2cta": (
        {"BN": "64", "STAGES": "1"},
        {"BM": "128", "BN": "128", "BK": "128", "STAGES": "2"},
        {"BM": "128", "BN": "16"},
        {"AB": "f16", "ACC": "f16", "OUT": "f16", "BM": "128", "BN": "64"},
        {"AB": "tf32", "BK": "32", "BN": "64"},
        {"AB": "e4m3", "BK": "128", "BN": "64"},
        {"AB": "i8", "ACC": "i32", "OUT": "i32", "BK": "128", "BN": "96"},
    ),
    "gemm_mxfp8_2cta": (
        {"BN": "64", "A": "e5m2", "B": "e2m1", "OUT": "f32"},
        {"BN": "192", "STAGES": "2", "MODE": "clc"},
        {"A": "e2m1", "B": "e2m1"},
    ),
    "gemm_nvfp4_2cta": ({"BN": "64", "BK": "128", "OUT": "f32"},),
    "gemm_2cta_persistent": (
        {"CX": "4", "CY": "2"},
        {"MODE": "clc", "BN": "64"},
        {"CY": "2", "MODE": "clc", "BN": "128"},
        {"CX": "4", "BN": "64"},
        {"CY": "4", "BK": "32"},
    ),
    "rms_norm_cluster": ({"CX": "8", "BN": "64"},),
    "gemm_sm90_cluster": (
        {"BM": "192", "BN": "176", "WARPS": "12", "STAGES": "3"},
        {"CX": "1", "CY": "2"},
        {"CY": "2", "BN": "64", "STAGES": "2", "BLOCKS": "4"},
    ),
    "gemm_sm90_swapped": (
        {"BM": "56", "BN": "128", "STAGES": "2", "BLOCKS": "4"},
        {"CX": "1", "CY": "2", "BM": "112", "BN": "64", "AB": "e4m3", "BK": "128"},
        {"CX": "2", "CY": "2", "BM": "80", "BN": "128", "STAGES": "2", "ONCE": "true"},
    ),
    "gemm_sm90_persistent": ({"BLOCKS": "2", "BN": "64", "STAGES": "2", "GROUP": "2"},),
    "gemm_mxfp8": (
        {"BN": "64", "A": "e5m2", "B": "e4m3", "OUT": "f32", "MODE": "clc"},
        {"BN": "192", "BK": "256", "STAGES": "2"},
        {"BN": "256", "STAGES": "2", "ACCUMULATORS": "1", "A": "e2m1", "B": "e3m2"},
        {"A": "e2m3", "B": "e5m2", "BN": "128", "BK": "384", "STAGES": "2"},
    ),
    "gemm_mxfp4": ({"BN": "256", "STAGES": "3", "ACCUMULATORS": "1"}, {"BK": "128", "BN": "64", "OUT": "f32"}),
    "gemm_nvfp4": ({"BK": "64", "BN": "192"}, {"SF": "ue8m0", "BK": "128", "BN": "128", "OUT": "f16"}),
    "gemm_direct": ({"BM": "64", "BN": "64", "STAGES": "1"},),
    "gemm_peek": ({"STAGES": "1"},),
    "gemm_residual": ({"BM": "64", "PANEL": "64"}, {"BN": "96", "PANEL": "96", "SOURCES": "1"}, {"PANEL": "16", "STAGES": "1"}),
    "copy_tma": (
        {"BM": "64", "BN": "128", "STAGES": "6", "BLOCKS": "2"},
        {"T": "f32", "BM": "16", "BN": "64", "BLOCKS": "3"},
        {"T": "u8", "BN": "256", "STAGES": "1", "BLOCKS": "1"},
    ),
    "elementwise": ({"BN": "32"}, {"STAGES": "1", "BN": "128"}),
}


# Examples for both targets from one source; the others are for the one that they name, or the default.
BOTH_TARGETS = ("elementwise", "gemm_residual")

_SHARE = 0.2  # of the variants of all examples, in `make test`: the same ones are compiled, assembled and simulated

# Examples whose reference a `numpy:` line cannot say: a test of their own compares them.
ATTENTION = ("attention", "attention_sm90")
COMPARED_ELSEWHERE = (*ATTENTION, "attention_sm90_decode_split", "attention_sm90_backward_fused", "gemm_sm90_stream_k")


@dataclass(frozen=True)
class Case:
    """One example file with one set of compile-time parameters; `arch` None takes what the file says."""

    path: Path
    constants: tuple[tuple[str, str], ...]
    arch: str | None = None

    @property
    def name(self) -> str:
        arch = [] if self.arch is None else [self.arch]
        return "-".join([self.path.stem, *arch, *(f"{name}{value}" for name, value in self.constants)])


def cases() -> list[Case]:
    found = []
    taken = some("variants", [(name, constants) for name, variants in VARIANTS.items() for constants in variants], _SHARE)
    for path in sorted(EXAMPLES.glob("*.pipe")):
        for arch in (None, "sm_90a") if path.stem in BOTH_TARGETS else (None,):
            variants = (constants for name, constants in taken if name == path.stem)
            found += [Case(path, tuple(constants.items()), arch) for constants in ({}, *variants)]
    return found


@cache
def _read(path: Path) -> Compilation:
    return compile_source(Source(f"examples/{path.name}", path.read_text(encoding="utf-8")), until="parse")


def read(case: Case) -> Compilation:
    """The syntax tree alone, which is all that finding the tests needs: a worker that runs half of them compiles half of them."""
    parsed = _read(case.path)
    return compile_source(parsed.source, Options(case.arch, dict(case.constants)), "parse", parsed.file)


@dataclass(frozen=True)
class Run:
    """A kernel of a case at one of the shapes of its docstring."""

    case: Case
    kernel: str
    values: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return "-".join([self.case.name, self.kernel, *(f"{key}{value}" for key, value in self.values)])

    @property
    def kind(self) -> str:
        """Runs of one kind differ in shape alone."""
        return f"{self.case.name}-{self.kernel}"

    @property
    def work(self) -> int:
        """How much of it there is: of shapes that go through the same code a run takes the smallest."""
        return math.prod(int(number) for number in self.numbers.values() if number >= 1)

    @property
    def numbers(self) -> dict[str, float]:
        return {name: float(value) if "." in value or "-" in value else int(value) for name, value in self.values}

    @property
    def plan(self) -> Plan:
        return next(plan for plan in compiled(self.case).plans or () if plan.kernel.name == self.kernel)


def runs(case: Case) -> list[Run]:
    """All of a case, kernel by kernel."""
    file = read(case).file
    assert file is not None
    return [
        Run(case, kernel.name.name, tuple(values.items())) for kernel in file.kernels for values in shape_sets(kernel.document)
    ]


@cache
def compiled(case: Case) -> Compilation:
    """The code of a case; `proved` goes on from there."""
    parsed = _read(case.path)
    state = compile_source(parsed.source, Options(case.arch, dict(case.constants)), "emit", parsed.file)
    assert state.diagnostics == [], [diagnostic.title for diagnostic in state.diagnostics]
    return state


@cache
def proved(case: Case) -> Compilation:
    """A case with its proof, or with what pipec says instead."""
    emitted = compiled(case)
    state = replace(emitted, sink=Sink(), protocol={}, certificates={}, plans=list(emitted.plans or ()))
    STAGES["prove"](state)
    return state
