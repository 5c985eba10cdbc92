"""Random GEMMs with scale factors along K: what is accepted computes what the bytes of its arrays stand for."""

import random

import numpy as np
from fuzz.scaled_kernels import Program, draw

from pipec.driver import Options, compile_source
from pipec.interface import KernelInterface
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 300


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), chance.getrandbits(16))


def tried(program: Program, seed: int) -> str | None:
    """Every kernel is right: a refusal is wrong, too."""
    state = compile_source(Source("k.pipe", program.source), Options("sm_100a"))
    if state.failed or state.plans is None or state.ptx is None:
        return f"# {[one.title for one in state.diagnostics]}\n{program.source}"
    found = wrong(program, state.plans[0].interface, state.ptx, seed)
    return found and f"# {found}\n{program.source}"


def wrong(program: Program, interface: KernelInterface, ptx: str, seed: int) -> str | None:
    """What goes wrong with the text, at one size and two timings."""
    chance = random.Random(seed)
    m, n, k = program.sizes(chance)
    for timing in ("late", "random"):
        given = program.arguments(m, n, k)
        expected = program.expected(given, k)
        arrays = {name: one.view(program.numpy(name)) if name != "d" else one for name, one in given.items()}
        try:
            launch(interface, ptx, arrays, device="sim", options=LaunchOptions(Simulation(timing=timing, seed=seed)))
        except SimulationError as error:
            return f"{timing}, M, N, K = {m}, {n}, {k}: {error.kind}: {error.message.splitlines()[0]}"
        if not np.array_equal(given["d"], expected):
            return f"{timing}, M, N, K = {m}, {n}, {k}: another result"
    return None
