"""Ordinary loads and stores of a warp, as they mostly are: aligned, inside one piece of memory, and after all that others did there.

Plain functions (`plain`), so that machine code of an instruction can call them. Each moves the data and leaves the marks that
`machine.races` would leave, and returns 0; or does nothing and returns 1, and the access is made by NumPy, which tells what stands
against it. The words of the blocks that both sides share are named here by their offsets in bytes.
"""

from __future__ import annotations

from .plain import i32, i64, u8, u16

LANES = 32

# The state of a warp. WHO is its number among the threads of the ledger; TIME and TOUCHED are those of its clock, MEET counts how
# often its lanes have met, STAMP changes whenever the numbers of its accesses do. PRACTICE: whether any collective instruction lets
# lanes meet. FIRST, WARPS: the warps of its CTA, of which CLOCK says up to which time this one comes after them.
# KNOWN_WRITERS, KNOWN_READERS: sets of accesses that it is known to come after, by their last bits. LOADS: how many of its numbered
# instructions are loads, which come before the stores.
WHO, TIME, TOUCHED, MEET, STAMP, PROGRESS, PRACTICE, WATCHED = range(0, 64, 8)
SHARED_DATA, SHARED_STATE, SHARED_SIZE, RANK, SHARED_SHADOW, ALLOCATIONS, LEDGER, PLACES = range(64, 128, 8)
RECORDS, PARAMETERS, FIRST, WARPS, CLOCK, KNOWN_WRITERS, KNOWN_READERS, EXECUTED = range(128, 192, 8)
ROUTES, PARAMETER_BYTES, LOADS = 192, 200, 208
STATE_WORDS = 27
KNOWN = 64

# The ledger: columns of int32, by the number of a set of accesses. Of the access that came last: OF_THREAD, OF_PC (twice the program
# counter, plus 1 for a write), OF_TIME, OF_MEET (of the lanes of its warp, -1: does not matter); OF_REST: the set of the others; OF_DEPTH:
# how many there are, 0 where the set has more to say than the columns do.
OF_THREAD, OF_PC, OF_TIME, OF_MEET, OF_REST, OF_DEPTH, NEXT, LIMIT, FREE, FREE_COUNT, EARLY = range(0, 88, 8)
LEDGER_WORDS = 11
MOST = 31

# The shadow of a memory: cells of int32 for writers and readers (0: not made yet), the binary logarithm of the bytes of a place, and the
# log of reads (0: none).
WRITERS, READERS, SHIFT, LOG, LOG_COUNT, LOG_LIMIT = range(0, 48, 8)
SHADOW_WORDS = 6
# An entry of the log: the set that is the access, the bytes of each piece, the offset of each lane (-1: not active).
LOG_WORDS = 2 + LANES

# The allocations of global memory: how many, and where rows of these stand, by address.
COUNT, ROWS = 0, 8
BASE, END, DATA, WRITABLE, SHADOW = range(0, 40, 8)
ALLOCATION_WORDS = 5

# What a warp has of each of its loads and stores: the number of its present access (for STAMP_OF), what it made last of which set of
# readers, the allocation last used, and the addresses by lane of its last executions, of which there were TIMES. Of the execution under
# way: its lowest and highest address, and the first address, the bytes and the shadow of the memory that it is in. Of a store, from
# COPIED on: loads that have given every lane, in every execution of the store, the address that it stores to (`_same_as_loaded`).
STAMP_OF, NUMBER, JOINED_OLD, JOINED_NEW, ROW_OF, TIMES, LOW, HIGH, FIRST_HERE, DATA_HERE, SHADOW_HERE = range(0, 88, 8)
COPIED, COPIES = 88, 4
RECORD_BYTES = 88 + 8 * COPIES
REMEMBERED = 4
PLACE_BYTES = 8 * LANES * REMEMBERED

GLOBAL, SHARED, GENERIC = 0, 1, 2
SHARED_WINDOW, LOWEST_WINDOW = 0x1_7F00_0000_0000, 0x1_7B00_0000_0000
USER_SHARED = 0x400
WRITTEN, BARRIER = 1, 2
_HIGHEST = (1 << 63) - 1


def _allocation(state: int, record: int, low: int, end: int) -> int:
    """The row of the allocation that holds the bytes from `low` up to `end`; 0: none does."""
    row = i64[record + ROW_OF]
    if row != 0 and i64[row + BASE] <= low and end <= i64[row + END]:
        return row
    table = i64[state + ALLOCATIONS]
    row = i64[table + ROWS]
    for _ in range(i64[table + COUNT]):
        if i64[row + BASE] <= low and end <= i64[row + END]:
            i64[record + ROW_OF] = row
            return row
        row += 8 * ALLOCATION_WORDS
    return 0


def _new_set(ledger: int) -> int:
    """The number of a new set of accesses; 0: it is time to forget some."""
    count = i64[ledger + FREE_COUNT]
    if count > 0:
        i64[ledger + FREE_COUNT] = count - 1
        return i32[i64[ledger + FREE] + 4 * (count - 1)]
    number = i64[ledger + NEXT]
    if number >= i64[ledger + LIMIT]:
        return 0
    i64[ledger + NEXT] = number + 1
    return number


def _noted(state: int, ledger: int, number: int, pc: int, writes: int, rest: int, depth: int) -> int:
    """Writes down that `number` is an access of this warp, and those of the set `rest`."""
    i32[i64[ledger + OF_THREAD] + 4 * number] = i64[state + WHO]
    i32[i64[ledger + OF_PC] + 4 * number] = 2 * pc + writes
    i32[i64[ledger + OF_TIME] + 4 * number] = i64[state + TIME]
    i32[i64[ledger + OF_MEET] + 4 * number] = -1
    i32[i64[ledger + OF_REST] + 4 * number] = rest
    i32[i64[ledger + OF_DEPTH] + 4 * number] = depth
    return number


def _own(state: int, record: int, pc: int, writes: int) -> int:
    """The set of this access alone: one until the warp tells others of it."""
    i64[state + TOUCHED] = 1
    if i64[record + STAMP_OF] == i64[state + STAMP]:
        return i64[record + NUMBER]
    ledger = i64[state + LEDGER]
    number = _new_set(ledger)
    if number == 0:
        return 0
    i64[record + STAMP_OF] = i64[state + STAMP]
    i64[record + NUMBER] = number
    i64[record + JOINED_OLD] = 0
    return _noted(state, ledger, number, pc, writes, 0, 1)


def _ordered(state: int, ledger: int, number: int, known: int) -> int:
    """Whether all accesses of a set come before what the warp does now, and its own before its lanes last met."""
    who, first, warps, clock = i64[state + WHO], i64[state + FIRST], i64[state + WARPS], i64[state + CLOCK]
    aware = i32[known + 4 * (number & (KNOWN - 1))] == number
    while number != 0:
        thread = i32[i64[ledger + OF_THREAD] + 4 * number]
        if thread == who and i32[i64[ledger + OF_MEET] + 4 * number] >= i64[state + MEET]:
            return 0
        if aware:
            return 1
        if i32[i64[ledger + OF_DEPTH] + 4 * number] == 0:
            return 0
        if thread != who:
            if thread < first or thread >= first + warps:
                return 0
            if i64[clock + 8 * (thread - first)] < i32[i64[ledger + OF_TIME] + 4 * number]:
                return 0
        number = i32[i64[ledger + OF_REST] + 4 * number]
    return 1


def _covered(state: int, ledger: int, number: int) -> int:
    """Whether whoever comes after this warp comes after all accesses of a set."""
    who, first, warps, clock = i64[state + WHO], i64[state + FIRST], i64[state + WARPS], i64[state + CLOCK]
    while number != 0:
        thread = i32[i64[ledger + OF_THREAD] + 4 * number]
        if i32[i64[ledger + OF_DEPTH] + 4 * number] == 0:
            return 0
        if thread != who:
            if thread < first or thread >= first + warps:
                return 0
            if i64[clock + 8 * (thread - first)] < i32[i64[ledger + OF_TIME] + 4 * number]:
                return 0
        number = i32[i64[ledger + OF_REST] + 4 * number]
    return 1


def _joined(state: int, ledger: int, record: int, pc: int, old: int, own: int) -> int:
    """The set of readers `old` with this access, which is `own`; 0: there is no number left, or too many have read."""
    if i64[record + JOINED_OLD] == old:
        return i64[record + JOINED_NEW]
    if _covered(state, ledger, old):
        found = own
    else:
        depth = i32[i64[ledger + OF_DEPTH] + 4 * old]
        if depth == 0 or depth >= MOST:
            return 0
        found = _new_set(ledger)
        if found == 0:
            return 0
        _noted(state, ledger, found, pc, 0, old, depth + 1)
    i64[record + JOINED_OLD] = old
    i64[record + JOINED_NEW] = found
    return found


def _mark_load(state: int, record: int, pc: int, shadow: int, addresses: int, mask: int, base: int, total: int) -> int:
    """Holds a load of `total` bytes from each address on against the writers, and marks it; 1: not in order, as it seems."""
    ledger = i64[state + LEDGER]
    if i64[shadow + LOG] != 0:
        count = i64[shadow + LOG_COUNT]
        if count >= i64[shadow + LOG_LIMIT]:
            return 1
        own = _own(state, record, pc, 0)
        if own == 0:
            return 1
        entry = i64[shadow + LOG] + 8 * LOG_WORDS * count
        i64[entry] = own
        i64[entry + 8] = total
        for lane in range(LANES):
            offset = -1
            if u8[mask + lane] != 0:
                offset = i64[addresses + 8 * lane] - base
            i64[entry + 16 + 8 * lane] = offset
        i64[shadow + LOG_COUNT] = count + 1
        return 0
    writers, readers, shift = i64[shadow + WRITERS], i64[shadow + READERS], i64[shadow + SHIFT]
    if writers == 0 or total >> shift == 0:
        return 1
    known, fine = i64[state + KNOWN_WRITERS], 0
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                found = i32[writers + 4 * one]
                if found != fine:
                    if _ordered(state, ledger, found, known) == 0:
                        return 1
                    fine = found
    own = _own(state, record, pc, 0)
    if own == 0:
        return 1
    columns = i64[ledger + OF_MEET]
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                found = i32[readers + 4 * one]
                if found != own:
                    if found == 0:
                        found = own
                    else:
                        found = _joined(state, ledger, record, pc, found, own)
                        if found == 0:
                            return 1
                    i32[readers + 4 * one] = found
                i32[columns + 4 * found] = i64[state + MEET]
    return 0


def _mark_store(state: int, record: int, pc: int, shadow: int, addresses: int, mask: int, base: int, total: int) -> int:
    """The same for a store."""
    ledger = i64[state + LEDGER]
    writers, readers, shift = i64[shadow + WRITERS], i64[shadow + READERS], i64[shadow + SHIFT]
    if i64[shadow + LOG] != 0 or writers == 0 or total >> shift == 0:
        return 1
    fine, fine_readers = 0, 0
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                found = i32[writers + 4 * one]
                if found != fine:
                    if _ordered(state, ledger, found, i64[state + KNOWN_WRITERS]) == 0:
                        return 1
                    fine = found
                found = i32[readers + 4 * one]
                if found != fine_readers:
                    if _ordered(state, ledger, found, i64[state + KNOWN_READERS]) == 0:
                        return 1
                    fine_readers = found
    own = _own(state, record, pc, 1)
    if own == 0:
        return 1
    i32[i64[ledger + OF_MEET] + 4 * own] = i64[state + MEET]
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            cell = (i64[addresses + 8 * lane] - base) >> shift
            for one in range(cell, cell + (total >> shift)):
                i32[writers + 4 * one] = own
                i32[readers + 4 * one] = 0
    return 0


def _remember(state: int, record: int, place: int, addresses: int, mask: int) -> int:
    """The addresses of this execution, by lane."""
    times = i64[record + TIMES]
    row = i64[state + PLACES] + PLACE_BYTES * place + 8 * LANES * (times & (REMEMBERED - 1))
    for lane in range(LANES):
        address = -1
        if u8[mask + lane] != 0:
            address = i64[addresses + 8 * lane]
        i64[row + 8 * lane] = address
    i64[record + TIMES] = times + 1
    loads = i64[state + LOADS]
    if place >= loads:
        if times == 0:
            _find_loads(state, record, loads, row)
        else:
            for one in range(COPIES):
                number = i64[record + COPIED + 8 * one]
                if number != 0 and _same_as_loaded(state, number, row) == 0:
                    i64[record + COPIED + 8 * one] = 0
    return 0


def _same_as_loaded(state: int, number: int, row: int) -> int:
    """Whether each active lane of `row` has the address that a load gave it: load L, so many executions BACK, is 1 + REMEMBERED * L +
    BACK."""
    load, back = (number - 1) >> 2, (number - 1) & (REMEMBERED - 1)
    times = i64[i64[state + RECORDS] + RECORD_BYTES * load + TIMES] - 1 - back
    if times < 0:
        return 0
    loaded = i64[state + PLACES] + PLACE_BYTES * load + 8 * LANES * (times & (REMEMBERED - 1))
    for lane in range(LANES):
        address = i64[row + 8 * lane]
        if address != i64[loaded + 8 * lane] and address >= 0:
            return 0
    return 1


def _find_loads(state: int, record: int, loads: int, row: int) -> int:
    """Of a store's first execution."""
    found = 0
    for number in range(1, REMEMBERED * loads + 1):
        if _same_as_loaded(state, number, row):
            i64[record + COPIED + 8 * found] = number
            found = found + 1
            if found == COPIES:
                return 0
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
    """Whether the bytes of shared memory have none of the states `unwanted`, and all of the `wanted`."""
    states = i64[state + SHARED_STATE]
    seen, missed = 0, 0
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            first = states + i64[addresses + 8 * lane] - base
            for at in range(first, first + total):
                seen = seen | u8[at]
                missed = missed | ~u8[at]
    return (seen & unwanted) | (missed & wanted)


def _reach(record: int, addresses: int, mask: int) -> int:
    """Notes the lowest and the highest address, the lowest above the highest where no lane is active; returns all the bits that are
    set in any."""
    low, high, union = _HIGHEST, -1, 0
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            address = i64[addresses + 8 * lane]
            union, low, high = union | address, min(low, address), max(high, address)
    i64[record + LOW], i64[record + HIGH] = low, high
    return union


def _in_shared(state: int, record: int, addresses: int, mask: int, total: int, window: int, writes: int) -> int:
    """Notes where the access is, if it is in the CTA's own shared memory, whose bytes begin at `window`; 0: it is."""
    base = window + i64[state + RANK]
    if i64[record + LOW] - base < USER_SHARED or i64[record + HIGH] - base + total > i64[state + SHARED_SIZE]:
        return 1
    i64[record + FIRST_HERE], i64[record + DATA_HERE] = base, i64[state + SHARED_DATA]
    i64[record + SHADOW_HERE] = i64[state + SHARED_SHADOW]
    wanted = WRITTEN
    if writes:
        wanted = 0
    return _states(state, addresses, mask, base, total, BARRIER, wanted)


def _in_global(state: int, record: int, total: int, writes: int) -> int:
    """The same for one allocation of global memory."""
    row = _allocation(state, record, i64[record + LOW], i64[record + HIGH] + total)
    if row == 0:
        return 1
    i64[record + FIRST_HERE], i64[record + DATA_HERE] = i64[row + BASE], i64[row + DATA]
    i64[record + SHADOW_HERE] = i64[row + SHADOW]
    return (writes > i64[row + WRITABLE]) | (i64[i64[state + LEDGER] + EARLY] != 0)


def _mark(state: int, record: int, pc: int, place: int, addresses: int, mask: int, total: int, writes: int) -> int:
    shadow, base = i64[record + SHADOW_HERE], i64[record + FIRST_HERE]
    if shadow != 0:
        if writes:
            if _mark_store(state, record, pc, shadow, addresses, mask, base, total):
                return 1
        elif _mark_load(state, record, pc, shadow, addresses, mask, base, total):
            return 1
    return _remember(state, record, place, addresses, mask)


def _move(record: int, addresses: int, mask: int, values: int, size: int, count: int, writes: int) -> int:
    data = i64[record + DATA_HERE] - i64[record + FIRST_HERE]
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            there = data + i64[addresses + 8 * lane]
            for element in range(count):
                here = values + size * (LANES * element + lane)
                if writes:
                    _copy(there + size * element, here, size)
                else:
                    _copy(here, there + size * element, size)
    return 0


def _written(state: int, record: int, addresses: int, mask: int, total: int) -> int:
    """These bytes of shared memory have been written."""
    states = i64[state + SHARED_STATE] - i64[record + FIRST_HERE]
    for lane in range(LANES):
        if u8[mask + lane] != 0:
            first = states + i64[addresses + 8 * lane]
            for at in range(first, first + total):
                u8[at] = u8[at] | WRITTEN
    return 0


def access(state: int, pc: int, place: int, addresses: int, mask: int, values: int, size: int, count: int, kind: int) -> int:
    """`count` elements of `size` bytes from the address of each lane of the mask on, into or out of `values`, which has the first
    elements of all lanes, then the second ones; `kind`: twice GLOBAL, SHARED or GENERIC, plus 1 for a store."""
    writes, space, total, window = kind & 1, kind >> 1, size * count, 0
    record = i64[state + RECORDS] + RECORD_BYTES * place
    union = _reach(record, addresses, mask)
    if i64[record + LOW] > i64[record + HIGH]:
        return 0
    if union & (total - 1) != 0 or i64[record + LOW] < 0:
        return 1
    if space == GENERIC:
        space = GLOBAL
        if i64[record + HIGH] >= LOWEST_WINDOW:
            space, window = SHARED, SHARED_WINDOW
    if space == SHARED:
        if _in_shared(state, record, addresses, mask, total, window, writes):
            return 1
    elif _in_global(state, record, total, writes):
        return 1
    if i64[state + WATCHED] != 0 and _mark(state, record, pc, place, addresses, mask, total, writes) != 0:
        return 1
    if writes:
        i64[state + PROGRESS] += count
        if space == SHARED:
            _written(state, record, addresses, mask, total)
    return _move(record, addresses, mask, values, size, count, writes)
