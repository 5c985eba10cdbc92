"""Random accesses between random hand-overs: what is accepted races at no pace of its parts, unless the report says what it takes for
granted, and then it is that which does not hold."""

import random
import re

import numpy as np
from fuzz.hand_over_kernels import TURNS, arguments, draw

from pipec.driver import Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 4000


def attempt(chance: random.Random) -> str | None:
    text, roles = draw(chance)
    return tried(text, roles)


def tried(text: str, roles: int, *, unchecked: bool = False, sizes: tuple[int, ...] = TURNS) -> str | None:
    state = compile_source(Source("k.pipe", text), Options(unchecked=unchecked))
    if any(one.code == "E0001" for one in state.diagnostics):
        return f"a fault of the compiler\n{text}"
    if state.failed or state.plans is None or state.ptx is None:
        return None
    for turns in sizes:
        seen: dict[str, bytes] = {}
        for timing in ("late", "random", "order"):
            given = arguments(roles, turns)
            options = LaunchOptions(Simulation(timing=timing, seed=turns))
            try:
                launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)
            except ArgumentError:
                break  # sizes that the proof leaves out
            except SimulationError as error:
                return (
                    None
                    if _said(state.findings["k"].assumed if "k" in state.findings else (), str(error))
                    else f"# {turns}, {timing}: {error}\n{text}"
                )
            now = {name: array.tobytes() for name, array in given.items() if isinstance(array, np.ndarray)}
            if now != (seen or now):
                return f"# {turns}, {timing}: another result\n{text}"
            seen = now
    return None


def _said(assumed: tuple[str, ...], error: str) -> bool:
    """Whether the report takes for granted what does not hold: of two stores that race, that they are apart."""
    told = " ".join(assumed)
    if "out_of_bounds" in error:
        return "starts at no negative coordinate" in told
    roles = sorted(set(re.findall(r"of role `(\w+)`", error.split(" (role ")[0])))
    if not roles or " reads " in error or " read it" in error:
        return False
    return (f"roles `{roles[0]}` and `{roles[-1]}` store" if len(roles) > 1 else f"role `{roles[0]}` stores") in told
