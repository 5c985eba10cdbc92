"""Random kernels of many features at once: what is proved neither hangs nor races nor gives another result at another pace, and what is
right by construction is not refused as wrong and computes what NumPy does."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from effort import given_up_soon
from fuzz.together_kernels import draw
from fuzz.together_programs import Program
from fuzz.together_words import Numbers

from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

COUNT = 1500
STEPS = 100_000  # of a search; what takes more is not decided
_FIRST = {"n": 3, "m": 2, "s": 5, "K": 130, "T": 3, "parts": 2, "most": 6}
_EDGES = {
    "n": (0, 1, 2, 4, -1),
    "m": (1, 2, 3, 0, -2),
    "s": (0, -3, 2, 2**31 - 1, 2**31 - 3, -(2**31)),
    "K": (0, 1, 63, 64, 65, 128, 192, 256),
    "T": (0, 1, 2, 4, 5),
    "parts": (1, 2, 3),
    "most": (3, 6, 200),
}


@dataclass(frozen=True)
class Outcome:
    """`said`: "proved", or the codes of the messages. `wrong`: None if nothing was."""

    said: str
    wrong: str | None = None


def sizes(chance: random.Random, many: int) -> Iterator[Numbers]:
    """Some that most kernels admit, and others at the edges."""
    yield _FIRST
    for _ in range(many):
        near = {name: chance.choice(values) for name, values in _EDGES.items()}
        if chance.random() < 0.5:
            near["K"] = near["K"] // 64 * 64
        yield near


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), chance).wrong


def tried(program: Program, chance: random.Random, *, unchecked: bool = False) -> Outcome:
    with given_up_soon(STEPS, refuting=False):
        state = compile_source(Source("k.pipe", program.source), Options(program.arch, unchecked=unchecked))
    codes = " ".join(sorted({one.code for one in state.diagnostics}))
    told = f"# {program.arch}, {program.fault or 'right'}: {codes}\n{program.source}"
    if "E0001" in codes:
        return Outcome(codes, told)
    if state.failed:
        strange = not program.fault and codes in ("E0601", "E0602", "E0606")
        return Outcome(codes, f"right, and refused {told}" if strange else None)
    for size in sizes(chance, 7 if program.fault else 3):
        wrong = _run(program, state, size, chance.getrandbits(16))
        if wrong is not None:
            return Outcome("proved", f"{wrong}\n{told}")
    return Outcome("proved")


def _run(program: Program, state: Compilation, size: Numbers, seed: int) -> str | None:
    assert state.plans is not None and state.ptx is not None
    seen: dict[str, bytes] = {}
    for timing in ("late", "random"):
        given = program.arguments(size)
        options = LaunchOptions(Simulation(timing=timing, seed=seed))  # type: ignore[arg-type]
        try:
            launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)
        except ArgumentError:
            return None  # sizes that the proof leaves out
        except SimulationError as error:
            return f"# {timing}, {dict(size)}: {error.kind}: {error.message.splitlines()[0]}"
        now = {name: one.tobytes() for name, one in given.items() if isinstance(one, np.ndarray)}
        if now != (seen or now):
            return f"# {dict(size)}: another result at another pace"
        seen = now
        if not program.fault:
            for name, wanted in program.expected(size).items():
                if not np.array_equal(given[name], wanted):  # type: ignore[arg-type]
                    return f"# {timing}, {dict(size)}: {name} differs"
    return None
