"""Which sizes a launch can have: block indices must be inside the grid, and a grid must not be empty."""

from collections.abc import Mapping
from math import prod

from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter, evaluate
from pipec.protocol.forms.ranges import TILES
from pipec.protocol.forms.sample import Numbers
from pipec.verify.terms import Symbol


class Launches:
    """Launches of which nothing is known. Called with sizes: whether a launch can have them."""

    def __call__(self, numbers: Numbers) -> bool:
        return True

    def extents(self, numbers: Numbers) -> list[int | None]:
        """Of the grid along x, y and z, where they follow from the sizes."""
        return [None, None, None]


ANY = Launches()


class LaunchesOf(Launches):
    """Those of a kernel, as far as the symbols of the PTX are known; unspecified sizes are free."""

    def __init__(self, interface: KernelInterface) -> None:
        self._interface, self._named = interface, names_of(interface)

    def __call__(self, numbers: Numbers) -> bool:
        extents = self.extents(numbers)
        for axis, extent, together in zip("xyz", extents, self._interface.cluster, strict=True):
            clusters = None if extent is None else -(-extent // together)
            if not _within(numbers, f"ctaid.{axis}", extent) or not _within(numbers, f"clusterid.{axis}", clusters):
                return False
        known = [extent for extent in extents if extent is not None]
        # A launch without blocks cannot wait.
        blocks = prod(known)
        return blocks > 0 and (len(known) < len(extents) or numbers.get(TILES, 0) <= blocks)

    def extents(self, numbers: Numbers) -> list[int | None]:
        bindings = {self._named[symbol.name]: value for symbol, value in numbers.items() if symbol.name in self._named}
        return [_extent(one, bindings) for one in self._interface.grid]


def names_of(interface: KernelInterface) -> dict[str, str]:
    """The source names of sizes and scalars, by PTX symbol."""
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
    """Whether an index along an axis is below the extent, which is also given as `n` plus the name if the PTX reads it."""
    place, stated = numbers.get(Symbol(f"%{name}"), 0), numbers.get(Symbol(f"%n{name}"), extent)
    return stated is None or place < stated and (extent is None or stated == extent)
