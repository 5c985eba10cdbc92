"""The readings of a text, one after the other as long as they may tell something else: each is a sound model of it."""

from collections.abc import Iterator
from typing import Any

from pipec.verify.reader.processes.fitting import adds_up
from pipec.verify.reader.processes.leaps import leaps
from pipec.verify.reader.processes.unbounded import unbounded
from pipec.verify.reader.read import Reading, reading_of
from pipec.verify.reader.text.interface import interface_of
from pipec.verify.reader.text.statements import kernel_of
from pipec.verify.reader.values.interpretation import LIMITS, ROOMY, WHOLE, Interpretation
from pipec.verify.reader.values.parameters import Ranges, ranges_stated

_MOST_TOLD = 6  # readings in which other conditions tell ranges


def readings_of(ptx: str, kernel: str | None = None, *, stated: int | None = None) -> Iterator[Reading]:
    """Readings with successive limits, as long as that makes a difference, and behind the first one that for launches of few blocks and
    tiles, that with whole numbers from which loops go on, or one with larger numbers, that with counters that may come round, those for
    loaded numbers that are added up and fit, and that with loaded numbers whole; then with machine interpretation of numbers, and last
    for loaded numbers that fit; if these make one. `stated`: see Interpretation."""

    def read_so(limit: int = LIMITS[0], **how: Any) -> Reading:
        return reading_of(ptx, kernel, Interpretation(limit, stated=stated, **how))

    first = read_so()
    yield first
    apart, placed, loads = first.arithmetic.apart, first.arithmetic.placed, first.arithmetic.loads
    if placed:
        yield read_so(near=True)
    if not loads and first.arithmetic.widest > LIMITS[0]:
        yield read_so(WHOLE if leaps(first.network) else ROOMY)
    wraps = unbounded(first.network) if loads else frozenset()
    if wraps:
        yield read_so(wraps=wraps)
    if loads and adds_up(first.network):
        yield read_so(fitting=True)
        yield read_so(WHOLE, near=placed, fitting=True)
    if loads:
        yield read_so(WHOLE, near=placed)
    widest = first.arithmetic.widest
    for limit in LIMITS[1:]:
        if widest > min(LIMITS):
            reading = read_so(limit)
            yield reading
            apart |= reading.arithmetic.apart
            widest = reading.arithmetic.widest
    if loads and placed:
        yield read_so(WHOLE)
    if apart:
        yield read_so(as_read=True)
    if loads and not adds_up(first.network):
        last = read_so(WHOLE, near=placed, fitting=True)
        if last.network.assumptions != first.network.assumptions:
            yield last


def readings_as_stated(ptx: str, kernel: str | None = None) -> Iterator[Reading]:
    """All readings of a text, and those that conditions from some place on tell nothing: these may have been added when a proof had been
    found."""
    of = kernel_of(ptx, kernel)
    interface = interface_of(ptx, of.name, of.parameters)
    told: list[Ranges] = []
    for count in reversed(range(len(interface.conditions) + 1)):
        stated_ = ranges_stated(interface, of, count)
        if stated_ not in told and len(told) < _MOST_TOLD:
            told.append(stated_)
            yield from readings_of(ptx, kernel, stated=count)
