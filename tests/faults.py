"""Kernels that hang, each by one planted fault, compiled without checks: what the simulator and the watchdog have to explain.

A fault is planted where it belongs: in the source, in the plan (what the compiler derived), or in the LLVM text. They run on both
targets; their right form is `SOURCE`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipec.api.program import Program
from pipec.driver import STAGES, Compilation, Options, compile_source
from pipec.kir.plan.types import Plan
from pipec.record import replace
from pipec.source import Source

SOURCE = """\
kernel pass_on(x: tensor[f32, M, N], y: tensor[f32, M, N]):
    grid(ceildiv(N, 16))
    loaded = InputTilePipeline(TilePayload(x=tile[f32, 128, 16]), stages=3)
    ready  = InputTilePipeline(TilePayload(y=tile[f32, 128, 16]), stages=2)
    tiles  = ceildiv(M, 128)

    role load(warps=1) produces loaded:
        for i in range(tiles):
            s = loaded.acquire_producer()
            tma.load(s.x, x[i * 128, block.x * 16])
            s.release()

    role compute(warps=4) consumes loaded produces ready:
        for i in range(tiles):
            s = loaded.acquire_consumer()
            o = ready.acquire_producer()
            write(o.y, s.x * 2.0)
            o.release()
            s.release()

    role writer(warps=1) consumes ready:
        for i in range(tiles):
            o = ready.acquire_consumer()
            tma.store(y[i * 128, block.x * 16], o.y)
            o.release()
"""


def _same(thing: Any) -> Any:
    return thing


@dataclass(frozen=True)
class Fault:
    """`role`, `side` of `pipeline`, `iteration`: where the fault shows first, and the source line of that wait."""

    name: str
    blocked: tuple[str, str, str, int, int]  # role, pipeline, side, iteration, line
    source: Callable[[str], str] = _same
    plan: Callable[[Plan], Plan] = _same
    llvm: Callable[[str], str] = _same


def _swap(old: str, new: str, times: int = 1) -> Callable[[str], str]:
    def change(text: str) -> str:
        assert text.count(old) >= times, f"{old!r} is not there"
        return text.replace(old, new, times)

    return change


def _more_bytes(plan: Plan) -> Plan:
    return replace(plan, expected_bytes={handle: count + 16 for handle, count in plan.expected_bytes.items()})


def _more_arrivals(plan: Plan) -> Plan:
    """The empty barriers of `loaded` count one thread too many."""
    signals = {
        (pipeline, side): replace(row, count=row.count + (pipeline.name == "loaded" and side == "consumer"))
        for (pipeline, side), row in plan.signals.items()
    }
    barriers = tuple(
        replace(row, count=row.count + ((row.pipeline, row.side) == ("loaded", "empty"))) for row in plan.interface.barriers
    )
    return replace(plan, signals=signals, interface=replace(plan.interface, barriers=barriers))


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(
            "missing_release",
            ("compute", "ready", "empty", 3, 16),
            source=_swap("], o.y)\n            o.release()", "], o.y)\n            o.release_without_signal()"),
        ),
        Fault(
            "missing_arrive",
            ("writer", "ready", "full", 1, 22),
            source=_swap("2.0)\n            o.release()", "2.0)"),
        ),
        Fault(
            "wrong_phase",
            ("load", "loaded", "empty", 1, 9),
            llvm=_swap("load.loaded.producer.phase = phi i32 [ 1,", "load.loaded.producer.phase = phi i32 [ 0,"),
        ),
        Fault("wrong_bytes", ("compute", "loaded", "full", 1, 15), plan=_more_bytes),
        Fault(
            "short_producer",
            ("compute", "loaded", "full", 6, 15),
            source=_swap("for i in range(tiles):", "for i in range(tiles - 1):"),
        ),
        Fault("wrong_count", ("load", "loaded", "empty", 4, 9), plan=_more_arrivals),
        Fault(
            "wrong_order",
            ("load", "loaded", "empty", 4, 9),
            source=_swap(
                "            s = loaded.acquire_consumer()\n            o = ready.acquire_producer()\n",
                "            o = ready.acquire_producer()\n            for j in range(4):\n"
                "                t = loaded.acquire_consumer()\n                t.release_without_signal()\n"
                "            s = loaded.acquire_consumer()\n",
            ),
        ),
    )
}


def compiled(fault: Fault, arch: str, watchdog: float | None = None) -> Program:
    """The faulty kernel; `watchdog` in seconds."""
    state = compile_source(Source("pass_on.pipe", fault.source(SOURCE)), Options(arch, watchdog=watchdog, unchecked=True), "plan")
    assert not state.failed, state.diagnostics
    state.plans = [fault.plan(plan) for plan in state.plans or []]
    return Program(_finished(state, fault))


def _finished(state: Compilation, fault: Fault) -> Compilation:
    STAGES["lower"](state)
    assert state.llvm is not None
    state.llvm = fault.llvm(state.llvm)
    STAGES["emit"](state)
    return state


def arrays(columns: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Six tiles for each CTA, of which there are `columns` / 16."""
    return np.ones((768, columns), np.float32), np.zeros((768, columns), np.float32)
