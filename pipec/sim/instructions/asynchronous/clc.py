"""clusterlaunchcontrol.*: taking over clusters that have not started (PTX ISA 9.7.13.17-18)."""

from __future__ import annotations

import functools

import numpy as np

from ...errors import SimulationError
from ...machine.memory.spaces import OFFSET_MASK, RANK_SHIFT
from ...machine.program import Execute
from ...machine.races.ledger import Access
from ...machine.threads.cta import Cluster, Cta, Warp
from ...ptx.types import LANES, TYPES
from ...units.copies.places import Places
from ..decode import Decoder, instruction
from ..memory.loadstore import shared_addresses
from .operations import COPY_LATENCY, complete, writing

# Triton reads the CTA before it tests whether the request was granted, and then does not use it.
_NO_CTA = 0x7FED_CBA9
_RESPONSE_BYTES = 16
_GRANTED = 1 << 31


@instruction("clusterlaunchcontrol.try_cancel")
def try_cancel(d: Decoder) -> Execute:
    d.require("async")
    d.choose("shared::cta")
    d.require("mbarrier::complete_tx::bytes")
    everybody = d.flag("multicast::cluster::all")
    d.types()
    response, barrier = shared_addresses(d, 0, False), shared_addresses(d, 1, False)

    def execute(warp: Warp) -> None:
        cta = warp.cta
        for lane in warp.lanes():
            offset, signal = int(response(warp)[lane]) & OFFSET_MASK, int(barrier(warp)[lane])
            if offset % _RESPONSE_BYTES:
                raise SimulationError("misaligned", f"try_cancel response at 0x{offset:x} is not 16-byte aligned")
            what = "clusterlaunchcontrol.try_cancel"
            ranks = range(len(cta.cluster.ctas)) if everybody else [cta.rank]
            targets = [cta.peer(rank << RANK_SHIFT, what) for rank in ranks]
            if cta.launch_control_ended:
                problem = "this CTA has seen a request fail: another one is undefined (PTX ISA 9.7.13.17)"
                raise SimulationError("undefined", f"{what}: {problem}")
            places = Places(np.arange(offset, offset + _RESPONSE_BYTES))
            accesses = [writing(warp, target, places, what, signal & OFFSET_MASK) for target in targets]

            warp.later(COPY_LATENCY, functools.partial(_answer, list(zip(targets, accesses, strict=True)), places, signal))

    return execute


def _answer(targets: list[tuple[Cta, Access]], places: Places, signal: int) -> None:
    cluster = targets[0][0].cluster
    data = np.frombuffer(_response(cluster), np.uint8)
    for target, access in targets:
        target.shared.async_write(places, data, "clusterlaunchcontrol")
        complete(target, signal, _RESPONSE_BYTES, "clusterlaunchcontrol.try_cancel", access)


def _response(cluster: Cluster) -> bytes:
    """Private encoding: x, y, z of the granted cluster's first CTA, then the granted flag."""
    machine = cluster.machine
    if not machine.pending_clusters or machine.refuses(cluster.granted):
        return np.zeros(4, np.uint32).tobytes()
    index = machine.pending_clusters.popleft()
    cluster.granted += 1
    origin = [index[axis] * cluster.shape[axis] for axis in range(3)]
    return np.array([*origin, _GRANTED], np.uint32).tobytes()


@instruction("clusterlaunchcontrol.query_cancel.is_canceled")
def is_canceled(d: Decoder) -> Execute:
    d.ignore("pred")
    d.types()
    write, read = d.destination(0, TYPES["pred"]), d.source(1, TYPES["b128"])

    def execute(warp: Warp) -> None:
        granted = (read(warp)[:, 1] >> np.uint64(63)).astype(bool)
        if not granted[warp.active].all():
            warp.cta.launch_control_ended = True
        write(warp, granted)

    return execute


@instruction(
    "clusterlaunchcontrol.query_cancel.get_first_ctaid",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::x",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::y",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::z",
)
def first_ctaid(d: Decoder) -> Execute:
    d.flag("v4")
    d.types()
    axes = {"x": [0], "y": [1], "z": [2]}.get(
        d.item.opcode.split("get_first_ctaid")[1].split(".")[0].removeprefix("::"), [0, 1, 2]
    )
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    read = d.source(1, TYPES["b128"])

    def execute(warp: Warp) -> None:
        words = np.ascontiguousarray(read(warp)).view(np.uint32).reshape(LANES, 4)
        granted = (words[:, 3] >> 31).astype(bool)
        if not granted[warp.active].all():
            warp.cta.machine.warn("get_first_ctaid of a response that was not granted is undefined; the values given name no CTA")
            words = np.where(granted[:, None], words, np.uint32(_NO_CTA))
        for axis, write in zip(axes, writers, strict=False):
            write(warp, np.ascontiguousarray(words[:, axis]))

    return execute
