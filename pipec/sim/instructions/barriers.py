"""Barriers of CTA and cluster, fences (PTX ISA 9.7.13.1-5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ..decode import Decoder, instruction
from ..errors import SimulationError
from ..execution import Wait, Warp
from ..machine import NAMED_BARRIERS
from ..types import LANES, TYPES
from .control import nothing, require_converged


def _participants(warp: Warp) -> int:
    return int(np.count_nonzero(warp.active))


@instruction("bar", "barrier")
def named_barrier(d: Decoder):
    """bar{.cta}.{sync,arrive,red} and barrier{.cta}.{...}{.aligned}; `bar` is always aligned."""
    d.choose("cta")
    aligned = d.flag("aligned") or d.item.opcode.startswith("bar.")
    mode = d.require("sync", "arrive", "red")
    if mode == "red":
        return _reducing_barrier(d, aligned)
    number = d.source(0, TYPES["u32"])
    threads = d.source(1, TYPES["u32"]) if len(d.operands) > 1 else None

    def execute(warp: Warp):
        if aligned:
            require_converged(warp, d.item.opcode)
        identity, expected = _values(warp, number, threads)
        barrier = warp.cta.arrive_named(identity, _participants(warp), expected)
        if warp.cta.settle_named(barrier) or mode == "arrive":
            return None
        wanted = expected if expected is not None else warp.cta.live_threads
        wait = Wait(
            "barrier",
            f"barrier {identity}, where {barrier.arrived} of {wanted} threads have arrived",
            retry=False,
            details={"barrier": identity},
        )
        warp.fragment.wait = wait
        barrier.waiting.append((warp, warp.fragment))
        return wait

    return execute


def _values(warp: Warp, number, threads) -> tuple[int, int | None]:
    identity = int(number(warp)[warp.active][0])
    if identity >= NAMED_BARRIERS:
        raise SimulationError("undefined", f"barrier {identity} does not exist; there are {NAMED_BARRIERS}")
    expected = int(threads(warp)[warp.active][0]) if threads else None
    if expected is not None and (expected % LANES or expected == 0):
        raise SimulationError("undefined", f"barrier {identity}: thread count {expected} is not a multiple of 32")
    return identity, expected


_REDUCTIONS: dict[str, Callable[[Iterable[bool]], int]] = {"popc": sum, "and": all, "or": any}


def _reducing_barrier(d: Decoder, aligned: bool):
    operation = d.require(*_REDUCTIONS)
    type_ = d.type()
    write, number = d.destination(0, type_), d.source(1, TYPES["u32"])
    threads = d.source(2, TYPES["u32"]) if len(d.operands) > 3 else None
    predicate = d.source(len(d.operands) - 1, TYPES["pred"])

    def execute(warp: Warp):
        if aligned:
            require_converged(warp, d.item.opcode)
        identity, expected = _values(warp, number, threads)
        cta = warp.cta
        barrier = cta.arrive_named(identity, _participants(warp), expected)
        barrier.reduction.append((warp, warp.mask, predicate(warp)[warp.active]))
        wait = Wait("barrier", f"reducing barrier {identity}", retry=False, details={"barrier": identity})
        warp.fragment.wait = wait
        barrier.waiting.append((warp, warp.fragment))
        if cta.settle_named(barrier):
            _publish(barrier, operation, write, type_)
            return None
        return wait

    return execute


def _publish(barrier, operation: str, write, type_) -> None:
    value = _REDUCTIONS[operation](bool(item) for _, _, lanes in barrier.reduction for item in lanes)
    for warp, mask, _ in barrier.reduction:
        saved, warp.mask = warp.mask, mask
        write(warp, np.full(LANES, value, type_.dtype))
        warp.mask = saved
    barrier.reduction.clear()


@instruction("barrier.cluster.arrive")
def cluster_arrive(d: Decoder):
    aligned = d.flag("aligned")
    d.choose("release", "relaxed")

    def execute(warp: Warp) -> None:
        if aligned:
            require_converged(warp, d.item.opcode)
        cluster = warp.cta.cluster
        if (warp.cluster_arrivals[warp.active] > cluster.barrier_phase).any():
            raise SimulationError("undefined", "barrier.cluster.arrive twice without barrier.cluster.wait")
        warp.cluster_arrivals = np.where(warp.active, cluster.barrier_phase + 1, warp.cluster_arrivals)
        cluster.barrier_arrived += _participants(warp)
        cluster.machine.progress += 1
        cluster.settle_barrier()

    return execute


@instruction("barrier.cluster.wait")
def cluster_wait(d: Decoder):
    aligned = d.flag("aligned")
    d.choose("acquire", "relaxed")

    def execute(warp: Warp):
        if aligned:
            require_converged(warp, d.item.opcode)
        cluster = warp.cta.cluster
        awaited = warp.cluster_arrivals[warp.active]
        if (awaited == 0).any():
            raise SimulationError("undefined", "barrier.cluster.wait without barrier.cluster.arrive")
        if (awaited <= cluster.barrier_phase).all():
            return None
        wait = Wait("cluster", f"the cluster barrier, where {cluster.barrier_arrived} threads have arrived", retry=True)
        warp.fragment.wait = wait
        cluster.barrier_waiting.append(warp.fragment)
        return wait

    return execute


# Everything a fence may be said to order, by words of its name.
_FENCES = frozenset(
    ("proxy", "alias", "async", "async::generic", "tensormap::generic", "mbarrier_init")
    + ("global", "shared::cta", "shared::cluster", "sync_restrict::shared::cta", "sync_restrict::shared::cluster")
    + ("sc", "acq_rel", "acquire", "release", "cta", "cluster", "gpu", "sys", "gl")
)


@instruction("membar", "fence")
def fence(d: Decoder):
    """Ordering is free in a sequentially consistent simulator; only proxy fences leave a trace."""
    names = {name for name in d.modifiers if name in _FENCES}
    d.ignore(*names)
    if not any(name.startswith("async") for name in names) or "global" in names:
        # What is tracked is written to shared memory; `.global` says nothing about it.
        return nothing

    def execute(warp: Warp) -> None:
        warp.proxy_fence = warp.cta.machine.tick()

    return execute
