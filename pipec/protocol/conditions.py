"""What a proof assumes of sizes, as conditions that a launch checks."""

from collections.abc import Sequence

from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter
from pipec.record import replace
from pipec.verify.conditions import GRID, condition_data, functions_in, launchable, met
from pipec.verify.terms import Formula, Linear, Symbol, atom, substituted

# Why a condition is not asked of a launch.
UNASKED = "the proof needs a condition that no launch can check"
FROM_MEMORY = "what is read here may be a number near 2^31, and arithmetic on it wrap at 32 bits"
_USUAL = 100  # a size of which a launch has many


def with_conditions(interface: KernelInterface, assumed: Sequence[Formula]) -> KernelInterface | None:
    """The interface whose launches keep to what is assumed of the PTX's symbols; None where no launch can check that."""
    names = {row.symbol: row.dimension for row in interface.parameters if isinstance(row, DimensionParameter)}
    scalars = [row for row in interface.parameters if isinstance(row, ScalarParameter)]
    names |= {row.symbol: row.scalar for row in scalars if row.dtype in ("i32", "i64", "u32", "u64")}
    names |= {f"%nctaid.{axis}": here for here, axis in zip(GRID, "xyz", strict=True)}
    values: dict[Symbol, Linear] = {Symbol(symbol): atom(Symbol(name)) for symbol, name in names.items()}
    conditions = [substituted(one, values) for one in assumed]
    # What is asked keeps numbers far beyond any array within 32 bits; a condition by which arrays must be empty would prove nothing.
    usual = dict.fromkeys(names.values(), _USUAL)
    if not all(launchable(one, frozenset(names.values())) and met(one, usual) for one in conditions):
        return None
    return replace(interface, conditions=(*interface.conditions, *map(condition_data, conditions)))


def why_unasked(assumed: Sequence[Formula]) -> str:
    return FROM_MEMORY if any(name.startswith("ld.") for one in assumed for name, _ in functions_in(one)) else UNASKED
