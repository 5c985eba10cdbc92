"""Random roles with variables in branches and loops: what is accepted computes what Python does."""

import random

import numpy as np
from fuzz.variable_kernels import SIZES, Program, arguments, draw

from pipec.driver import Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 3000


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), chance.randrange(1000), chance.choice((None, None, 1.0)))


def tried(program: Program, seed: int, watchdog: float | None = None) -> str | None:
    state = compile_source(Source("k.pipe", program.source), Options(watchdog=watchdog))
    if any(one.code == "E0001" for one in state.diagnostics):
        return f"a fault of the compiler\n{program.source}"
    if state.failed or state.plans is None or state.ptx is None:
        return None
    for number, sizes in enumerate(SIZES):
        given = arguments(seed, sizes)
        wanted = program.expected(given)
        options = LaunchOptions(Simulation(timing=("late", "random", "order")[number], seed=seed))
        try:
            launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)
        except ArgumentError:
            continue  # sizes that the proof leaves out
        except SimulationError as error:
            return f"# {sizes}: {error}\n{program.source}"
        if not all(np.array_equal(given[name], wanted[name]) for name in wanted):
            return f"# {sizes}: another result\n{program.source}"
    return None
