"""Runs a kernel that the compiler accepts in the simulator, at several timings, beside what it should compute."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from effort import given_up_soon

from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source


class Program(Protocol):
    """`arguments` and `expected` are of one size: what the kernel is given, and what must be in its tensors when it has run."""

    @property
    def source(self) -> str: ...

    def arguments(self, size: Any) -> dict[str, object]: ...

    def expected(self, size: Any) -> Mapping[str, np.ndarray]: ...


@dataclass(frozen=True)
class Tried:
    """`said`: accepted, or the codes of the messages. `wrong`: None if nothing was."""

    said: str
    wrong: str | None = None


def tried(program: Program, arch: str, sizes: Iterable[Any], seed: int, *, watchdog: float | None = None) -> Tried:
    state = _compiled(program, Options(arch, watchdog=watchdog))
    codes = " ".join(sorted({one.code for one in state.diagnostics}))
    if any(one.code == "E0001" for one in state.diagnostics):
        return Tried(codes, f"# {[one.title for one in state.diagnostics]}\n{program.source}")
    if state.failed or state.plans is None or state.ptx is None:
        return Tried(codes)
    first, *others = sizes
    for timing, size in (
        ("late", first),
        ("random", first),
        *((("late", "random")[seed >> n & 1], one) for n, one in enumerate(others)),
    ):
        given = program.arguments(size)
        try:
            launch(
                state.plans[0].interface, state.ptx, given, device="sim",
                options=LaunchOptions(Simulation(timing=timing, seed=seed)),
            )  # fmt: skip
        except ArgumentError:
            continue  # sizes that the proof leaves out
        except SimulationError as error:
            return Tried("accepted", f"# {timing}, {size}: {error.kind}: {error.message.splitlines()[0]}\n{program.source}")
        for name, wanted in program.expected(size).items():
            if not np.array_equal(given[name], wanted):  # type: ignore[arg-type]
                return Tried("accepted", f"# {timing}, {size}: another result in {name}\n{program.source}")
    return Tried("accepted")


def _compiled(program: Program, options: Options) -> Compilation:
    """Proofs that are not found soon are given up: what is not accepted does not run."""
    with given_up_soon(refuting=False):
        return compile_source(Source("k.pipe", program.source), options)
