"""Which sizes a launch can have: a block at a place beyond the grid is none, and a grid of no blocks is not launched."""

from collections.abc import Mapping

from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter, evaluate
from pipec.protocol.ranges import TILES
from pipec.verify.terms import Symbol


def launchable(interface: KernelInterface, numbers: Mapping[Symbol, int]) -> bool:
    """Whether some launch has these numbers, for all that is known of the symbols of the PTX; sizes that are not given are free."""
    named = names_of(interface)
    bindings = {named[symbol.name]: value for symbol, value in numbers.items() if symbol.name in named}
    extents = [_extent(one, bindings) for one in interface.grid]
    for axis, extent, together in zip("xyz", extents, interface.cluster, strict=True):
        clusters = None if extent is None else -(-extent // together)
        if not _within(numbers, f"ctaid.{axis}", extent) or not _within(numbers, f"clusterid.{axis}", clusters):
            return False
    known = [extent for extent in extents if extent is not None]
    # A launch of no blocks runs nothing that could wait.
    blocks = 1
    for extent in known:
        blocks *= extent
    return blocks > 0 and (len(known) < len(extents) or numbers.get(TILES, 0) <= blocks)


def names_of(interface: KernelInterface) -> dict[str, str]:
    """The source's names of sizes and scalars, by the symbols of the PTX."""
    return {
        row.symbol: row.dimension if isinstance(row, DimensionParameter) else row.scalar
        for row in interface.parameters
        if isinstance(row, (DimensionParameter, ScalarParameter))
    }


def _extent(expression: object, bindings: dict[str, int]) -> int | None:
    try:
        return evaluate(expression, bindings)
    except (KeyError, ZeroDivisionError):
        return None


def _within(numbers: Mapping[Symbol, int], name: str, extent: int | None) -> bool:
    """Whether a place along an axis lies within the extent, which is stated as `n` and the name where the PTX asks for it."""
    place, stated = numbers.get(Symbol(f"%{name}"), 0), numbers.get(Symbol(f"%n{name}"), extent)
    return stated is None or place < stated and (extent is None or stated == extent)
