"""Random kernels that move tiles between tensors: nothing that is accepted races, hangs or differs."""

import random

import numpy as np
from fuzz.mover_kernels import TENSORS, TRIPS, draw, start

from pipec.driver import Options, compile_source
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 3000


def attempt(chance: random.Random) -> str | None:
    drawn = draw(chance)
    text, arch = drawn.source(), chance.choice(("sm_90a", "sm_100a"))
    state = compile_source(Source("k.pipe", text), Options(arch))
    if any(one.code == "E0001" for one in state.diagnostics):
        return f"a fault of the compiler\n{text}"
    if state.failed or state.plans is None or state.ptx is None:
        return None
    wanted = drawn.expected(start())
    for timing in ("late", "random"):
        arrays = start()
        options = LaunchOptions(Simulation(timing=timing, seed=1))
        try:
            launch(state.plans[0].interface, state.ptx, {**arrays, "n": TRIPS}, device="sim", options=options)
        except SimulationError as error:
            return f"# {arch}, {timing}: {error}\n{text}"
        if not all(np.array_equal(arrays[name], wanted[name]) for name in TENSORS):
            return f"# {arch}, {timing}: another result\n{text}"
    return None
