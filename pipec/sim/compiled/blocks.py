"""The words of the memory blocks that machine code shares with the rest of the simulator, by byte offset."""

from __future__ import annotations

LANES = 32

# The state of a warp. WHO is its number among the threads of the ledger; TIME and TOUCHED belong to its clock, MEET counts how often its
# lanes have converged, STAMP changes whenever the numbers of its accesses do. PRACTICE: whether any collective instruction lets lanes
# converge. FIRST, ACTORS: the warps of its CTA, followed by the copies (cp.async) of each; CLOCK holds, for each of them, the time up to
# which it precedes this warp. KNOWN_WRITERS, KNOWN_READERS: access sets known to precede this warp, indexed by their low bits. LOADS: how
# many of its numbered instructions are loads, which come before the stores. UNLIKE: 1 + the program counter of a store whose lanes stored
# different values to one place, 0 if there was none. WAITED: 1 + what MEET was when a wait last covered copies (cp.async) of the warp;
# those up to BEFORE had been covered before.
WHO, TIME, TOUCHED, MEET, STAMP, PROGRESS, PRACTICE, WATCHED = range(0, 64, 8)
SHARED_DATA, SHARED_STATE, SHARED_SIZE, RANK, SHARED_SHADOW, ALLOCATIONS, LEDGER, PLACES = range(64, 128, 8)
RECORDS, PARAMETERS, FIRST, ACTORS, CLOCK, KNOWN_WRITERS, KNOWN_READERS, EXECUTED = range(128, 192, 8)
ROUTES, PARAMETER_BYTES, LOADS, UNLIKE, WAITED, BEFORE = range(192, 240, 8)
STATE_WORDS = 30
KNOWN = 64

# The ledger: int32 columns indexed by the number of an access set. Of the most recent access: OF_THREAD, OF_PC (twice the program counter,
# plus 1 for a write), OF_TIME, OF_MEET (of the lanes of its warp, -1: irrelevant); OF_REST: the set of the others; OF_DEPTH: how many
# there are, 0 where the columns cannot hold the whole set.
OF_THREAD, OF_PC, OF_TIME, OF_MEET, OF_REST, OF_DEPTH, NEXT, LIMIT, FREE, FREE_COUNT, EARLY = range(0, 88, 8)
LEDGER_WORDS = 11
MOST = 31

# The shadow of a memory: int32 cells for writers and readers (0: not created yet), log2 of the bytes per cell, the log of reads (0: none),
# and cells for what the last store replaced (0: not requested).
WRITERS, READERS, SHIFT, LOG, LOG_COUNT, LOG_LIMIT, REPLACED = range(0, 56, 8)
SHADOW_WORDS = 7
# An entry of the log: the access set, the bytes of each piece, the offset of each lane (-1: inactive).
LOG_WORDS = 2 + LANES

# The allocations of global memory: their number, and the pointer to their rows, sorted by address.
COUNT, ROWS = 0, 8
BASE, END, DATA, WRITABLE, SHADOW = range(0, 40, 8)
ALLOCATION_WORDS = 5

# What a warp keeps for each of its loads and stores: the number of its present access (valid for STAMP_OF), the reader set that it last
# extended and the result, the allocation last used, and the addresses by lane of its last executions, of which there were TIMES. Of the
# current execution: its lowest and highest address, and the first address, the bytes and the shadow of the memory that it falls in. Of a
# store, from COPIED on: loads that have returned, for every lane in every execution of the store, the address that it stores to
# (`_same_as_loaded`).
STAMP_OF, NUMBER, JOINED_OLD, JOINED_NEW, ROW_OF, TIMES, LOW, HIGH, FIRST_HERE, DATA_HERE, SHADOW_HERE = range(0, 88, 8)
COPIED, COPIES = 88, 4
RECORD_BYTES = 88 + 8 * COPIES
REMEMBERED = 4
PLACE_BYTES = 8 * LANES * REMEMBERED
ROW_BYTES = 16  # of a matrix of ldmatrix or stmatrix

GLOBAL, SHARED, GENERIC = 0, 1, 2
SHARED_WINDOW, LOWEST_WINDOW = 0x1_7F00_0000_0000, 0x1_7B00_0000_0000
USER_SHARED = 0x400
# Of f32: the smallest normal number, and the distance of numbers that may differ by rounding alone, also where much cancels (1 %).
NORMAL, ROUNDED = 0x80_0000, 1 << 16
WRITTEN, BARRIER = 1, 2
