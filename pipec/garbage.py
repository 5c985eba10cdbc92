"""Work in which nothing becomes garbage in cycles, or next to nothing, and during which Python therefore does not look for it.

The collector is asked in proportion to what is made, and goes through all that is there: in a compilation, whose results live until its
end, that is time lost, and in a program with many objects of its own far more.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
