"""wgmma.*: Hopper's warpgroup MMA (PTX ISA 9.7.15).

The four warps of a warpgroup issue one instruction together; it reads and writes their registers when it completes. Until a wait_group
covers its completion, no other instruction may touch them (9.7.15.7.1): one that does is a race.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import numpy as np

from pipec.record import mutable, record

from ...errors import SimulationError
from ...machine.program import Execute
from ...machine.races.ledger import Access
from ...machine.threads.cta import Meeting, Warp
from ...machine.threads.divergence import Outcome
from ...machine.threads.groups import Operation
from ...ptx.tree import Operand, Register, Vector
from ...ptx.types import LANES, TYPES, LaneValues
from ...units.limits import WARPGROUP_WARPS
from ...units.matrix.wgmma import BITS, Instruction, gather_d, product, product_of, scatter_d, shared_operands
from ..asynchronous.operations import AsyncView, commit_groups, finished, groups_of_lanes, wait_for_groups
from ..decode import Decoder, instruction
from ..widths import Reader
from .held_registers import land, take_off
from .register_fences import RegisterUse, check_fence, fenced

_LATENCY, _SLOTS = 64, 32
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")


@instruction("wgmma.fence")
def fence(d: Decoder) -> Execute:
    d.ignore("sync", "aligned")
    return fenced


@instruction("wgmma.commit_group")
def commit(d: Decoder) -> Execute:
    d.ignore("sync", "aligned")
    return commit_groups("wgmma")


@instruction("wgmma.wait_group")
def wait(d: Decoder) -> Execute:
    d.ignore("sync", "aligned")
    block = wait_for_groups("wgmma", d.count(0), False)

    def execute(warp: Warp) -> Outcome:
        waiting = block(warp)
        if waiting is None:
            land(warp)
        return waiting

    return execute


@mutable(eq=False, caches=True)
class _Sum:
    """The accumulator of a warpgroup that a wgmma has computed: bit patterns [64, N]. The next one adds to it in this form, since
    scattering it to registers and gathering it again takes longer than the product."""

    made_by: Instruction
    patterns: np.ndarray

    def of_warp(self, number: int) -> LaneValues:
        return self.registers[:, LANES * number : LANES * (number + 1)]

    @cached_property
    def registers(self) -> LaneValues:
        """uint32 [registers, 128 threads]"""
        return np.ascontiguousarray(scatter_d(self.made_by, self.patterns).T)


def _sum_of(members: Sequence[Warp], slots: tuple[int, ...], what: Instruction) -> np.ndarray:
    """The old accumulator: bit patterns [64, N]."""
    held = [member.in_flight[slots[0]] for member in members]
    last = held[0].result
    together = isinstance(last, _Sum) and (last.made_by.n, last.made_by.d_format) == (what.n, what.d_format)
    if together and all(one.result is last and one.number == number and one.slots == slots for number, one in enumerate(held)):
        return cast(_Sum, last).patterns
    return gather_d(what, _registers(members, slots))


def _computed(members: Sequence[Warp], slots: tuple[int, ...], result: _Sum) -> None:
    """Sets the accumulators to these values."""
    for number, member in enumerate(members):
        held = member.in_flight[slots[0]]
        if held.slots == slots:
            held.result, held.number = result, number
            continue
        for slot, value in zip(slots, result.of_warp(number), strict=True):
            # Registers that several instructions use are kept separately.
            (row,) = member.in_flight[slot].rows
            row[...] = value


@record
class _Operands:
    """Register slots and readers of one static instruction."""

    shape: tuple[int, int]
    formats: tuple[str, str, str]
    saturate: bool
    d: tuple[int, ...]
    a: tuple[int, ...] | None
    a_descriptor: Reader | None
    b_descriptor: Reader
    scale_d: Reader
    flags: tuple[int, ...]
    metadata: tuple[int, ...]
    selector: int

    def instruction(self) -> Instruction:
        negate_a, negate_b, a_major, b_major = self.flags
        n, _ = self.shape
        d, a, b = self.formats
        return Instruction(
            n=n,
            a_format=a,
            b_format=b,
            d_format=d,
            negate_a=negate_a < 0,
            negate_b=negate_b < 0,
            a_mn_major=bool(a_major),
            b_mn_major=bool(b_major),
            saturate=self.saturate,
            sparse=bool(self.metadata),
        )


def _slots(d: Decoder, operand: Operand) -> tuple[int, ...]:
    if not isinstance(operand, Vector):
        d.fail("has an operand of a form that is not supported here", "malformed")
    registers = [item for item in operand.items if isinstance(item, Register)]
    if len(registers) != len(operand.items):
        d.fail("register operands must be registers", "malformed")
    return tuple(register.index for register in registers)


def _decode(d: Decoder) -> _Operands:
    d.ignore("sync", "aligned")
    saturate = d.flag("satfinite")
    shape = next((found for found in map(_SHAPE.fullmatch, d.modifiers) if found), None)
    if shape is None:
        d.fail("has no known shape", "unsupported")
    d.flag(shape[0])
    formats = _formats(d)
    a = d.operand(1)
    # The sparse form has the metadata and their selector before scale-d.
    sparse = 2 if d.flag("sp") else 0
    metadata = _slots(d, Vector((d.operand(3),))) if sparse else ()
    numbers = [d.integer(index) for index in range(4 + sparse, len(d.operands))]
    signs = [number - (1 << 32) if number > 1 << 31 else number for number in numbers[:2]] or [1, 1]
    majors = numbers[2:]
    if isinstance(a, Vector) and len(majors) == 1:
        majors = [0, *majors]
    in_registers = isinstance(a, Vector)
    n, accumulator, left = int(shape[1]), _slots(d, d.operand(0)), _slots(d, a) if in_registers else None
    # A thread holds 1/128 of 64 rows, in 32-bit registers.
    for given, wanted in ((accumulator, n // 4 if formats[0] == "f16" else n // 2), (left, 4)):
        if given is not None and len(given) != wanted:
            d.fail(f"has {len(given)} registers where it takes {wanted}", "malformed")
    return _Operands(
        (n, int(shape[2])),
        formats,
        saturate,
        accumulator,
        left,
        None if in_registers else d.source(1, TYPES["b64"]),
        d.source(2, TYPES["b64"]),
        d.source(3 + sparse, TYPES["pred"]),
        (*signs, *(majors or [0, 0])),
        metadata,
        d.integer(4) if sparse else 0,
    )


def _formats(d: Decoder) -> tuple[str, str, str]:
    """Types of D, A and B; no register has a single-bit type."""
    bits = [name for name in d.modifiers if name == BITS]
    if bits:
        d.modifiers[:] = [name for name in d.modifiers if name != BITS]
        d.require("and")
        d.require("popc")
    found = (*(type_.name for type_ in d.types()), *bits)
    if len(found) != 3:
        d.fail("needs three types", "malformed")
    return found[0], found[1], found[2]


@instruction("wgmma.mma_async")
def multiply(d: Decoder) -> Execute:
    operands, line = _decode(d), d.item.line
    what = operands.instruction()

    n, k = operands.shape
    use = RegisterUse(d.item.opcode, line, f"m64n{n}k{k}", frozenset(operands.d), frozenset(operands.a or ()))

    def execute(warp: Warp) -> None:
        check_fence(warp, use)
        cta = warp.cta
        if (unset := cta.image.unset_sums.get(warp.fragment.pc)) is not None:
            _add_to_unset(warp, unset, bool(operands.scale_d(warp)[0]))
        meeting = _meet(warp, line)
        operation = Operation()
        for groups in groups_of_lanes(warp, "wgmma"):
            groups.open.append(operation)
        meeting.arrived.append((warp, operation))
        # The four warps act as one: a completion that one of them has waited for counts for all. A warp may commit, and wait, before the
        # last one arrives.
        meeting.ends += warp.thread.take_part(meeting.shown)
        # The first warps to arrive continue, and may not touch the registers either.
        take_off(warp, operands.d, "an accumulator", operation, line)
        take_off(warp, operands.a or (), "operand A", operation, line)
        take_off(warp, operands.metadata, "sparsity metadata", operation, line)
        if len(meeting.arrived) < WARPGROUP_WARPS:
            return
        view = AsyncView(cta, "wgmma")
        # Descriptors and scale-d are read at issue, registers at completion.
        a = int(operands.a_descriptor(warp)[0]) if operands.a_descriptor else None
        b, accumulate = int(operands.b_descriptor(warp)[0]), bool(operands.scale_d(warp)[0])
        access = Access("wgmma", warp.thread, warp.fragment.pc, warp.thread.time, False, "async", tuple(meeting.ends))
        read, granules = shared_operands(what, a, b)
        cta.shared.begin(warp.thread, access, granules)
        cta.shared.operands(access, read)
        group = len(groups_of_lanes(warp, "wgmma")[0].marks)
        cta.shared.added(access, product_of(what, read, accumulate), (warp.index // WARPGROUP_WARPS, operands.d), group)
        members = sorted((member for member, _ in meeting.arrived), key=lambda member: member.index)

        def run() -> None:
            left = a if a is not None else _registers(members, operands.a or ())
            old = _sum_of(members, operands.d, what) if accumulate else None
            metadata = _registers(members, operands.metadata)[:, 0] if operands.metadata else None
            patterns = product(what, left, b, view, old, cta.machine.options.numerics, metadata, operands.selector)
            _computed(members, operands.d, _Sum(what, patterns))
            cta.trace("wgmma_completed", warp=members[0].index)
            for member, done in meeting.arrived:
                finished(member, done)

        cta.trace("wgmma_issued", warp=members[0].index)
        warp.later(_LATENCY, run, ("wgmma", cta.rank, warp.index // WARPGROUP_WARPS), busy=_SLOTS)

    return execute


def _add_to_unset(warp: Warp, registers: frozenset[int], accumulates: bool) -> None:
    """Notes which of these registers of an accumulator it adds to although none has written them, as far as is known."""
    if accumulates:
        for register in registers - warp.summed:
            warp.cta.machine.unset_sums.setdefault(register, warp.fragment.pc)
    warp.summed |= registers


def _registers(members: Sequence[Warp], slots: tuple[int, ...]) -> LaneValues:
    """uint32 [128 threads, registers]"""
    return np.concatenate([_of_warp(member, slots).T for member in members])


def _of_warp(member: Warp, slots: tuple[int, ...]) -> LaneValues:
    """uint32 [registers, lanes]"""
    first = member.in_flight[slots[0]]
    if first.slots == slots:
        return first.values()
    rows = []
    for slot in slots:
        held = member.in_flight[slot]
        rows.append(held.values()[held.slots.index(slot)])
    return np.stack(rows)


def _meet(warp: Warp, line: int) -> Meeting:
    """The n-th wgmma of each warp of a warpgroup form one operation."""
    queue = warp.cta.meetings.setdefault(warp.index // WARPGROUP_WARPS, [])
    for meeting in queue:
        if all(member is not warp for member, _ in meeting.arrived):
            break
    else:
        meeting = Meeting(line)
        queue.append(meeting)
    if meeting.line != line:
        raise SimulationError(
            "undefined",
            f"the warps of warpgroup {warp.index // WARPGROUP_WARPS} execute different wgmma (PTX lines {meeting.line} and {line})",
        )
    if len(meeting.arrived) == WARPGROUP_WARPS - 1:
        queue.remove(meeting)
    return meeting
