"""What pipec says of a kernel beside what happens: in the token model, and in the simulator."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from fuzz.protocol_kernels import BF_ROWS, SIZES, Kernel
from fuzz.protocol_text import bodies_of, source_of
from fuzz.stand_ins import Run, TooLong, run_roles

from pipec.driver import Compilation, Options, compile_source
from pipec.runtime import ArgumentError, LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import SimulationError
from pipec.source import Source

LOADED = [2, 1, 0, 3]  # what `ix` holds
WAITING = {"E0601", "E0602", "E0603", "E0604"}  # a deadlock, uneven sides, CTAs that differ, not decided
_SHAPES = {"d": (BF_ROWS, 8)}


@dataclass
class Outcome:
    """`said`: "proved", "open", "refused". `truth`: "right", "open" or what the token model found, and at which sizes.
    `contradictions`: what must never be."""

    said: str
    codes: list[str] = field(default_factory=list)
    truth: str = "right"
    at: str = ""
    contradictions: list[str] = field(default_factory=list)
    simulated: int = 0
    states: int = 0


def judge(kernel: Kernel, seed: int, states: int = 3000, runs: int = 2) -> Outcome:
    """`states`: of the token model at most, for each set of sizes; `runs`: of the simulator."""
    source = source_of(kernel)
    state = compile_source(Source("fuzz.pipe", source), Options(kernel.arch, allow_undecided=True))
    outcome = Outcome("refused" if state.failed else state.protocol["k"].outcome, sorted({one.code for one in state.diagnostics}))
    bodies = bodies_of(kernel)
    for sizes in SIZES:
        _explore(kernel, bodies, sizes, states, outcome)
        if outcome.truth not in ("right", "open"):
            break
    # A stage that is filled and never read keeps nobody waiting; E0602 tells it where the CTAs of a cluster are alike.
    if outcome.said == "proved" and outcome.truth not in ("right", "open", *(("rest",) if kernel.ctas > 1 else ())):
        outcome.contradictions.append(f"proved, but {outcome.truth} at {outcome.at}")
    if "E0001" in outcome.codes:
        outcome.contradictions.append(f"internal error: {[one.title for one in state.diagnostics]}")
    if state.failed:
        _refuted_rightly(kernel, bodies, state, states, outcome)
    elif outcome.truth in ("right", "open"):
        for number in range(runs):
            wrong = _simulate(
                kernel, bodies, state, SIZES[(seed + number) % len(SIZES)], "random" if number % 2 else "late", seed
            )
            if wrong and outcome.said == "open" and kernel.fault:
                break  # what was planted shows in the data, of which nothing was said
            if wrong:
                outcome.contradictions.append(f"{outcome.said}, but {wrong}")
                break
            outcome.simulated += 1
    return outcome


def _run(kernel: Kernel, bodies: Mapping[str, str], sizes: Mapping[str, int]) -> Run:
    buffers = {f"{pipe.name}_{sub}": pipe.name for pipe in kernel.pipes if pipe.kind == "sub" for sub in range(2)}
    pipes = {pipe.name: pipe for pipe in kernel.pipes}
    return run_roles(pipes, buffers, bodies, sizes, {"ix": LOADED}, tuple(kernel.tensors()), kernel.ctas)


def _explore(kernel: Kernel, bodies: Mapping[str, str], sizes: Mapping[str, int], states: int, outcome: Outcome) -> None:
    try:
        found = _run(kernel, bodies, sizes).explored(states)
    except TooLong:
        outcome.truth = "open"
        return
    except (NameError, AttributeError, KeyError) as error:
        # Something is used where it is not held; what that means nobody can say.
        outcome.truth, outcome.at = "meaningless", str(error)
        return
    outcome.states += found.states
    if found.kind != "right":
        outcome.truth, outcome.at = found.kind, f"{dict(sizes)}: {found.text}"


_WHEN = re.compile(r"\b([nm]) = (-?\d+)")


def _refuted_rightly(kernel: Kernel, bodies: Mapping[str, str], state: Compilation, states: int, outcome: Outcome) -> None:
    """The sizes that a message names are sizes at which the token model gets stuck, too."""
    for diagnostic in state.diagnostics:
        if diagnostic.code not in ("E0601", "E0602"):
            continue
        sizes = {"n": 0, "m": 0} | {name: int(value) for name, value in _WHEN.findall(diagnostic.title)}
        if max(map(abs, sizes.values())) > 20:
            continue
        there = Outcome("refused")
        _explore(kernel, bodies, sizes, states, there)
        if there.truth == "right":
            outcome.contradictions.append(f"refused ({diagnostic.code}: {diagnostic.title}), but right there")


def arguments(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, object]:
    import ml_dtypes

    generator = np.random.default_rng(1)
    made: dict[str, object] = {name: np.int32(value) for name, value in sizes.items()}
    for name, shape in kernel.tensors().items():
        match name[0]:
            case "x":
                made[name] = generator.integers(0, 1000, shape).astype(np.float32)
            case "a" | "b":
                made[name] = generator.integers(-3, 4, shape).astype(ml_dtypes.bfloat16)
            case "y" | "z" | "d":
                made[name] = np.zeros(shape, np.float32)
    return made | {"ix": np.array(LOADED, np.int32), "turns": np.zeros(4, np.int32)}


def _simulate(
    kernel: Kernel, bodies: Mapping[str, str], state: Compilation, sizes: Mapping[str, int], timing: str, seed: int
) -> str:
    """What went wrong; empty where all is as expected."""
    given = arguments(kernel, sizes)
    try:
        tensors = expected(kernel, bodies, sizes)
    except TooLong:
        return ""
    assert state.plans is not None and state.ptx is not None
    options = LaunchOptions(Simulation(timing=timing, seed=seed))  # type: ignore[arg-type]
    try:
        launch(state.plans[0].interface, state.ptx, given, device="sim", options=options)
    except ArgumentError:
        return ""  # sizes that the proof leaves out
    except SimulationError as error:
        return f"{error.kind} at {dict(sizes)}, timing {timing}: {error.message.splitlines()[0]}"
    for name, wanted in tensors.items():
        if not np.array_equal(given[name], wanted):
            return f"{name} differs at {dict(sizes)}, timing {timing}"
    return ""


def expected(kernel: Kernel, bodies: Mapping[str, str], sizes: Mapping[str, int]) -> dict[str, np.ndarray]:
    """What the tensors hold afterwards. Raises TooLong where more tiles are handed over than they have."""
    run = _run(kernel, bodies, sizes)
    tensors = {name: value for name, value in arguments(kernel, sizes).items() if isinstance(value, np.ndarray)}
    for place, value, added in run.stored:
        shape = _SHAPES.get(place.tensor[0]) or kernel.tile_of(place.tensor)
        target = tensors[place.tensor][place.row : place.row + shape[0], place.column : place.column + shape[1]]
        if len(target) < shape[0]:
            raise TooLong
        made = run.tile(value, tensors, shape)
        target[...] = target + made if added else made
    return tensors
