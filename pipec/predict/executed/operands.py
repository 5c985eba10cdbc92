"""What operands of an instruction are when a warp executes it."""

from collections import defaultdict
from typing import Any

import numpy as np

from pipec.predict.executed.happenings import Signal
from pipec.sim.machine.memory.spaces import OFFSET_MASK, RANK_SHIFT
from pipec.sim.machine.threads.cta import Warp
from pipec.sim.ptx.tree import Address, Immediate, Operand, Register, Symbol


def values(warp: Warp, operand: Operand) -> np.ndarray[Any, Any]:
    """Of the active lanes."""
    if isinstance(operand, Register):
        return warp.registers[operand.index][warp.active].astype(np.int64)
    if isinstance(operand, Immediate):
        return np.full(int(np.count_nonzero(warp.active)), operand.value, np.int64)
    if isinstance(operand, Address):
        if isinstance(operand.base, int):
            return np.full(int(np.count_nonzero(warp.active)), operand.base + operand.offset, np.int64)
        return values(warp, operand.base) + operand.offset
    if isinstance(operand, Symbol):
        image = warp.cta.image
        rank = warp.cta.rank << RANK_SHIFT if image.spaces.get(operand.name) == "shared" else 0
        return np.full(int(np.count_nonzero(warp.active)), image.addresses[operand.name] + operand.offset + rank, np.int64)
    raise TypeError(operand)


def barriers_at(warp: Warp, operand: Operand, local: bool) -> dict[tuple[int, int], int]:
    """(rank, offset) of the mbarriers that the lanes name -> how many of them."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for address in values(warp, operand).tolist():
        rank = warp.cta.rank if local else address >> RANK_SHIFT & 0xFF
        if rank >= len(warp.cta.cluster.ctas):
            rank = warp.cta.rank
        found[rank, address & OFFSET_MASK] += 1
    return found


def phase_of(warp: Warp, rank: int, offset: int) -> Signal | None:
    barrier = warp.cta.cluster.ctas[rank].mbarriers.get(offset)
    return None if barrier is None else ("phase", barrier.actor, barrier.state.phase)
