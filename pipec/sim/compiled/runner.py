"""Runs of instructions whose forms are machine code: a table of what to call on which registers, and the loop that calls it."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence

import numpy as np

from . import LANES
from .library import address_of, available

# A row of the table: the function (0: none), the guard's register (-1: none), whether it is negated, the operands' registers.
OPERANDS = 12
ROW = np.dtype([("function", np.uint64), ("guard", np.int32), ("negated", np.int32), ("operands", np.int32, OPERANDS)])

# run(file, mask, table, start, stop): the rows from `start` to `stop` on the registers of a warp, for the lanes of the mask (32 bytes,
# each 0 or 1). Returns the first one that was not executed.
_RUN = f"""
define i64 @NAME(ptr %file, ptr %mask, ptr %table, i64 %start, i64 %stop) {{
entry:
  %chosen = alloca [{LANES} x i8], align 32
  br label %next
next:
  %at = phi i64 [ %start, %entry ], [ %following, %called ]
  %more = icmp slt i64 %at, %stop
  br i1 %more, label %look, label %done
look:
  %bytes = mul i64 %at, {ROW.itemsize}
  %row = getelementptr i8, ptr %table, i64 %bytes
  %function = load ptr, ptr %row, align 8
  %none = icmp eq ptr %function, null
  br i1 %none, label %done, label %known
known:
  %guard.at = getelementptr i8, ptr %row, i64 8
  %guard = load i32, ptr %guard.at, align 4
  %operands = getelementptr i8, ptr %row, i64 16
  %free = icmp slt i32 %guard, 0
  br i1 %free, label %call, label %guarded
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
  %active = load <{LANES} x i8>, ptr %mask, align 1
  %both = and <{LANES} x i8> %true, %active
  store <{LANES} x i8> %both, ptr %chosen, align 32
  br label %call
call:
  %lanes = phi ptr [ %mask, %known ], [ %chosen, %guarded ]
  %code = call i32 %function(ptr %file, ptr %lanes, ptr %operands)
  %refused = icmp ne i32 %code, 0
  br i1 %refused, label %done, label %called
called:
  %following = add i64 %at, 1
  br label %next
done:
  ret i64 %at
}}
"""

Run = Callable[[int, int, int, int, int], int]


@functools.cache
def runner() -> Run:
    if not available():
        return lambda file, mask, table, start, stop: start  # no row has a function
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)
    return prototype(address_of(lambda name: _RUN.replace("NAME", name)))


class Table:
    """One row for each instruction of a program."""

    def __init__(self, count: int) -> None:
        self.rows = np.zeros(count, ROW)
        self.address = self.rows.ctypes.data
        self.version = 0  # of the forms that it was filled from
        self.ends = [*range(count)]  # behind the run of rows that begins at each; where it has no function, itself

    def fill(self, index: int, function: int, guard: int, negated: bool, operands: Sequence[int]) -> None:
        self.rows[index] = function, guard, negated, (*operands, *[0] * (OPERANDS - len(operands)))

    def measure(self) -> None:
        """Finds the runs anew."""
        end, known = len(self.rows), (self.rows["function"] != 0).tolist()
        for index in range(len(self.rows) - 1, -1, -1):
            end = end if known[index] else index
            self.ends[index] = end
