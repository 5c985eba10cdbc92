"""Registers that wgmma uses, from its issue until a wait covers its completion: kept as one block where they form one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from ...machine.threads.cta import Warp
from ...machine.threads.groups import Operation
from ...machine.threads.in_flight import InFlight
from ...ptx.types import LaneValues


def take_off(warp: Warp, slots: tuple[int, ...], role: str, operation: Operation, line: int) -> None:
    """`operation` uses these registers of a warp from now on."""
    if not slots:
        return
    known = warp.in_flight.get(slots[0])
    # Usually the accumulator of the previous instruction.
    if known is not None and known.slots == slots:
        _use(known, operation)
        return
    others = dict.fromkeys(warp.in_flight[slot] for slot in slots if slot in warp.in_flight)
    if not others and len(set(slots)) == len(slots):
        hold(warp, InFlight(slots, [warp.registers[slot] for slot in slots], role, line, [operation]))
    else:
        _take_off_each(warp, slots, role, operation, line, others)


def _take_off_each(
    warp: Warp, slots: tuple[int, ...], role: str, operation: Operation, line: int, others: Iterable[InFlight]
) -> None:
    """Keeps each register separately, since `others` use some of them too, or since one is listed twice."""
    for other in others:
        if len(other.slots) > 1:
            _split(warp, other)
    for slot in dict.fromkeys(slots):
        if slot not in warp.in_flight:
            hold(warp, InFlight((slot,), [warp.registers[slot]], role, line))
        _use(warp.in_flight[slot], operation)


def _use(held: InFlight, operation: Operation) -> None:
    if held.moved or held.move:
        held.refuse()
    held.users.append(operation)


def hold(warp: Warp, held: InFlight) -> None:
    for slot in held.slots:
        warp.in_flight[slot] = held
        # Stored in place of lane values, it rejects every operation.
        warp.registers[slot] = cast(LaneValues, held)
    warp.held = frozenset(warp.in_flight)


def _split(warp: Warp, held: InFlight) -> None:
    held.store()
    for slot, row in zip(held.slots, held.rows, strict=True):
        one = InFlight((slot,), [row], held.role, held.line, held.users)
        one.moved = held.moved & {slot}
        hold(warp, one)


def land(warp: Warp) -> None:
    """Returns the registers whose operations a wait has covered, and performs the moves from them."""
    moves: dict[Callable[[Warp], object], None] = {}
    for held in dict.fromkeys(warp.in_flight.values()):
        held.users = [operation for operation in held.users if not operation.done]
        if held.users:
            continue
        for slot, row in zip(held.slots, held.rows, strict=True):
            warp.registers[slot] = row
            del warp.in_flight[slot]
        if held.move is None:
            held.store()
        else:
            moves[held.move] = None
    warp.held = frozenset(warp.in_flight)
    for move in moves:
        move(warp)
