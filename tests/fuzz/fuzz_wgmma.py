"""Random roles that multiply into accumulators in registers: what is accepted computes what Python does, and does not race or hang."""

import random

import numpy as np
from fuzz.wgmma_kernels import TURNS, Program, draw

from pipec.driver import Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 2000


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), chance.getrandbits(16))


def tried(program: Program, seed: int) -> str | None:
    state = compile_source(Source("k.pipe", program.source), Options("sm_90a"))
    if any(one.code == "E0001" for one in state.diagnostics):
        return f"# {[one.title for one in state.diagnostics]}\n{program.source}"
    if state.failed or state.plans is None or state.ptx is None:
        return None
    for timing, turns in (("late", TURNS[0]), ("random", TURNS[0]), ("late", TURNS[1 + seed % 2])):
        given = program.arguments(turns)
        options = LaunchOptions(Simulation(timing=timing, seed=seed))
        try:
            launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)
        except ArgumentError:
            continue  # sizes that the proof leaves out
        except SimulationError as error:
            return f"# {timing}, n = {turns}: {error.kind}: {error.message.splitlines()[0]}\n{program.source}"
        for name, wanted in zip("yz", program.expected(turns), strict=True):
            if not np.array_equal(given[name], wanted):  # type: ignore[arg-type]
                return f"# {timing}, n = {turns}: another result in {name}\n{program.source}"
    return None
