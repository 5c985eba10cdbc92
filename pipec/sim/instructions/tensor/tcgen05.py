"""tcgen05.alloc, ld, st, waits and fences (PTX ISA 9.7.16.7-8, 9.7.16.11)."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.races.clocks import Agent
from ...machine.races.missing import ALLOCATION
from ...machine.threads.cta import Warp
from ...machine.threads.divergence import Outcome, Wait
from ...ptx.types import LANES as LANES_OF_WARP
from ...ptx.types import TYPES
from ...units.tcgen05.footprint import fragment_places
from ...units.tcgen05.memory import LANES, WARP_LANES, split_address, warp_start
from ..decode import AddressReader, Decoder, instruction
from ..memory.loadstore import shared_addresses
from .pending_loads import NOTHING_HELD, registers
from .state import group_ctas, group_of, state_of

# ---- allocation


@instruction("tcgen05.alloc")
def allocate(d: Decoder) -> Execute:
    group = group_of(d)
    d.ignore("sync", "aligned")
    generic = d.choose("shared::cta", "shared") is None
    d.types()
    dst, columns = shared_addresses(d, 0, generic), d.source(1, TYPES["u32"])

    def execute(warp: Warp) -> Outcome:
        cta, state = warp.cta, state_of(warp.cta, group)
        group_ctas(cta, group, meets=True)
        base = state.memory.allocate(int(columns(warp)[0]))
        if base is None:
            state.waiting.append(warp.fragment)
            return warp.park(Wait("tmem", f"{int(columns(warp)[0])} free columns of tensor memory", retry=True))
        state.order.allocated(base, int(columns(warp)[0]))
        state.allocators[base] = partial(warp.located, pc=warp.fragment.pc)
        cta.store(warp, "shared", dst(warp)[:1], np.array([base], np.uint32), 4, warp.watched)
        if warp.watched is not None:
            warp.watched.accesses[warp.fragment.pc, True].what = ALLOCATION
        cta.trace("tmem_alloc", base=base, columns=int(columns(warp)[0]))
        return None

    return execute


@instruction("tcgen05.dealloc")
def deallocate(d: Decoder) -> Execute:
    group = group_of(d)
    d.ignore("sync", "aligned")
    d.types()
    address, columns = d.sources(0, 1, type_=TYPES["u32"])

    def execute(warp: Warp) -> Outcome:
        state = state_of(warp.cta, group)
        if state.outstanding:
            what = f"{state.outstanding} tensor operations in flight"
            if warp.watched is None:
                raise SimulationError("undefined", f"tcgen05.dealloc with {what}")
            # That nobody has waited for them is found below, with the lines of both.
            state.draining.append(warp.fragment)
            return warp.park(Wait("tmem", what, retry=True))
        base, count = int(address(warp)[0]), int(columns(warp)[0])
        if state.memory.was_given_back(base, count):
            _given_back_again(warp, base, count)
            return None
        state.memory.deallocate(base, count)
        state.order.give_back(warp.thread, warp.fragment.pc, base, count)
        # Any of them may fit now; the others wait again.
        for fragment in state.waiting:
            fragment.wait = None
        state.waiting.clear()
        warp.cta.machine.progress += 1
        return None

    return execute


def _given_back_again(warp: Warp, base: int, columns: int) -> None:
    """Harmless unless another CTA of the multiprocessor has allocated these columns since. In a GEMM of cuDNN's frontend 1.32 (`gemm_amax`)
    all warps of the epilogue deallocate."""
    message = f"tcgen05.dealloc of {columns} columns at {base:#x}, which were given back before: they may be another CTA's by now"
    error = SimulationError("undefined", message)
    warp.cta.machine.findings.add("exit", warp.fragment.pc, warp.located(error, warp.fragment.pc))


@instruction("tcgen05.relinquish_alloc_permit")
def relinquish(d: Decoder) -> Execute:
    group = group_of(d)
    d.ignore("sync", "aligned")

    def execute(warp: Warp) -> None:
        state_of(warp.cta, group).memory.relinquish()

    return execute


@instruction("tcgen05.fence::before_thread_sync")
def fence_before(d: Decoder) -> Execute:
    return lambda warp: warp.thread.fence_before()


@instruction("tcgen05.fence::after_thread_sync")
def fence_after(d: Decoder) -> Execute:
    return lambda warp: warp.thread.fence_after()


@instruction("tcgen05.wait::ld", "tcgen05.wait::st")
def wait(d: Decoder) -> Execute:
    d.ignore("sync", "aligned")
    kind: Agent = "ld" if "::ld" in d.item.opcode else "st"

    def execute(warp: Warp) -> None:
        # Only the executing warp's, whatever the addresses of its loads or stores.
        warp.thread.found_over((kind,), warp.thread.count(kind))
        if kind == "ld":
            warp.loading.clear()
            warp.held = NOTHING_HELD

    return execute


# ---- registers <-> tensor memory


# Registers of a thread for each repetition.
_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def _shape(d: Decoder) -> tuple[str, int]:
    shape = d.require(*_SHAPES)
    return shape, int(d.require(*(f"x{1 << power}" for power in range(8)))[1:])


def _check_registers(d: Decoder, given: int, shape: str, count: int) -> None:
    if given != _SHAPES[shape] * count:
        d.fail(f"has {given} registers, .{shape}.x{count} takes {_SHAPES[shape] * count}", "malformed")


@instruction("tcgen05.ld")
def load(d: Decoder) -> Execute:
    d.ignore("sync", "aligned")
    shape, count = _shape(d)
    pack = d.flag("pack::16b")
    d.types()
    items = d.vector(0)
    _check_registers(d, len(items), shape, count)
    write = d.words_into(items)
    address = d.address(1)
    half = d.integer(2) if shape == "16x32bx2" else 0
    loading = tuple(registers(d.operand(0)))

    def execute(warp: Warp) -> None:
        place = _own_quarter(warp, shape, count, _common_address(warp, address, "tcgen05.ld"))
        state = state_of(warp.cta)
        state.order.load(warp.thread, warp.fragment.pc, fragment_places(shape, count, half, pack, place))
        values = state.memory.load(shape, count, place, warp.index, pack, half)
        write(warp, np.ascontiguousarray(values.T))
        warp.loading.update(dict.fromkeys(loading, (d.item.line, warp.thread.count("ld"))))
        warp.held = warp.cta.image.used_early

    return execute


@instruction("tcgen05.st")
def store(d: Decoder) -> Execute:
    d.ignore("sync", "aligned")
    shape, count = _shape(d)
    unpack = d.flag("unpack::16b")
    d.types()
    address = d.address(0)
    half = d.integer(1) if shape == "16x32bx2" else 0
    items = d.vector(2 if shape == "16x32bx2" else 1)
    _check_registers(d, len(items), shape, count)
    read = d.words_of(items)

    def execute(warp: Warp) -> None:
        place = _own_quarter(warp, shape, count, _common_address(warp, address, "tcgen05.st"))
        values = read(warp).T
        state = state_of(warp.cta)
        state.order.store(warp.thread, warp.fragment.pc, fragment_places(shape, count, half, unpack, place))
        state.memory.store(shape, count, place, warp.index, values, unpack, half)
        warp.cta.machine.progress += 1

    return execute


def _common_address(warp: Warp, address: AddressReader, what: str) -> int:
    # The address is uniform for the warp: PTX leaves differing lanes undefined.
    places = address(warp)[warp.active]
    if (places != places[0]).any():
        raise SimulationError("undefined", f"{what} with different addresses in the lanes of warp {warp.index}")
    if warp.fragment.count != LANES_OF_WARP:
        raise SimulationError("undefined", f"{what} by a warp of {warp.fragment.count} lanes")
    return int(places[0]) & 0xFFFFFFFF


def _own_quarter(warp: Warp, shape: str, count: int, address: int) -> int:
    """The address with the lane of the warp's own quarter where it names none. UnitError where the warp may not start there."""
    lane, _ = split_address(address)
    quarter = warp.index % 4
    if lane < WARP_LANES and quarter and warp.cta.machine.practised("quarter-relative lanes"):
        address += quarter * WARP_LANES << 16
    elif LANES <= lane < 2 * LANES and warp.cta.rank % 2 and warp.cta.machine.practised("lanes of the pair"):
        address -= LANES << 16
    warp_start(shape, count, address, warp.index)
    return address


@instruction("tcgen05.ld.red")
def load_and_reduce(d: Decoder) -> Execute:
    d.fail("no target that is simulated has it")
