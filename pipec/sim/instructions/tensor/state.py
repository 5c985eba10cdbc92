"""The tensor memory that an instruction accesses, and the pipe of a CTA pair (PTX ISA 9.7.16.5-6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipec.record import replace

from ...errors import SimulationError
from ...machine.memory.tensor import CtaGroup, TensorOrder, TensorState
from ...machine.threads.cta import Cta, Warp
from ...units.tcgen05.footprint import Footprint
from ...units.tcgen05.memory import TensorMemory
from ..asynchronous.operations import operation
from ..decode import Decoder

MMA_LATENCY, MMA_SLOTS, COMMIT_LATENCY = 64, 32, 8


def state_of(cta: Cta, group: CtaGroup | None = None) -> TensorState:
    if cta.tensor is None:
        races = cta.machine.races if cta.machine.watching else None
        machine = cta.machine
        memory = TensorMemory(lambda error: machine.unwritten(SimulationError.of_unit(error)), machine.schedule.filling)
        cta.tensor = TensorState(TensorOrder(races, cta.image.names, cta.shared.whole), memory)
    if group is not None:
        if cta.tensor.group not in (None, group):
            raise SimulationError(
                "undefined",
                f"cta_group::{group} in a kernel that uses cta_group::{cta.tensor.group}: all tcgen05 instructions must agree",
            )
        cta.tensor.group = group
    return cta.tensor


def group_of(d: Decoder) -> CtaGroup:
    return 1 if d.require("cta_group::1", "cta_group::2") == "cta_group::1" else 2


def group_ctas(cta: Cta, group: CtaGroup, meets: bool = False) -> list[Cta]:
    """The CTAs that an instruction involves, even one first; `meets`: the other CTA executes it, too, and each waits for the other."""
    if group == 1:
        return [cta]
    ctas, even = cta.cluster.ctas, cta.rank & ~1
    if even + 1 >= len(ctas):
        raise SimulationError("undefined", f"cta_group::2 in a cluster of {len(ctas)} CTA: there is no pair")
    for peer in ctas[even : even + 2]:
        if peer.exited:
            raise SimulationError("undefined", f"cta_group::2 while {peer.name} has exited")
        if (
            peer is not cta
            and not cta.knows_running(peer)
            and not (meets and cta.machine.practised("allocations of a pair meet"))
        ):
            cta.not_running(peer, "cta_group::2")
    return ctas[even : even + 2]


def issue(warp: Warp, ctas: Sequence[Cta], action: Callable[[], None], slots: int, footprint: Footprint, what: str) -> None:
    """Enqueues an operation in the pair's tensor pipe; it accesses the same places in each CTA."""
    thread = warp.thread
    reading = operation(warp, what, False, "pipe")
    in_tensor_memory = replace(reading, proxy="tensor", pipe=True)
    for cta in ctas:
        state_of(cta).outstanding += 1
        cta.shared.begin(thread, reading, footprint.shared)
        cta.shared.operands(reading, footprint.operands)
        state_of(cta).order.pipe(thread, in_tensor_memory, footprint)
    if footprint.product is not None:
        state_of(ctas[0]).order.added(in_tensor_memory, footprint.product)

    def run() -> None:
        for cta in ctas:
            if cta.exited:
                raise SimulationError("undefined", f"a tensor operation works on {cta.name}, which has exited")
        action()
        for cta in ctas:
            state_of(cta).completed()

    warp.later(MMA_LATENCY, run, ("tensor", ctas[0].rank), busy=slots)
