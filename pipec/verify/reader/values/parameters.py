"""Between which numbers parameters and special registers lie: by the launcher, the hardware, and the conditions of launches."""

from collections.abc import Iterable, Iterator, Mapping

from pipec.record import replace
from pipec.verify.reader.text.interface import LARGEST_SIZE, Interface, facts_of, signed_as_declared
from pipec.verify.reader.text.statements import Kernel
from pipec.verify.reader.values.parts import PLACES
from pipec.verify.terms import RANGES, Compare, Linear, Symbol, add, atom

Ranges = dict[str, tuple[int, int]]  # inclusive, by symbol

_ANY = -(1 << 64), 1 << 64
_GRID = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}


def ranges_of(kernel: Kernel, interface: Interface, stated: Mapping[str, tuple[int, int]]) -> Ranges:
    """The guarantees of the launcher and the hardware about parameters, also that one of these is the number of blocks along an axis, and
    about special registers. `stated`: by conditions of launches."""
    ranges: Ranges = {}
    for name, kind in kernel.parameters.items():
        if name in interface.sizes:
            ranges[name] = (0, LARGEST_SIZE)
        elif kind[1:] in ("8", "16", "32", "64") and kind[0] in "usb":
            width = int(kind[1:])
            ranges[name] = (0, (1 << width) - 1) if kind[0] == "u" else (-(1 << width - 1), (1 << width - 1) - 1)
    for symbol, dtype in interface.scalars.values():
        if symbol in kernel.parameters and signed_as_declared(dtype, kernel.parameters[symbol]):
            ranges[symbol] = RANGES[f"s{dtype[1:]}"]
    for symbol in stated.keys() & ranges.keys():
        ranges[symbol] = max(ranges[symbol][0], stated[symbol][0]), ranges[symbol][1]
    for extent, limit in zip(interface.launch, _GRID.values(), strict=True):
        match extent:
            # (A thread that runs is in a block: there is one along each axis, and there are no more than a grid may have.)
            case Linear(0, ((Symbol(name), 1),)) if name in ranges and name not in interface.sizes:
                ranges[name] = max(ranges[name][0], 1), min(ranges[name][1], limit)
            case _:
                pass
    for (axis, limit), blocks, width in zip(_GRID.items(), interface.grid, interface.cluster, strict=True):
        for family, together in (("cta", 1), ("cluster", width)):
            most = max(1, min(min(limit, blocks) // together, stated.get(f"%n{family}id.{axis}", _ANY)[1]))
            ranges[f"%{family}id.{axis}"] = (0, most - 1)
            ranges[f"%n{family}id.{axis}"] = (1, most)
    return ranges


def ranges_stated(interface: Interface, kernel: Kernel, count: int | None) -> Ranges:
    """The ranges that the first `count` conditions of launches (None: all) state of sizes and scalars, from which on a number by which is
    divided has a sign; and of the number of blocks, up to which a step of several for each block fits its type."""
    scalars = {symbol for symbol, _ in interface.scalars.values() if symbol in kernel.parameters}
    found: Ranges = {}
    for fact in facts_of(replace(interface, conditions=interface.conditions[:count]), kernel.parameters):
        match fact:
            case Compare("ge", Linear(more, ((Symbol(name), 1),))) if name in scalars or name in interface.sizes:
                low, high = found.get(name, _ANY)
                found[name] = max(low, -more), high
            case Compare("ge", Linear(more, ((Symbol(name), times),))) if times < 0 and name.startswith(PLACES):
                low, high = found.get(name, _ANY)
                found[name] = low, min(high, more // -times)
            case _:
                pass
    return found


def in_ranges(ranges: Mapping[str, tuple[int, int]], symbols: Iterable[Symbol]) -> Iterator[Compare]:
    """That these symbols lie in their ranges; nothing of those without one."""
    for symbol in symbols:
        if symbol.name in ranges:
            low, high = ranges[symbol.name]
            yield Compare("ge", add(atom(symbol), Linear(-low)))
            yield Compare("ge", add(Linear(high), atom(symbol), -1))
