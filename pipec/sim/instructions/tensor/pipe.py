"""tcgen05.mma, cp and commit (PTX ISA 9.7.16.9-12).

They go through one pipe per CTA pair in issue order, on which production libraries rely.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from pipec.record import record

from ...errors import SimulationError
from ...machine.memory.spaces import OFFSET_MASK
from ...machine.memory.tensor import TensorState
from ...machine.program import Execute
from ...machine.races.clocks import Knowledge, join, learned
from ...machine.races.ledger import Access
from ...machine.threads.cta import Cta, Warp
from ...machine.threads.leaving import is_shown
from ...ptx.tree import Address, Vector
from ...ptx.types import TYPES
from ...units.tcgen05.copy import copy
from ...units.tcgen05.descriptors import KINDS, MmaKind
from ...units.tcgen05.footprint import copy_footprint, mma_footprint, shift_footprint
from ...units.tcgen05.memory import TensorMemory
from ...units.tcgen05.mma import MmaOperands, mma
from ..asynchronous.operations import AsyncView
from ..asynchronous.transfers import Destination, destinations
from ..decode import Decoder, instruction
from ..memory.loadstore import shared_addresses
from ..widths import Reader
from .state import COMMIT_LATENCY, MMA_SLOTS, group_ctas, group_of, issue, state_of

_ALL_BITS = (1 << 64) - 1
_KINDS: dict[str, MmaKind] = {f"kind::{name}": name for name in KINDS}
_SCALE_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block16": 4, "block32": None}


@instruction("tcgen05.mma")
def multiply(d: Decoder) -> Execute:
    stationary, sparse = d.flag("ws"), d.flag("sp")
    group = group_of(d)
    kind = _KINDS[d.require(*_KINDS)]
    collector = _Collector.of(d)
    scaled = d.flag("block_scale")
    vector = d.choose(*_SCALE_VECTORS)
    shifted = d.flag("ashift")
    if shifted and collector is not None and collector.usage in ("fill", "use"):
        d.fail(f".ashift goes with no .collector::a::{collector.usage}", "malformed")
    address, a_operand = d.address(0), d.operand(1)
    in_tmem = isinstance(a_operand, Address)
    a = d.address_of(a_operand) if isinstance(a_operand, Address) else d.source(1, TYPES["b64"])
    metadata = d.address(3) if sparse else None
    b, idesc = d.source(2, TYPES["b64"]), d.source(3 + sparse, TYPES["b32"])
    rest = _MmaTail(d, 4 + sparse, scaled, stationary)
    scale_vector = _scale_vector(kind, vector)

    def execute(warp: Warp) -> None:
        cta = warp.cta
        state_of(cta, group)
        ctas = group_ctas(cta, group)
        added: set[tuple[int, ...]] = set()
        for lane in warp.lanes():
            views = [AsyncView(member, "tcgen05.mma") for member in ctas]
            memories = [state_of(member, group).memory for member in ctas]
            first = int(a(warp)[lane])
            a_place = first & 0xFFFFFFFF if in_tmem else _matrix(warp, first)
            words = int(idesc(warp)[lane]), a_place, _matrix(warp, int(b(warp)[lane]))
            d_address = int(address(warp)[lane]) & 0xFFFFFFFF
            values = rest.values(warp, lane)
            metadata_address = int(metadata(warp)[lane]) & 0xFFFFFFFF if metadata else None
            if values.accumulate and (d_address, *words) in added:
                _complain_of_lanes(warp)
            added.add((d_address, *words))
            if collector is not None:
                collector.check(state_of(ctas[0]), words[1] if collector.buffer == "a" else words[2])
            # The places read and written are computed at issue, for race detection; the arithmetic is done when the pipe executes the
            # instruction.
            operands = MmaOperands(
                kind,
                *words,
                d_address,
                values.accumulate,
                group,
                in_tmem,
                values.scale_addresses,
                scale_vector,
                metadata_address,
                stationary,
                values.zero_columns,
            )
            footprint = mma_footprint(operands)
            call = functools.partial(
                mma,
                operands,
                memories,
                views,
                a_shifted=shifted,
                disable_output_lane=values.disable_output_lane,
                scale_input_d=values.scale_input_d,
                # Bit-accurate by default; "fast" is a matrix product in float64.
                numerics=cta.machine.options.numerics,
            )
            cta.trace("mma_issued", warp=warp.index, d=d_address, group=group)
            issue(warp, ctas, functools.partial(_traced, call, cta, d_address), MMA_SLOTS, footprint, "tcgen05.mma")

    return execute


@record
class _Collector:
    """.collector::BUFFER::USAGE: the buffer may be read only while it was filled from the same operand."""

    buffer: str
    usage: str

    @staticmethod
    def of(d: Decoder) -> _Collector | None:
        name = next((name for name in d.modifiers if name.startswith("collector::")), None)
        if name is None:
            return None
        d.flag(name)
        _, buffer, usage = name.split("::")
        if usage not in ("fill", "use", "lastuse", "discard"):
            d.fail(f"modifier .{name} is not known to the simulator")
        return _Collector(buffer, usage)

    def check(self, state: TensorState, operand: int) -> None:
        held = state.collectors.get(self.buffer)
        if self.usage in ("use", "lastuse") and held != operand:
            content = "nothing" if held is None else f"0x{held:x}"
            raise SimulationError(
                "undefined",
                f"collector buffer {self.buffer} is to hold operand 0x{operand:x}; what filled it last is {content}",
            )
        if self.usage == "fill":
            state.collectors[self.buffer] = operand
        elif self.usage == "lastuse":
            del state.collectors[self.buffer]


def _complain_of_lanes(warp: Warp) -> None:
    """One thread should issue an MMA; each further lane adds the same product again."""
    message = "several lanes of a warp issue the same tcgen05.mma, and each of them adds the product: one thread is to be elected"
    warp.cta.machine.findings.add("steps", ("lanes", warp.fragment.pc), warp.here(SimulationError("layout", message)))


def _matrix(warp: Warp, descriptor: int) -> int:
    """The descriptor of a matrix in shared memory, with its constant (`units.tcgen05.descriptors`)."""
    if not descriptor >> 46 & 7 and warp.cta.machine.practised("descriptor without its constant"):
        return descriptor & _ALL_BITS | 1 << 46
    return descriptor & _ALL_BITS


def _traced(call: Callable[[], object], cta: Cta, d_address: int) -> None:
    call()
    cta.trace("mma_completed", d=d_address)


def _scale_vector(kind: MmaKind, name: str | None) -> int | None:
    if name != "block32":
        return _SCALE_VECTORS[name] if name else None
    return 1 if kind == "mxf8f6f4" else 2


@record
class _TailValues:
    accumulate: bool
    scale_input_d: int
    scale_addresses: tuple[int, int] | None
    disable_output_lane: list[int] | None
    zero_columns: int | None


class _MmaTail:
    """Operands after the instruction descriptor, which depend on the form."""

    def __init__(self, d: Decoder, first: int, scaled: bool, stationary: bool) -> None:
        tail = list(range(first, len(d.operands)))
        self.scales = [d.address(tail.pop(0)), d.address(tail.pop(0))] if scaled and len(tail) > 1 else []
        if scaled and not self.scales:
            d.fail("needs two addresses of scales", "malformed")
        self.disabled: list[Reader] = []
        if tail and isinstance(d.operand(tail[0]), Vector):
            self.disabled = [d.source(item, TYPES["u32"]) for item in d.vector(tail.pop(0))]
        if not tail:
            d.fail("needs enable-input-d", "malformed")
        self.enable = d.source(tail.pop(0), TYPES["pred"])
        self.mask = d.source(tail.pop(0), TYPES["b64"]) if tail and stationary else None
        self.shift = d.integer(tail.pop(0)) if tail else 0

    def values(self, warp: Warp, lane: int) -> _TailValues:
        """The operand values of one lane's instruction."""
        of_a, of_b = (_scale_address(warp, int(read(warp)[lane])) for read in self.scales) if self.scales else (None, None)
        scales = None if of_a is None or of_b is None else (of_a, of_b)
        disabled = [int(read(warp)[lane]) for read in self.disabled] or None
        mask = int(self.mask(warp)[lane]) if self.mask else None
        return _TailValues(bool(self.enable(warp)[lane]), self.shift, scales, disabled, mask)


def _scale_address(warp: Warp, address: int) -> int:
    if address >> 30 & 3 and warp.cta.machine.practised("scale id in the address"):
        return address & 0x3FFFFFFF
    return address & 0xFFFFFFFF


@instruction("tcgen05.cp")
def copy_to_tensor_memory(d: Decoder) -> Execute:
    group = group_of(d)
    shape = d.require("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
    multicast = d.choose("warpx2::02_13", "warpx2::01_23", "warpx4")
    d.flag("b8x16")
    packed = d.choose("b6x16_p32", "b4x16_p64")
    address, descriptor = d.address(0), d.source(1, TYPES["b64"])

    def execute(warp: Warp) -> None:
        state_of(warp.cta, group)
        ctas = group_ctas(warp.cta, group)
        for lane in warp.lanes():
            where, what = int(address(warp)[lane]) & 0xFFFFFFFF, _matrix(warp, int(descriptor(warp)[lane]))
            views = [AsyncView(member, "tcgen05.cp") for member in ctas]

            memories = [state_of(member, group).memory for member in ctas]
            run = functools.partial(_copy, shape, multicast, where, what, list(zip(views, memories, strict=True)), packed)
            issue(warp, ctas, run, MMA_SLOTS // 4, copy_footprint(shape, multicast, where, what), "tcgen05.cp")

    return execute


def _copy(
    shape: str, multicast: str | None, where: int, what: int, ends: list[tuple[AsyncView, TensorMemory]], packed: str | None
) -> None:
    """From the shared memory of each CTA to its tensor memory."""
    for view, memory in ends:
        copy(shape, multicast, where, what, view, memory, packed)


@instruction("tcgen05.shift")
def shift(d: Decoder) -> Execute:
    group = group_of(d)
    d.require("down")
    address = d.address(0)

    def execute(warp: Warp) -> None:
        state_of(warp.cta, group)
        ctas = group_ctas(warp.cta, group)
        for lane in warp.lanes():
            where = int(address(warp)[lane]) & 0xFFFFFFFF
            run = functools.partial(_shift, [state_of(member, group).memory for member in ctas], where)
            issue(warp, ctas, run, MMA_SLOTS // 4, shift_footprint(where), "tcgen05.shift")

    return execute


def _shift(memories: list[TensorMemory], where: int) -> None:
    for memory in memories:
        memory.shift(where)


@instruction("tcgen05.commit")
def commit(d: Decoder) -> Execute:
    group = group_of(d)
    d.require("mbarrier::arrive::one")
    cluster, multicast = d.flag("shared::cluster"), d.flag("multicast::cluster")
    d.types()
    barrier = shared_addresses(d, 0, not cluster)
    mask = d.source(1, TYPES["u16"]) if multicast else None

    def execute(warp: Warp) -> None:
        cta = warp.cta
        state_of(cta, group)
        ctas = group_ctas(cta, group)
        for lane in warp.lanes():
            address = int(barrier(warp)[lane])
            chosen = int(mask(warp)[lane]) if mask else None
            targets = destinations(warp, address, address, chosen, pair=False)
            told = _told(warp)
            run = functools.partial(_arrive_all, cta, targets, address, told, _arrival(warp, told))
            cta.trace("commit_issued", warp=warp.index, barrier=address & OFFSET_MASK)
            for target in targets:
                target.cta.check_signalled(warp, address & OFFSET_MASK, "tcgen05.commit")
                state_of(target.cta).order.handed_over(address & OFFSET_MASK)
            # In the pipe even when the thread has issued nothing else: its commits arrive in order.
            warp.later(COMMIT_LATENCY, run, ("tensor", ctas[0].rank))

    return execute


def _told(warp: Warp) -> Knowledge:
    """What a commit releases: the completion of everything that the warp has issued to the pipe. It implies
    tcgen05.fence::before_thread_sync."""
    thread = warp.thread
    pipe, count = thread.agent("pipe"), thread.count("pipe")
    # Its arrival is an operation of its own: another commit after the same MMAs may arrive before.
    ((commits, number),) = thread.issue("commit")
    told = learned(learned(thread.publish(), pipe, count), commits, number)
    return told._replace(tensor=join(told.tensor, told.order))


def _arrival(warp: Warp, told: Knowledge) -> Access:
    commits = warp.thread.agent("commit")
    ends = ((commits, told.order[commits]),)
    return Access("tcgen05.commit", warp.thread, warp.fragment.pc, warp.thread.time, True, ends=ends, behind=told)


def _too_late(cta: Cta, arrival: Access) -> None:
    """A commit whose mbarrier is no longer: its CTA has invalidated it, or has ended, without a wait."""
    image, pc = cta.image, arrival.pc
    item = image.item(pc)
    error = SimulationError("undefined", "tcgen05.commit arrives on an mbarrier that its CTA has given up without waiting for it")
    cta.machine.findings.add("exit", pc, error.located(item.line if item else 0, image.source(item)))


def _arrive_all(cta: Cta, targets: list[Destination], address: int, told: Knowledge, arrival: Access) -> None:
    for target in targets:
        owner = target.cta
        if owner is cta and (owner.exited or address & OFFSET_MASK not in owner.mbarriers):
            _too_late(cta, arrival)
            continue
        if owner.exited and is_shown(arrival, [warp.thread.knowledge.order for warp in owner.warps]):
            _too_late(cta, arrival)
            continue
        if owner.exited:
            raise SimulationError("undefined", f"tcgen05.commit arrives on a barrier of {owner.name}, which has exited")
        barrier = owner.mbarrier(address & OFFSET_MASK, "tcgen05.commit")
        owner.trace("mma_committed", barrier=barrier.offset, issuer=cta.rank)
        barrier.arrived(told, owner is cta, arrival.thread.began)
        if owner is not cta:
            barrier.remote[arrival.thread.number] = arrival
        before = barrier.state.counters
        flipped = barrier.state.arrive(1)
        for actor, time in arrival.ends or ():
            barrier.counts.arrived(actor, time, before, barrier.state)
        owner.after_barrier_operation(barrier, flipped)
