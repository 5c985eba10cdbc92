"""The common case of a warp's ordinary loads and stores: aligned, inside one allocation, and ordered after all conflicting accesses.

Plain functions (`plain`), so that an instruction's machine code can call them. Each moves the data, leaves the marks that
`machine.races` would leave, and returns 0; or changes nothing and returns 1, in which case NumPy performs the access and reports any
problem.
"""

from __future__ import annotations

from . import blocks
from .plain import i32, i64, u8, u16
from .remembered import remember
from .sets import joined, ordered, own_set, replaced

_HIGHEST = (1 << 63) - 1


def _allocation(state: int, record: int, low: int, end: int) -> int:
    """The row of the allocation that contains the bytes `low` to `end`; 0: none does."""
    # An instruction usually stays in the allocation that it touched last, and searching a table of a hundred takes long.
    row = i64[record + blocks.ROW_OF]
    if row != 0 and i64[row + blocks.BASE] <= low and end <= i64[row + blocks.END]:
        return row
    table = i64[state + blocks.ALLOCATIONS]
    row = i64[table + blocks.ROWS]
    for _ in range(i64[table + blocks.COUNT]):
        if i64[row + blocks.BASE] <= low and end <= i64[row + blocks.END]:
            i64[record + blocks.ROW_OF] = row
            return row
        row += 8 * blocks.ALLOCATION_WORDS
    return 0


def _mark_load(state: int, record: int, pc: int, shadow: int, addresses: int, mask: int, base: int, total: int) -> int:
    """Checks a load of `total` bytes at each address against the writers, and marks it; 1: apparently unordered."""
    ledger = i64[state + blocks.LEDGER]
    if i64[shadow + blocks.LOG] != 0:
        # Nobody has written this memory yet, so there is nothing to check the load against.
        count = i64[shadow + blocks.LOG_COUNT]
        if count >= i64[shadow + blocks.LOG_LIMIT]:
            return 1
        own = own_set(state, record, pc, 0)
        if own == 0:
            return 1
        entry = i64[shadow + blocks.LOG] + 8 * blocks.LOG_WORDS * count
        i64[entry] = own
        i64[entry + 8] = total
        for lane in range(blocks.LANES):
            offset = -1
            if u8[mask + lane] != 0:
                offset = i64[addresses + 8 * lane] - base
            i64[entry + 16 + 8 * lane] = offset
        i64[shadow + blocks.LOG_COUNT] = count + 1
        return 0
    writers, readers, shift = i64[shadow + blocks.WRITERS], i64[shadow + blocks.READERS], i64[shadow + blocks.SHIFT]
    if writers == 0 or total >> shift == 0:
        return 1
    known, fine = i64[state + blocks.KNOWN_WRITERS], 0
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                found = i32[writers + 4 * one]
                if found != fine:
                    if ordered(state, ledger, found, known) == 0:
                        return 1
                    fine = found
    own = own_set(state, record, pc, 0)
    if own == 0:
        return 1
    columns = i64[ledger + blocks.OF_MEET]
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                found = i32[readers + 4 * one]
                if found != own:
                    if found == 0:
                        found = own
                    else:
                        found = joined(state, ledger, record, pc, found, own)
                        if found == 0:
                            return 1
                    i32[readers + 4 * one] = found
                i32[columns + 4 * found] = i64[state + blocks.MEET]
    return 0


def _mark_store(state: int, record: int, pc: int, shadow: int, addresses: int, mask: int, base: int, total: int) -> int:
    """The same for a store."""
    ledger = i64[state + blocks.LEDGER]
    writers, readers, shift = i64[shadow + blocks.WRITERS], i64[shadow + blocks.READERS], i64[shadow + blocks.SHIFT]
    if i64[shadow + blocks.LOG] != 0 or writers == 0 or total >> shift == 0:
        return 1
    before = i64[shadow + blocks.REPLACED]
    fine, fine_readers, kept, kept_with, kept_of, kept_to = 0, 0, 0, 0, 0, 0
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                stored, loaded = i32[writers + 4 * one], i32[readers + 4 * one]
                if stored != fine:
                    if ordered(state, ledger, stored, i64[state + blocks.KNOWN_WRITERS]) == 0:
                        return 1
                    fine = stored
                if loaded != fine_readers:
                    if ordered(state, ledger, loaded, i64[state + blocks.KNOWN_READERS]) == 0:
                        return 1
                    fine_readers = loaded
                # If NumPy performs the access after all, it writes the same marks.
                if before != 0 and stored | loaded != 0:
                    earlier = i32[before + 4 * one]
                    if earlier != kept_with or stored != kept_of or loaded != kept_to:
                        kept = replaced(state, ledger, earlier, stored, loaded, pc)
                        if kept < 0:
                            return 1
                        kept_with, kept_of, kept_to = earlier, stored, loaded
                    i32[before + 4 * one] = kept
    own = own_set(state, record, pc, 1)
    if own == 0:
        return 1
    i32[i64[ledger + blocks.OF_MEET] + 4 * own] = i64[state + blocks.MEET]
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                i32[writers + 4 * one] = own
                i32[readers + 4 * one] = 0
    return 0


def _copy(there: int, here: int, size: int) -> int:
    if size == 4:
        i32[there] = i32[here]
    elif size == 2:
        u16[there] = u16[here]
    elif size == 8:
        i64[there] = i64[here]
    else:
        u8[there] = u8[here]
    return 0


def _states(state: int, addresses: int, mask: int, base: int, total: int, unwanted: int, wanted: int) -> int:
    """Whether the bytes of shared memory have none of the states `unwanted` and all of the states `wanted`."""
    states = i64[state + blocks.SHARED_STATE]
    seen, missed = 0, 0
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            first = states + i64[addresses + 8 * lane] - base
            for at in range(first, first + total):
                seen = seen | u8[at]
                missed = missed | ~u8[at]
    return (seen & unwanted) | (missed & wanted)


def _reach(record: int, addresses: int, mask: int) -> int:
    """Records the lowest and the highest address (lowest above highest where no lane is active); returns the OR of all addresses."""
    low, high, union = _HIGHEST, -1, 0
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            address = i64[addresses + 8 * lane]
            union, low, high = union | address, min(low, address), max(high, address)
    i64[record + blocks.LOW], i64[record + blocks.HIGH] = low, high
    return union


def _in_shared(state: int, record: int, addresses: int, mask: int, total: int, window: int, writes: int) -> int:
    """Records where the access falls, if it is in the CTA's own shared memory, whose bytes begin at `window`; 0: it is."""
    base = window + i64[state + blocks.RANK]
    if (
        i64[record + blocks.LOW] - base < blocks.USER_SHARED
        or i64[record + blocks.HIGH] - base + total > i64[state + blocks.SHARED_SIZE]
    ):
        return 1
    i64[record + blocks.FIRST_HERE], i64[record + blocks.DATA_HERE] = base, i64[state + blocks.SHARED_DATA]
    i64[record + blocks.SHADOW_HERE] = i64[state + blocks.SHARED_SHADOW]
    wanted = blocks.WRITTEN
    if writes:
        wanted = 0
    return _states(state, addresses, mask, base, total, blocks.BARRIER, wanted)


def _in_global(state: int, record: int, total: int, writes: int) -> int:
    """The same for one allocation of global memory."""
    row = _allocation(state, record, i64[record + blocks.LOW], i64[record + blocks.HIGH] + total)
    if row == 0:
        return 1
    i64[record + blocks.FIRST_HERE], i64[record + blocks.DATA_HERE] = i64[row + blocks.BASE], i64[row + blocks.DATA]
    i64[record + blocks.SHADOW_HERE] = i64[row + blocks.SHADOW]
    return (writes > i64[row + blocks.WRITABLE]) | (i64[i64[state + blocks.LEDGER] + blocks.EARLY] + writes > 1)


def _mark(state: int, record: int, pc: int, place: int, addresses: int, mask: int, total: int, writes: int) -> int:
    shadow, base = i64[record + blocks.SHADOW_HERE], i64[record + blocks.FIRST_HERE]
    if shadow != 0:
        if writes:
            if _mark_store(state, record, pc, shadow, addresses, mask, base, total):
                return 1
        elif _mark_load(state, record, pc, shadow, addresses, mask, base, total):
            return 1
    return remember(state, record, place, addresses, mask)


def _differs(there: int, here: int, size: int) -> int:
    if size == 4:
        return i32[there] != i32[here]
    if size == 2:
        return u16[there] != u16[here]
    if size == 8:
        return i64[there] != i64[here]
    return u8[there] != u8[here]


def _move(state: int, record: int, addresses: int, mask: int, values: int, size: int, count: int, writes: int) -> int:
    data, changed = i64[record + blocks.DATA_HERE] - i64[record + blocks.FIRST_HERE], 0
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            there = data + i64[addresses + 8 * lane]
            for element in range(count):
                here = values + size * (blocks.LANES * element + lane)
                if writes:
                    changed = changed | _differs(there + size * element, here, size)
                    _copy(there + size * element, here, size)
                else:
                    _copy(here, there + size * element, size)
    # The scheduler distinguishes spinning from progress by stores that change something.
    if changed:
        i64[state + blocks.PROGRESS] += 1
    return 0


def _apart(there: int, here: int, size: int) -> int:
    """Whether two words differ by more than sums do that were rounded differently, as those of the lanes of a butterfly may be."""
    if size == 4:
        gap = i32[there] - i32[here]
        if (i32[here] & 0x7FFFFFFF) >= blocks.NORMAL and gap + blocks.ROUNDED >= 0 and gap <= blocks.ROUNDED:
            return 0
    return _differs(there, here, size)


def _unlike(record: int, addresses: int, mask: int, values: int, size: int, count: int) -> int:
    """Whether the lanes of a store, which memory holds now, have stored different values to one place."""
    data = i64[record + blocks.DATA_HERE] - i64[record + blocks.FIRST_HERE]
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            there = data + i64[addresses + 8 * lane]
            for element in range(count):
                if _apart(there + size * element, values + size * (blocks.LANES * element + lane), size) != 0:
                    return 1
    return 0


def _written(state: int, record: int, addresses: int, mask: int, total: int) -> int:
    """Marks these bytes of shared memory as written."""
    states = i64[state + blocks.SHARED_STATE] - i64[record + blocks.FIRST_HERE]
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            first = states + i64[addresses + 8 * lane]
            for at in range(first, first + total):
                u8[at] = u8[at] | blocks.WRITTEN
    return 0


def rows(state: int, pc: int, place: int, addresses: int, mask: int, values: int, laid_out: int, writes: int) -> int:
    """The 16-byte rows of 8x8 matrices (ldmatrix, stmatrix): one at the address of each lane in the mask, to or from `values`,
    consecutively. `laid_out`: whether to keep the addresses (`Executions.laid_out`)."""
    record = i64[state + blocks.RECORDS] + blocks.RECORD_BYTES * place
    union = _reach(record, addresses, mask)
    if union & (blocks.ROW_BYTES - 1) != 0 or i64[record + blocks.LOW] < 0:
        return 1
    if _in_shared(state, record, addresses, mask, blocks.ROW_BYTES, 0, writes):
        return 1
    shadow, base = i64[record + blocks.SHADOW_HERE], i64[record + blocks.FIRST_HERE]
    if i64[state + blocks.WATCHED] != 0 and shadow != 0:
        if writes:
            if _mark_store(state, record, pc, shadow, addresses, mask, base, blocks.ROW_BYTES):
                return 1
        elif _mark_load(state, record, pc, shadow, addresses, mask, base, blocks.ROW_BYTES):
            return 1
    if laid_out:
        row = i64[state + blocks.PLACES] + blocks.PLACE_BYTES * place
        for lane in range(blocks.LANES):
            i64[row + 8 * lane] = i64[addresses + 8 * lane]
        i64[record + blocks.TIMES] = 1
    if writes:
        _written(state, record, addresses, mask, blocks.ROW_BYTES)
    data, changed = i64[record + blocks.DATA_HERE] - base, 0
    for lane in range(blocks.LANES):
        if u8[mask + lane] != 0:
            there, here = data + i64[addresses + 8 * lane], values + blocks.ROW_BYTES * lane
            for at in range(0, blocks.ROW_BYTES, 8):
                if writes:
                    changed = changed | (i64[there + at] != i64[here + at])
                    i64[there + at] = i64[here + at]
                else:
                    i64[here + at] = i64[there + at]
    if changed:
        i64[state + blocks.PROGRESS] += 1
    return 0


def access(state: int, pc: int, place: int, addresses: int, mask: int, values: int, size: int, count: int, kind: int) -> int:
    """`count` elements of `size` bytes at the address of each lane in the mask, to or from `values`, which holds the first elements of
    all lanes, then the second ones; `kind`: 2 * GLOBAL, SHARED or GENERIC, plus 1 for a store."""
    writes, space, total, window = kind & 1, kind >> 1, size * count, 0
    record = i64[state + blocks.RECORDS] + blocks.RECORD_BYTES * place
    union = _reach(record, addresses, mask)
    # No lane is active.
    if i64[record + blocks.LOW] > i64[record + blocks.HIGH]:
        return 0
    # Sizes are powers of two, and a bit that is set in any address is set in their union.
    if union & (total - 1) != 0 or i64[record + blocks.LOW] < 0:
        return 1
    if space == blocks.GENERIC:
        space = blocks.GLOBAL
        if i64[record + blocks.HIGH] >= blocks.LOWEST_WINDOW:
            space, window = blocks.SHARED, blocks.SHARED_WINDOW
    if space == blocks.SHARED:
        if _in_shared(state, record, addresses, mask, total, window, writes):
            return 1
    elif _in_global(state, record, total, writes):
        return 1
    if i64[state + blocks.WATCHED] != 0 and _mark(state, record, pc, place, addresses, mask, total, writes) != 0:
        return 1
    if writes and space == blocks.SHARED:
        _written(state, record, addresses, mask, total)
    _move(state, record, addresses, mask, values, size, count, writes)
    if writes and i64[state + blocks.WATCHED] != 0 and _unlike(record, addresses, mask, values, size, count) != 0:
        i64[state + blocks.UNLIKE] = pc + 1
    return 0
