"""Plain functions (`pipec.sim.compiled.plain`) as machine code against the same functions run by Python."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from pipec.sim.compiled.library import address_at, available
from pipec.sim.compiled.plain import Plain, i32, i64, machine_code, u8, u16

pytestmark = pytest.mark.skipif(not available(), reason="there is no LLVM")
LIMIT = 11


def _square_or(x: int, other: int) -> int:
    if x > 3 and x * x < 90:
        return x * x
    return other


def _loops(at: int, count: int) -> int:
    total, seen = 0, 0
    for index in range(count):
        if index == 7:
            continue
        if total > 400 or index >= LIMIT:
            break
        total += _square_or(i64[at + 8 * index], -1)
        while seen < index:
            seen += 2
    for index in range(1, count, 3):
        total = max(total, index) - min(seen, index)
    return (total << 8) ^ (seen & 0xFF) | ~count >> 40


def _memory(at: int, count: int) -> int:
    for index in range(count):
        i32[at + 4 * index] = i32[at + 8 * index] - u16[at + 2 * index]
        u8[at + 5] = u8[at + 6] + 300
    return -i32[at] * (count == 3) + (not count > 4)


def _which(x: int, y: int) -> int:
    if x < y:
        found = 1
    elif x == y or not x:
        found = 2
    else:
        found = 3
    found *= 10
    return found - (x != y)


@pytest.mark.parametrize("function", [_loops, _memory])
def test_memory_and_result(function: Plain) -> None:
    native = _native(function)
    rng = np.random.default_rng(0)
    for count in range(20):
        data = rng.integers(-20, 20, 64)
        ours, theirs = data.copy(), data.copy()
        assert function(ours.ctypes.data, count) == native(theirs.ctypes.data, count)
        assert (ours == theirs).all()


def test_decisions() -> None:
    native = _native(_which)
    rng = random.Random(0)
    for _ in range(100):
        x, y = rng.randrange(-3, 3), rng.randrange(-3, 3)
        assert _which(x, y) == native(x, y)


def test_what_is_not_plain_is_refused() -> None:
    def other(x: int) -> int:
        return x // 3

    with pytest.raises((TypeError, KeyError)):
        machine_code(other)


def _native(function: Plain) -> Plain:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address_at(machine_code(function)))
