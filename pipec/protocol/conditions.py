"""What a proof assumes of sizes, as conditions that a launch checks."""

from collections.abc import Sequence

from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter
from pipec.record import replace
from pipec.verify.conditions import GRID, condition_data, launchable
from pipec.verify.terms import Formula, Linear, Symbol, atom, substituted


def with_conditions(interface: KernelInterface, assumed: Sequence[Formula]) -> KernelInterface | None:
    """The interface whose launches keep to what is assumed of the PTX's symbols; None where no launch can check that."""
    names = {row.symbol: row.dimension for row in interface.parameters if isinstance(row, DimensionParameter)}
    scalars = [row for row in interface.parameters if isinstance(row, ScalarParameter)]
    names |= {row.symbol: row.scalar for row in scalars if row.dtype in ("i32", "i64", "u32", "u64")}
    names |= {f"%nctaid.{axis}": here for here, axis in zip(GRID, "xyz", strict=True)}
    values: dict[Symbol, Linear] = {Symbol(symbol): atom(Symbol(name)) for symbol, name in names.items()}
    conditions = [substituted(one, values) for one in assumed]
    if not all(launchable(one, frozenset(names.values())) for one in conditions):
        return None
    return replace(interface, conditions=(*interface.conditions, *map(condition_data, conditions)))
