"""Turns the garbage collector off, or down, during work that creates few reference cycles.

The collector runs in proportion to allocations, and traverses all objects: in a compilation, whose results live until its end, that is
wasted time, and much more so in a program with many objects of its own.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Allocations before the youngest generation is collected: some megabytes of simulation garbage.
_SELDOM = 20_000


@contextmanager
def uncollected() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def seldom_collected() -> Iterator[None]:
    """For long work with some cyclic garbage: collects less often than Python's default."""
    youngest, *others = gc.get_threshold()
    # 0: the collector is off.
    if youngest:
        gc.set_threshold(max(youngest, _SELDOM), *others)
    try:
        yield
    finally:
        gc.set_threshold(youngest, *others)
