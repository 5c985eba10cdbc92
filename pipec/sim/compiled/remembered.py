"""What a warp remembers of its last loads and stores: their addresses, and which loads returned the addresses of a store."""

from __future__ import annotations

from . import blocks
from .plain import i64, u8


def remember(state: int, record: int, place: int, addresses: int, mask: int) -> int:
    """Records the addresses of this execution, by lane."""
    times = i64[record + blocks.TIMES]
    row = i64[state + blocks.PLACES] + blocks.PLACE_BYTES * place + 8 * blocks.LANES * (times & (blocks.REMEMBERED - 1))
    for lane in range(blocks.LANES):
        address = -1
        if u8[mask + lane] != 0:
            address = i64[addresses + 8 * lane]
        i64[row + 8 * lane] = address
    i64[record + blocks.TIMES] = times + 1
    # Loads have lower numbers than stores.
    loads = i64[state + blocks.LOADS]
    if place >= loads:
        if times == 0:
            _find_loads(state, record, loads, row)
        else:
            for one in range(blocks.COPIES):
                number = i64[record + blocks.COPIED + 8 * one]
                if number != 0 and _same_as_loaded(state, number, row) == 0:
                    i64[record + blocks.COPIED + 8 * one] = 0
    return 0


def _same_as_loaded(state: int, number: int, row: int) -> int:
    """Whether each active lane of `row` has the address that a load returned to it; the load L, BACK executions ago, is encoded as 1 +
    REMEMBERED * L + BACK."""
    load, back = (number - 1) >> 2, (number - 1) & (blocks.REMEMBERED - 1)
    times = i64[i64[state + blocks.RECORDS] + blocks.RECORD_BYTES * load + blocks.TIMES] - 1 - back
    if times < 0:
        return 0
    loaded = i64[state + blocks.PLACES] + blocks.PLACE_BYTES * load + 8 * blocks.LANES * (times & (blocks.REMEMBERED - 1))
    for lane in range(blocks.LANES):
        address = i64[row + 8 * lane]
        if address != i64[loaded + 8 * lane] and address >= 0:
            return 0
    return 1


def _find_loads(state: int, record: int, loads: int, row: int) -> int:
    """Finds such loads at a store's first execution."""
    found = 0
    for number in range(1, blocks.REMEMBERED * loads + 1):
        if _same_as_loaded(state, number, row):
            i64[record + blocks.COPIED + 8 * found] = number
            found = found + 1
            if found == blocks.COPIES:
                return 0
    return 0
