"""Random kernels one behind the other that may overlap: what is accepted computes what they compute one after the other.

Two judges. In the first a kernel begins before all in front of it have done anything, and those run when one of its warps first comes to
`griddepcontrol.wait`, or after its end where none does: what it reads before is old, and what it stores before is seen by those in front.
In the second the simulator knows what the grids in front touch, and reports what is not ordered behind the wait.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from fuzz.stream_kernels import Stream, draw

from pipec import sim
from pipec.driver import Compilation, Options, compile_source
from pipec.record import replace
from pipec.runtime import LaunchOptions, launch
from pipec.sim import Options as Simulation
from pipec.sim import Result, SimulationError
from pipec.sim.instructions import decode as decoding
from pipec.sim.instructions.decode import Decoder
from pipec.sim.machine.races.preceding import Touched
from pipec.sim.machine.threads.cta import Warp
from pipec.source import Source

COUNT = 500
# What is touched before the wait, and kernels that may not wait at all; steps to a loaded bound may wrap, and are not decided.
_OWN_FAULTS, _UNDECIDED = {"E0472", "E0473"}, {"E0604"}
_MEANINGS = decoding._MEANINGS
_MEMORY = (sim.ArrayArgument, sim.TensorMapArgument)


def attempt(chance: random.Random) -> str | None:
    return tried(draw(chance), chance.getrandbits(16))[1]


def tried(stream: Stream, seed: int) -> tuple[str, str | None]:
    """What pipec says, and what went wrong."""
    state = compile_source(Source("k.pipe", stream.source), Options("sm_90a"))
    codes = {one.code for one in state.diagnostics}
    if state.failed:
        unfit = codes - _UNDECIDED - (set() if stream.left_to_the_compiler else _OWN_FAULTS)
        return " ".join(sorted(codes)), f"# {[one.title for one in state.diagnostics]}\n{stream.source}" if unfit else None
    for timing in ("late", "random"):
        for judge in (overlapped, in_turn):
            given = stream.arguments()
            try:
                judge(state, given, Simulation(timing=timing, seed=seed))
            except SimulationError as error:
                return "accepted", f"# {judge.__name__}, {timing}: {error.kind}: {error.message.splitlines()[0]}\n{stream.source}"
            for name, wanted in stream.expected().items():
                if not np.array_equal(given[name], wanted):
                    return "accepted", f"# {judge.__name__}, {timing}: another result in {name}\n{stream.source}"
    return "accepted", None


def overlapped(state: Compilation, given: dict[str, np.ndarray], options: Simulation) -> None:
    _overlapped(state, len(state.plans or []) - 1, given, options)


def _overlapped(state: Compilation, number: int, given: Mapping[str, np.ndarray], options: Simulation) -> None:
    """The kernel, and those in front of it when it first waits for them."""
    if number < 0:
        return
    pending = [number - 1]

    def in_front() -> None:
        if pending:
            _overlapped(state, pending.pop(), given, options)

    if state.plans is not None and not state.plans[number].interface.programmatic_launch:
        in_front()
    with waiting(in_front):
        _launch(state, number, given, options)
    in_front()


def in_turn(state: Compilation, given: dict[str, np.ndarray], options: Simulation) -> None:
    """Each kernel is told what those in front touched, back to one that began when all before it had ended."""
    in_front: list[Touched] = []
    simulated = sim.launch
    for number, plan in enumerate(state.plans or []):
        early = plan.interface.programmatic_launch
        if not early:
            in_front.clear()

        def noted(
            *arguments: Any, before: Sequence[Touched] | bool = tuple(in_front) if early else False, **named: Any
        ) -> Result:
            # What a kernel only reads is watched where it could be written.
            given = [replace(one, writable=True) if isinstance(one, _MEMORY) else one for one in named["arguments"]]
            result = simulated(*arguments, **{**named, "programmatic": before, "arguments": given})
            assert result.touched is not None
            in_front.append(result.touched)
            return result

        with patch.object(sim, "launch", noted):
            _launch(state, number, given, replace(options, checks={**options.checks, "grid": "error"}))


def _launch(state: Compilation, number: int, given: Mapping[str, np.ndarray], options: Simulation) -> None:
    assert state.plans is not None and state.ptx is not None
    launch(state.plans[number].interface, state.ptx, dict(given), device="sim", options=LaunchOptions(options))


_then: list[Callable[[], None]] = []  # of the kernels that run, one within the other: what their waits do


def _griddepcontrol(d: Decoder) -> Callable[[Warp], object]:
    waits = "wait" in d.modifiers
    execute = _MEANT(d)

    def executed(warp: Warp) -> object:
        if waits and _then:
            _then[-1]()
        return execute(warp)

    return executed


# What a text is decoded to is kept, so that this stays in place.
_MEANT = _MEANINGS["griddepcontrol"]
_MEANINGS["griddepcontrol"] = _griddepcontrol  # type: ignore[assignment]


@contextmanager
def waiting(then: Callable[[], None]) -> Iterator[None]:
    """What the simulator does each time a warp executes `griddepcontrol.wait`."""
    _then.append(then)
    try:
        yield
    finally:
        _then.pop()
