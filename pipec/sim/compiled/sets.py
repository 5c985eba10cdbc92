"""Access sets in the columns of the ledger (`machine.races.ledger`), as machine code creates and reads them."""

from __future__ import annotations

from . import blocks
from .plain import i32, i64


def new_set(ledger: int) -> int:
    """The number of a new access set; 0: old sets have to be freed first."""
    count = i64[ledger + blocks.FREE_COUNT]
    if count > 0:
        i64[ledger + blocks.FREE_COUNT] = count - 1
        return i32[i64[ledger + blocks.FREE] + 4 * (count - 1)]
    number = i64[ledger + blocks.NEXT]
    if number >= i64[ledger + blocks.LIMIT]:
        return 0
    i64[ledger + blocks.NEXT] = number + 1
    return number


def noted(state: int, ledger: int, number: int, pc: int, writes: int, rest: int, depth: int) -> int:
    """Writes `number` as an access of this warp, followed by the set `rest`."""
    return written(ledger, number, i64[state + blocks.WHO], 2 * pc + writes, i64[state + blocks.TIME], rest, depth)


def written(ledger: int, number: int, thread: int, code: int, time: int, rest: int, depth: int) -> int:
    """Writes the access `code` (twice the program counter, plus 1 for a store) of a warp as `number`, in front of the set `rest`."""
    i32[i64[ledger + blocks.OF_THREAD] + 4 * number] = thread
    i32[i64[ledger + blocks.OF_PC] + 4 * number] = code
    i32[i64[ledger + blocks.OF_TIME] + 4 * number] = time
    i32[i64[ledger + blocks.OF_MEET] + 4 * number] = -1
    i32[i64[ledger + blocks.OF_REST] + 4 * number] = rest
    i32[i64[ledger + blocks.OF_DEPTH] + 4 * number] = depth
    return number


def own_set(state: int, record: int, pc: int, writes: int) -> int:
    """The set that contains this access alone: the same one until the warp signals to others."""
    i64[state + blocks.TOUCHED] = 1
    if i64[record + blocks.STAMP_OF] == i64[state + blocks.STAMP]:
        return i64[record + blocks.NUMBER]
    ledger = i64[state + blocks.LEDGER]
    number = new_set(ledger)
    if number == 0:
        return 0
    i64[record + blocks.STAMP_OF] = i64[state + blocks.STAMP]
    i64[record + blocks.NUMBER] = number
    i64[record + blocks.JOINED_OLD] = 0
    return noted(state, ledger, number, pc, writes, 0, 1)


def reached(state: int, ledger: int, number: int, thread: int) -> int:
    """Whether the access `number`, made by `thread`, is this warp's own or precedes its present instruction."""
    if i32[i64[ledger + blocks.OF_DEPTH] + 4 * number] == 0:
        return 0
    if thread == i64[state + blocks.WHO]:
        return 1
    first = i64[state + blocks.FIRST]
    if thread < first or thread >= first + i64[state + blocks.ACTORS]:
        return 0
    return i64[i64[state + blocks.CLOCK] + 8 * (thread - first)] >= i32[i64[ledger + blocks.OF_TIME] + 4 * number]


def ordered(state: int, ledger: int, number: int, known: int) -> int:
    """Whether all accesses of a set precede the warp's present instruction, and its own accesses, and waits for its copies, precede the
    last convergence of its lanes."""
    aware = i32[known + 4 * (number & (blocks.KNOWN - 1))] == number
    copies = -1
    if i64[state + blocks.WAITED] > i64[state + blocks.MEET]:
        copies = i64[state + blocks.WHO] + (i64[state + blocks.ACTORS] >> 1)
    while number != 0:
        thread = i32[i64[ledger + blocks.OF_THREAD] + 4 * number]
        # Needed for a known set as well: order between warps says nothing about the lanes of one warp.
        if thread == i64[state + blocks.WHO] and i32[i64[ledger + blocks.OF_MEET] + 4 * number] >= i64[state + blocks.MEET]:
            return 0
        if thread == copies and i32[i64[ledger + blocks.OF_TIME] + 4 * number] > i64[state + blocks.BEFORE]:
            return 0
        if aware:
            return 1
        if reached(state, ledger, number, thread) == 0:
            return 0
        number = i32[i64[ledger + blocks.OF_REST] + 4 * number]
    return 1


def covered(state: int, ledger: int, number: int) -> int:
    """Whether everything ordered after this warp is ordered after all accesses of a set."""
    while number != 0:
        if reached(state, ledger, number, i32[i64[ledger + blocks.OF_THREAD] + 4 * number]) == 0:
            return 0
        number = i32[i64[ledger + blocks.OF_REST] + 4 * number]
    return 1


def joined(state: int, ledger: int, record: int, pc: int, old: int, own: int) -> int:
    """The reader set `old` extended by this access, `own`; 0: no number is free, or the set has too many readers."""
    # The cells of a tile mostly share one set, so that all but the first of an instruction's cells ask for the same result.
    if i64[record + blocks.JOINED_OLD] == old:
        return i64[record + blocks.JOINED_NEW]
    if covered(state, ledger, old):
        found = own
    else:
        depth = i32[i64[ledger + blocks.OF_DEPTH] + 4 * old]
        if depth == 0 or depth >= blocks.MOST:
            return 0
        found = new_set(ledger)
        if found == 0:
            return 0
        noted(state, ledger, found, pc, 0, old, depth + 1)
    i64[record + blocks.JOINED_OLD] = old
    i64[record + blocks.JOINED_NEW] = found
    return found


def with_access(ledger: int, earlier: int, access: int) -> int:
    """The set `earlier` extended by the last access of another set; -1: no number is free, or an earlier execution would have to be
    removed."""
    if earlier == 0 and i32[i64[ledger + blocks.OF_REST] + 4 * access] == 0:
        return access
    thread, code = i32[i64[ledger + blocks.OF_THREAD] + 4 * access], i32[i64[ledger + blocks.OF_PC] + 4 * access]
    time, one = i32[i64[ledger + blocks.OF_TIME] + 4 * access], earlier
    while one != 0:
        if i32[i64[ledger + blocks.OF_THREAD] + 4 * one] == thread and i32[i64[ledger + blocks.OF_PC] + 4 * one] == code:
            if i32[i64[ledger + blocks.OF_TIME] + 4 * one] == time:
                return earlier
            return -1
        one = i32[i64[ledger + blocks.OF_REST] + 4 * one]
    depth = i32[i64[ledger + blocks.OF_DEPTH] + 4 * earlier]
    if depth >= blocks.MOST:
        return -1
    number = new_set(ledger)
    if number == 0:
        return -1
    return written(ledger, number, thread, code, time, earlier, depth + 1)


def replaced(state: int, ledger: int, earlier: int, stored: int, loaded: int, pc: int) -> int:
    """What a store at `pc` replaces, as `ledger.Ledger.replaced` computes it; -1: machine code does not handle this case."""
    depths = i64[ledger + blocks.OF_DEPTH]
    kept, own = earlier, 0
    if i32[i64[ledger + blocks.OF_THREAD] + 4 * stored] == i64[state + blocks.WHO]:
        own = i32[i64[ledger + blocks.OF_PC] + 4 * stored] == 2 * pc + 1
    if i32[depths + 4 * stored] == 1 and own == 0:
        kept = with_access(ledger, kept, stored)
    if kept == 0:
        if i32[depths + 4 * loaded] > 0:
            kept = loaded
        return kept
    while i32[depths + 4 * loaded] > 0 and kept > 0:
        kept = with_access(ledger, kept, loaded)
        loaded = i32[i64[ledger + blocks.OF_REST] + 4 * loaded]
    return kept
