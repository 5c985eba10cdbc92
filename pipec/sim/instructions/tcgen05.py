"""tcgen05.*: tensor memory and the tensor core (PTX ISA 9.7.16).

mma, cp, shift and commit of a CTA pair go through one pipe in issue order, which is what production libraries rely on.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from ..decode import Decoder, instruction
from ..errors import SimulationError
from ..execution import Wait, Warp
from ..memory import OFFSET_MASK
from ..tree import Address, Vector
from ..types import LANES, TYPES
from ..units.tcgen05.copy import copy
from ..units.tcgen05.memory import TensorMemory
from ..units.tcgen05.mma import mma
from .asynchronous import AsyncView
from .bulk import destinations
from .control import nothing, require_converged
from .loadstore import shared_addresses

_MMA_LATENCY, _MMA_SLOTS, _COMMIT_LATENCY = 64, 32, 8
_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_SCALE_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4, "block32": None}


@dataclass(eq=False)
class TensorState:
    """Tensor memory of a CTA and who uses it how."""

    memory: TensorMemory = field(default_factory=TensorMemory)
    group: int = 0
    issuers: set[tuple[int, int]] = field(default_factory=set)
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
        cta.tensor = TensorState()
    if group:
        if cta.tensor.group not in (0, group):
            raise SimulationError(
                "undefined",
                f"cta_group::{group} in a kernel that uses cta_group::{cta.tensor.group}: all tcgen05 instructions must agree",
            )
        cta.tensor.group = group
    return cta.tensor


def _group(d: Decoder) -> int:
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


# ---- allocation


@instruction("tcgen05.alloc")
def allocate(d: Decoder):
    group = _group(d)
    d.ignore("sync", "aligned")
    generic = d.choose("shared::cta", "shared") is None
    d.types()
    dst, columns = shared_addresses(d, 0, generic), d.source(1, TYPES["u32"])

    def execute(warp: Warp):
        require_converged(warp, "tcgen05.alloc")
        cta, state = warp.cta, state_of(warp.cta, group)
        group_ctas(cta, group)
        base = state.memory.allocate(int(columns(warp)[0]))
        if base is None:
            wait = Wait("tmem", f"{int(columns(warp)[0])} free columns of tensor memory", retry=True)
            warp.fragment.wait = wait
            state.waiting.append(warp.fragment)
            return wait
        cta.store(warp, "shared", dst(warp)[:1], np.array([base], np.uint32), 4)
        cta.cluster.trace("tmem_alloc", cta, base=base, columns=int(columns(warp)[0]))
        return None

    return execute


@instruction("tcgen05.dealloc")
def deallocate(d: Decoder):
    group = _group(d)
    d.ignore("sync", "aligned")
    d.types()
    address, columns = d.sources(0, 1, type_=TYPES["u32"])

    def execute(warp: Warp) -> None:
        require_converged(warp, "tcgen05.dealloc")
        state = state_of(warp.cta, group)
        if state.outstanding:
            raise SimulationError("undefined", f"tcgen05.dealloc while {state.outstanding} tensor operations are in flight")
        state.memory.deallocate(int(address(warp)[0]), int(columns(warp)[0]))
        for fragment in state.waiting:
            fragment.wait = None
        state.waiting.clear()
        warp.cta.machine.progress += 1

    return execute


@instruction("tcgen05.relinquish_alloc_permit")
def relinquish(d: Decoder):
    group = _group(d)
    d.ignore("sync", "aligned")

    def execute(warp: Warp) -> None:
        require_converged(warp, "tcgen05.relinquish_alloc_permit")
        state_of(warp.cta, group).memory.relinquish()

    return execute


@instruction("tcgen05.fence", "tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def fence(d: Decoder):
    return nothing


@instruction("tcgen05.wait", "tcgen05.wait::ld", "tcgen05.wait::st")
def wait(d: Decoder):
    d.ignore("sync", "aligned")

    def execute(warp: Warp) -> None:
        require_converged(warp, "tcgen05.wait")

    return execute


# ---- the pipe


def issue(warp: Warp, lane: int, ctas: list, action, slots: int) -> None:
    """Puts an operation into the pair's tensor pipe."""
    machine, pair = warp.cta.machine, ctas[0].rank
    states = [state_of(cta) for cta in ctas]
    states[0 if len(ctas) == 1 else warp.cta.rank & 1].issuers.add((warp.index, lane))
    for state in states:
        state.outstanding += 1

    def run() -> None:
        for cta in ctas:
            if cta.exited:
                raise SimulationError("undefined", f"a tensor operation works on {cta.name}, which has exited")
        action()
        for state in states:
            state.outstanding -= 1

    machine.later(warp, _MMA_LATENCY, run, ("tensor", pair), busy=slots)


@instruction("tcgen05.mma")
def multiply(d: Decoder):
    stationary, sparse = d.flag("ws"), d.flag("sp")
    if sparse:
        d.fail("sparse tcgen05.mma is not simulated")
    group = _group(d)
    kind = d.require(*(f"kind::{name}" for name in _KINDS)).removeprefix("kind::")
    for name in [name for name in d.modifiers if name.startswith("collector::")]:
        d.flag(name)
    scaled = d.flag("block_scale")
    vector = d.choose(*_SCALE_VECTORS)
    if d.flag("ashift"):
        d.fail(".ashift is not simulated")
    address, a_operand = d.address(0), d.operand(1)
    in_tmem = isinstance(a_operand, Address)
    a = d.address_of(a_operand) if in_tmem else d.source(1, TYPES["b64"])
    b, idesc = d.source(2, TYPES["b64"]), d.source(3, TYPES["b32"])
    rest = _MmaTail(d, scaled, stationary)
    scale_vector = _scale_vector(kind, vector)

    def execute(warp: Warp) -> None:
        cta = warp.cta
        state_of(cta, group)
        ctas = group_ctas(cta, group)
        for lane in warp.lanes():
            views = [AsyncView(member, warp, "tcgen05.mma") for member in ctas]
            memories = [state_of(member, group).memory for member in ctas]
            call = functools.partial(
                mma,
                kind,
                int(idesc(warp)[lane]),
                _unsigned(a(warp)[lane], in_tmem),
                int(b(warp)[lane]),
                memories,
                views,
                int(address(warp)[lane]) & 0xFFFFFFFF,
                cta_group=group,
                a_in_tmem=in_tmem,
                scale_vector=scale_vector,
                weight_stationary=stationary,
                numerics=cta.machine.options.numerics,
                **rest.values(warp, lane),
            )
            d_address = int(address(warp)[lane])
            cta.cluster.trace("mma_issued", cta, warp=warp.index, d=d_address, group=group)
            issue(warp, lane, ctas, functools.partial(_traced, call, cta, d_address), _MMA_SLOTS)

    return execute


def _unsigned(value, in_tmem: bool) -> int:
    return int(value) & (0xFFFFFFFF if in_tmem else (1 << 64) - 1)


def _traced(call, cta, d_address: int) -> None:
    call()
    cta.cluster.trace("mma_completed", cta, d=d_address)


def _scale_vector(kind: str, name: str | None) -> int | None:
    if name != "block32":
        return _SCALE_VECTORS[name] if name else None
    return 1 if kind == "mxf8f6f4" else 2


class _MmaTail:
    """Operands after the instruction descriptor, which depend on the form."""

    def __init__(self, d: Decoder, scaled: bool, stationary: bool) -> None:
        tail = list(d.operands[4:])
        self.scales = None
        if scaled:
            self.scales = [d.address_of(tail.pop(0)), d.address_of(tail.pop(0))]
        self.disabled = None
        if tail and isinstance(tail[0], Vector):
            self.disabled = [d.source(item, TYPES["u32"]) for item in tail.pop(0).items]
        self.enable = d.source(tail.pop(0), TYPES["pred"])
        self.shift = 0
        if tail and stationary:
            d.fail("the zero-column mask is not simulated")
        if tail:
            self.shift = tail.pop(0).value

    def values(self, warp: Warp, lane: int) -> dict:
        found: dict[str, object] = {"accumulate": bool(self.enable(warp)[lane]), "scale_input_d": self.shift}
        if self.scales:
            found["scale_a_address"], found["scale_b_address"] = (int(read(warp)[lane]) & 0xFFFFFFFF for read in self.scales)
        if self.disabled:
            found["disable_output_lane"] = [int(read(warp)[lane]) for read in self.disabled]
        return found


@instruction("tcgen05.cp")
def copy_to_tensor_memory(d: Decoder):
    group = _group(d)
    shape = d.require("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
    multicast = d.choose("warpx2::02_13", "warpx2::01_23", "warpx4")
    d.flag("b8x16")
    packed = d.choose("b6x16_p32", "b4x16_p64")
    address, descriptor = d.address(0), d.source(1, TYPES["b64"])

    def execute(warp: Warp) -> None:
        state_of(warp.cta, group)
        ctas = group_ctas(warp.cta, group)
        for lane in warp.lanes():
            where, what = int(address(warp)[lane]) & 0xFFFFFFFF, int(descriptor(warp)[lane])
            views = [AsyncView(member, warp, "tcgen05.cp") for member in ctas]

            def run(where=where, what=what, views=views) -> None:
                for member, view in zip(ctas, views, strict=True):
                    copy(shape, multicast, where, what, view, state_of(member, group).memory, packed)

            issue(warp, lane, ctas, run, _MMA_SLOTS // 4)

    return execute


@instruction("tcgen05.shift")
def shift(d: Decoder):
    d.fail("tcgen05.shift is not simulated: its direction is not documented in text")


@instruction("tcgen05.commit")
def commit(d: Decoder):
    group = _group(d)
    d.require("mbarrier::arrive::one")
    cluster, multicast = d.flag("shared::cluster"), d.flag("multicast::cluster")
    d.types()
    barrier = shared_addresses(d, 0, not cluster)
    mask = d.source(1, TYPES["u16"]) if multicast else None

    def execute(warp: Warp) -> None:
        cta, state = warp.cta, state_of(warp.cta, group)
        pair = group_ctas(cta, group)[0].rank
        for lane in warp.lanes():
            address = int(barrier(warp)[lane])
            chosen = int(mask(warp)[lane]) if mask else None
            targets = destinations(warp, address, address, chosen, pair=False)
            run = functools.partial(_arrive_all, cta, targets, address)
            cta.cluster.trace("commit_issued", cta, warp=warp.index, barrier=address & OFFSET_MASK)
            channel = ("tensor", pair) if (warp.index, lane) in state.issuers else None
            cta.machine.later(warp, _COMMIT_LATENCY, run, channel)

    return execute


def _arrive_all(cta, targets: list, address: int) -> None:
    for target in targets:
        owner = target.cta
        if owner.exited:
            raise SimulationError("undefined", f"tcgen05.commit arrives on a barrier of {owner.name}, which has exited")
        barrier = owner.mbarrier(address & OFFSET_MASK, "tcgen05.commit")
        owner.cluster.trace("mma_committed", owner, barrier=barrier.offset, issuer=cta.rank)
        owner.after_barrier_operation(barrier, barrier.state.arrive(1))


# ---- registers <-> tensor memory


_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2")


def _shape(d: Decoder) -> tuple[str, int]:
    shape = d.require(*_SHAPES)
    return shape, int(d.require(*(f"x{1 << power}" for power in range(8)))[1:])


@instruction("tcgen05.ld")
def load(d: Decoder):
    d.ignore("sync", "aligned")
    shape, count = _shape(d)
    pack = d.flag("pack::16b")
    d.types()
    writers = [d.destination(item, TYPES["b32"]) for item in d.vector(0)]
    address = d.address(1)
    half = d.integer(2) if shape == "16x32bx2" else 0

    def execute(warp: Warp) -> None:
        place = _common_address(warp, address, "tcgen05.ld")
        values = state_of(warp.cta).memory.load(shape, count, place, warp.index, pack, half)
        columns = np.ascontiguousarray(values.T)
        for write, lanes in zip(writers, columns, strict=True):
            write(warp, lanes)

    return execute


@instruction("tcgen05.st")
def store(d: Decoder):
    d.ignore("sync", "aligned")
    shape, count = _shape(d)
    unpack = d.flag("unpack::16b")
    d.types()
    address = d.address(0)
    half = d.integer(1) if shape == "16x32bx2" else 0
    readers = [d.source(item, TYPES["b32"]) for item in d.vector(2 if shape == "16x32bx2" else 1)]

    def execute(warp: Warp) -> None:
        place = _common_address(warp, address, "tcgen05.st")
        values = np.stack([read(warp) for read in readers], axis=1)
        state_of(warp.cta).memory.store(shape, count, place, warp.index, values, unpack, half)
        warp.cta.machine.progress += 1

    return execute


def _common_address(warp: Warp, address, what: str) -> int:
    require_converged(warp, what)
    places = address(warp)[warp.active]
    if (places != places[0]).any():
        raise SimulationError("undefined", f"{what} with different addresses in the lanes of warp {warp.index}")
    if warp.fragment.count != LANES:
        raise SimulationError("undefined", f"{what} by a warp of {warp.fragment.count} lanes")
    return int(places[0]) & 0xFFFFFFFF
