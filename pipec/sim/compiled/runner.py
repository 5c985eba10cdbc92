"""Runs of instructions whose forms are compiled: a table of which function to call on which registers, and the loop that calls them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from . import LANES
from .blocks import EXECUTED, ROUTES
from .library import address_of, available

# A row of the table: the function (0: none), the guard's register (-1: none), whether it is negated, the operands' registers; the number
# of a load or store; the program counter; and the address offset or the branch target.
OPERANDS = 12
ROW = np.dtype(
    [
        ("function", np.uint64),
        ("guard", np.int32),
        ("negated", np.int32),
        ("operands", np.int32, OPERANDS),
        ("place", np.int32),
        ("pc", np.int32),
        ("immediate", np.int64),
    ]
)
# Offsets from the operands on, which is what functions receive.
PLACE, PC, IMMEDIATE = (ROW.fields[name][1] - ROW.fields["operands"][1] for name in ("place", "pc", "immediate"))  # type: ignore[index]
# Marks a branch that lanes may take, in place of a function address.
BRANCH = 1
# Stored for a branch that a warp has taken as a whole, with its target.
TAKEN = 1

# run(file, mask, table, start, join, budget, state): executes the rows from `start` on, on the registers of a warp, for the lanes of the
# mask (32 bytes, each 0 or 1), up to `join` or until the budget is used up. Returns the first row that was not executed; the state says
# how many were.
_RUN = f"""
define i64 @NAME(ptr %file, ptr %mask, ptr %table, i64 %start, i64 %join, i64 %budget, ptr %state) {{
entry:
  %chosen = alloca [{LANES} x i8], align 32
  %active = load <{LANES} x i8>, ptr %mask, align 1
  %routes.at = getelementptr i8, ptr %state, i64 {ROUTES}
  %routes = load ptr, ptr %routes.at, align 8
  br label %next
next:
  %at = phi i64 [ %start, %entry ], [ %following, %called ], [ %went, %go ]
  %count = phi i64 [ 0, %entry ], [ %counted, %called ], [ %counted, %go ]
  %counted = add i64 %count, 1
  %spent = icmp sge i64 %count, %budget
  %met = icmp eq i64 %at, %join
  %stop = or i1 %spent, %met
  br i1 %stop, label %done, label %look
look:
  %bytes = mul i64 %at, {ROW.itemsize}
  %row = getelementptr i8, ptr %table, i64 %bytes
  %function = load ptr, ptr %row, align 8
  %none = icmp eq ptr %function, null
  br i1 %none, label %done, label %known
known:
  %following = add i64 %at, 1
  %guard.at = getelementptr i8, ptr %row, i64 8
  %guard = load i32, ptr %guard.at, align 4
  %operands = getelementptr i8, ptr %row, i64 16
  %number = ptrtoint ptr %function to i64
  %branch = icmp eq i64 %number, {BRANCH}
  %free = icmp slt i32 %guard, 0
  br i1 %free, label %unguarded, label %guarded
unguarded:
  br i1 %branch, label %all, label %call
guarded:
  %negated.at = getelementptr i8, ptr %row, i64 12
  %negated = load i32, ptr %negated.at, align 4
  %offset = zext i32 %guard to i64
  %predicate.at = getelementptr i8, ptr %file, i64 %offset
  %predicate = load <{LANES} x i8>, ptr %predicate.at, align 32
  %flip = trunc i32 %negated to i8
  %first = insertelement <{LANES} x i8> poison, i8 %flip, i32 0
  %flips = shufflevector <{LANES} x i8> %first, <{LANES} x i8> poison, <{LANES} x i32> zeroinitializer
  %true = xor <{LANES} x i8> %predicate, %flips
  %both = and <{LANES} x i8> %true, %active
  br i1 %branch, label %which, label %masked
masked:
  store <{LANES} x i8> %both, ptr %chosen, align 32
  br label %call
call:
  %lanes = phi ptr [ %mask, %unguarded ], [ %chosen, %masked ]
  %code = call i32 %function(ptr %file, ptr %lanes, ptr %operands, ptr %state)
  %refused = icmp ne i32 %code, 0
  br i1 %refused, label %done, label %called
called:
  br label %next
which:
  %both.bits = bitcast <{LANES} x i8> %both to i256
  %active.bits = bitcast <{LANES} x i8> %active to i256
  %nobody = icmp eq i256 %both.bits, 0
  br i1 %nobody, label %through, label %some
some:
  %everybody = icmp eq i256 %both.bits, %active.bits
  br i1 %everybody, label %all, label %done
all:
  %target.at = getelementptr i8, ptr %operands, i64 {IMMEDIATE}
  %target = load i64, ptr %target.at, align 8
  br label %took
through:
  br label %took
took:
  %went = phi i64 [ %target, %all ], [ %following, %through ]
  %place.at = getelementptr i8, ptr %operands, i64 {PLACE}
  %place = load i32, ptr %place.at, align 4
  %noted = icmp sge i32 %place, 0
  br i1 %noted, label %note, label %go
note:
  %place.wide = zext i32 %place to i64
  %route.at = getelementptr i32, ptr %routes, i64 %place.wide
  %went.short = trunc i64 %went to i32
  %told = add i32 %went.short, {TAKEN}
  store i32 %told, ptr %route.at, align 4
  br label %go
go:
  br label %next
done:
  %executed.at = getelementptr i8, ptr %state, i64 {EXECUTED}
  store i64 %count, ptr %executed.at, align 8
  ret i64 %at
}}
"""

Run = Callable[[int, int, int, int, int, int, int], int]


@functools.cache
def runner() -> Run:
    if not available():
        return lambda file, mask, table, start, join, budget, state: start  # no row has a function
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3, ctypes.c_void_p)
    return prototype(address_of(lambda name: _RUN.replace("NAME", name)))


class Table:
    """One row per instruction of a program; `known` says which of them have a function."""

    def __init__(self, count: int) -> None:
        self.rows = np.zeros(count, ROW)
        self.rows["pc"] = np.arange(count)
        self.address = self.rows.ctypes.data
        self.version = 0  # of the forms from which it was filled
        self.known = [False] * count

    def fill(
        self, index: int, function: int, guard: int, negated: bool, operands: Sequence[int], place: int, immediate: int
    ) -> None:
        row = self.rows[index]
        row["function"], row["guard"], row["negated"], row["place"], row["immediate"] = function, guard, negated, place, immediate
        row["operands"][: len(operands)] = operands

    def without(self, indices: Iterable[int]) -> Table:
        """A copy in which these instructions have no function."""
        copy = Table(len(self.rows))
        copy.rows[:] = self.rows
        for index in indices:
            copy.rows[index]["function"] = 0
        copy.measure()
        return copy

    def measure(self) -> None:
        """To be called after rows have been filled."""
        self.known = (self.rows["function"] != 0).tolist()
