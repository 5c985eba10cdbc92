"""Work in which little becomes garbage in cycles, and during which Python therefore does not look for it, or not so often.

The collector is asked in proportion to what is made, and goes through all that is there: in a compilation, whose results live until its
end, that is time lost, and in a program with many objects of its own far more.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# Objects that are made before the youngest are looked through: some megabytes of what a simulation leaves behind.
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
    """For work that may last, and leaves some garbage in cycles: less often than Python does by itself."""
    youngest, *others = gc.get_threshold()
    # 0: nothing is looked for.
    if youngest:
        gc.set_threshold(max(youngest, _SELDOM), *others)
    try:
        yield
    finally:
        gc.set_threshold(youngest, *others)
