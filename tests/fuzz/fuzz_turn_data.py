"""Random accesses of several blocks in their turns and around them: what is accepted neither hangs nor races, and gives one result at all
paces, unless the report says what it takes for granted of a tensor, and then it is that which does not hold."""

import random
import re

import numpy as np
from effort import given_up_soon
from fuzz.turn_data_kernels import TURNS, arguments, draw

from pipec.driver import Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 3000


def attempt(chance: random.Random) -> str | None:
    text, roles = draw(chance)
    return tried(text, roles)[1]


def tried(text: str, roles: int, *, unchecked: bool = False) -> tuple[str, str | None]:
    """Accepted, or the codes of the messages; and what went wrong."""
    with given_up_soon(refuting=False):
        state = compile_source(Source("k.pipe", text), Options(unchecked=unchecked))
    codes = " ".join(sorted({one.code for one in state.diagnostics}))
    if "E0001" in codes:
        return codes, f"# a fault of the compiler\n{text}"
    if state.failed or state.plans is None or state.ptx is None:
        return codes, None
    assumed = state.findings["k"].assumed if "k" in state.findings else ()
    for turns in TURNS:
        seen: dict[str, bytes] = {}
        for timing in ("late", "random", "order"):
            given = arguments(roles, turns)
            options = LaunchOptions(Simulation(timing=timing, seed=turns))
            try:
                launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)
            except ArgumentError:
                break  # sizes that the proof leaves out
            except SimulationError as error:
                return "accepted", None if _said(assumed, str(error)) else f"# {turns}, {timing}: {error}\n{text}"
            now = {name: one.tobytes() for name, one in given.items() if isinstance(one, np.ndarray)}
            if now != (seen or now):
                told = [name for name in now if seen[name] != now[name]]
                return "accepted", None if assumed else f"# {turns}, {timing}: another result in {told}\n{text}"
            seen = now
    return "accepted", None


def _said(assumed: tuple[str, ...], error: str) -> bool:
    """Whether the report takes for granted what does not hold: of the tensor of which the race is."""
    tensor = re.search(r"of `(\w+)`\)", error)
    return tensor is not None and any(one.startswith(f"{tensor[1]}: ") for one in assumed)
