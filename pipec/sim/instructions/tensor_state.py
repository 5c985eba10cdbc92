"""Tensor memory of a CTA, and the pipe of a CTA pair that works on it (PTX ISA 9.7.16.5-6)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..decode import Decoder
from ..errors import SimulationError
from ..execution import Warp
from ..tensor_order import TensorOrder
from ..underway import Access
from ..units.tcgen05.footprint import Footprint
from ..units.tcgen05.memory import TensorMemory

MMA_LATENCY, MMA_SLOTS, COMMIT_LATENCY = 64, 32, 8


@dataclass(eq=False)
class TensorState:
    """Tensor memory of a CTA and who uses it how."""

    order: TensorOrder
    memory: TensorMemory = field(default_factory=TensorMemory)
    group: int = 0
    collectors: dict[str, int] = field(default_factory=dict)  # buffer -> the operand that filled it
    waiting: list = field(default_factory=list)
    outstanding: int = 0

    def check_released(self, cta) -> None:
        leaks = self.memory.leaks()
        if leaks:
            blocks = ", ".join(f"{columns} columns at 0x{base:x}" for base, columns in leaks.items())
            raise SimulationError(
                "leaked_tmem", f"{cta.name} exits without deallocating tensor memory: {blocks}", details={"blocks": leaks}
            )


def state_of(cta, group: int = 0) -> TensorState:
    if cta.tensor is None:
        cta.tensor = TensorState(TensorOrder(cta))
    if group:
        if cta.tensor.group not in (0, group):
            raise SimulationError(
                "undefined",
                f"cta_group::{group} in a kernel that uses cta_group::{cta.tensor.group}: all tcgen05 instructions must agree",
            )
        cta.tensor.group = group
    return cta.tensor


def group_of(d: Decoder) -> int:
    return int(d.require("cta_group::1", "cta_group::2")[-1])


def group_ctas(cta, group: int) -> list:
    """The CTAs an instruction works on, even one first."""
    if group == 1:
        return [cta]
    ctas, even = cta.cluster.ctas, cta.rank & ~1
    if even + 1 >= len(ctas):
        raise SimulationError("undefined", f"cta_group::2 in a cluster of {len(ctas)} CTA: there is no pair")
    for peer in ctas[even : even + 2]:
        if peer.exited:
            raise SimulationError("undefined", f"cta_group::2 while {peer.name} has exited")
    return ctas[even : even + 2]


def issue(warp: Warp, ctas: list, action, slots: int, footprint: Footprint, what: str) -> None:
    """Puts an operation into the pair's tensor pipe; it touches the same places in each CTA."""
    machine, pair = warp.cta.machine, ctas[0].rank
    who = warp.cta.program.names.who(warp.index)
    under_way = []
    for cta in ctas:
        state = state_of(cta)
        state.outstanding += 1
        shared = cta.shared.begin(Access(what, who, reads=footprint.shared))
        under_way.append((cta, state, shared, state.order.begin_piped(warp, footprint, what)))

    def run() -> None:
        for cta in ctas:
            if cta.exited:
                raise SimulationError("undefined", f"a tensor operation works on {cta.name}, which has exited")
        action()
        for cta, state, shared, access in under_way:
            state.outstanding -= 1
            cta.shared.underway.end(shared)
            state.order.end_piped(access)

    machine.later(warp, MMA_LATENCY, run, ("tensor", pair), busy=slots)
