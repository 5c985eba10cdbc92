"""What becomes of a mutant: refused by the compiler, or run in the simulator and compared with NumPy."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mutation.mutants import Mutant, mutants
from pipec.driver import Options, compile_source
from pipec.kir.plan.types import Plan
from pipec.reference import trial_of
from pipec.runtime import LaunchOptions, launch
from pipec.runtime.errors import ArgumentError
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

EXAMPLES = Path(__file__).parents[2] / "examples"
SECONDS = 20  # for one mutant

REFUSED = "refused at compile time"
EQUIVALENT = "equal to NumPy"
LAUNCH = "refused at launch"
SIMULATOR = "caught by the simulator"
COMPARISON = "another result"
INTERNAL = "internal error"
HANG = "hangs"


@dataclass(frozen=True, slots=True)
class Kernel:
    """An example kernel, and the compile-time parameters and sizes its mutants run with: several blocks, rings that wrap."""

    file: str
    name: str
    constants: dict[str, str]
    values: dict[str, float]

    def text(self) -> str:
        return (EXAMPLES / self.file).read_text(encoding="utf-8")

    def mutants(self) -> Iterator[Mutant]:
        return mutants(self.text(), self.name)


_GEMM: dict[str, float] = {"M": 136, "N": 72, "K": 104}
KERNELS = (
    Kernel("elementwise.pipe", "scale_shift", {"STAGES": "2", "BLOCKS": "2"}, {"M": 520, "N": 72, "alpha": 1.5, "beta": 0.25}),
    Kernel("gemm.pipe", "gemm", {"BN": "64", "BK": "16", "STAGES": "2"}, _GEMM),
    Kernel("gemm_linear.pipe", "gemm_linear", {"BN": "64", "BK": "16", "STAGES": "2"}, _GEMM),
    Kernel("gemm_epilogue.pipe", "gemm_epilogue", {"BN": "64", "BK": "16", "STAGES": "2"}, {**_GEMM, "alpha": 0.5}),
    Kernel("gemm_mn_major.pipe", "gemm_mn_major", {"BN": "64", "BK": "16", "STAGES": "2"}, _GEMM),
    Kernel("gemm_2cta.pipe", "gemm_2cta", {"BM": "128", "BN": "64", "BK": "16", "STAGES": "2"}, _GEMM),
    Kernel(
        "gemm_2cta_persistent.pipe",
        "gemm_2cta_persistent",
        {"CX": "4", "BM": "128", "BN": "64", "BK": "16", "STAGES": "2"},
        {"M": 264, "N": 72, "K": 40},
    ),
    Kernel("gemm_peek.pipe", "gemm_peek_views", {"BK": "16", "STAGES": "2"}, _GEMM),
    Kernel("role_pipeline.pipe", "sub_stages", {}, {"M": 392}),
    Kernel("rms_norm_cluster.pipe", "rms_norm_cluster", {}, {"M": 72, "N": 400, "epsilon": 0.5}),
    Kernel("seed_pages.pipe", "pipeline_scoped", {"BK": "16"}, _GEMM),
    Kernel("seed_pages.pipe", "pipeline_linear", {"BK": "16"}, _GEMM),
    Kernel("seed_pages.pipe", "output_pages", {"BK": "16"}, _GEMM),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    mutant: Mutant
    outcome: str
    detail: str


class _TooLong(Exception):
    pass


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(kernel: Kernel, mutant: Mutant) -> Verdict:
    try:
        with _limited(SECONDS):
            return _judge(kernel, mutant)
    except _TooLong:
        return Verdict(mutant, HANG, f"not done after {SECONDS} s")


def _judge(kernel: Kernel, mutant: Mutant) -> Verdict:
    options = Options(constants=dict(kernel.constants), kernel=kernel.name)
    state = compile_source(Source(kernel.file, mutant.text), options)
    if state.failed:
        codes = sorted({diagnostic.code for diagnostic in state.diagnostics})
        titles = "; ".join(diagnostic.title for diagnostic in state.diagnostics)
        return Verdict(mutant, INTERNAL if "E0001" in codes else REFUSED, titles if "E0001" in codes else " ".join(codes))
    assert state.plans is not None and state.ptx is not None
    try:
        wrong = _wrong_results(state.plans[0], state.ptx, kernel)
    except SimulationError as error:
        return Verdict(mutant, SIMULATOR, f"{error.kind}: {error.message.splitlines()[0]}")
    except ArgumentError as error:
        return Verdict(mutant, LAUNCH, str(error).splitlines()[0])
    return Verdict(mutant, COMPARISON, wrong) if wrong else Verdict(mutant, EQUIVALENT, "")


def _wrong_results(plan: Plan, ptx: str, kernel: Kernel) -> str:
    """Which output differs, with asynchronous work as late as allowed; empty when none does."""
    trial = trial_of(plan, dict(kernel.values), seed=1)
    launch(plan.interface, ptx, trial.arguments, device="sim", options=LaunchOptions(Simulation(timing="late")))
    for outcome in trial.judged():
        if not outcome.passed:
            return f"{outcome.output}: {outcome.wrong} of {outcome.total} elements differ"
    return ""
