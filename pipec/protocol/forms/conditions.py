"""The assumptions of a proof on sizes, as conditions that a launch checks."""

from collections.abc import Sequence

from pipec.interface import DimensionParameter, KernelInterface, ScalarParameter, TensorArgument
from pipec.record import replace
from pipec.verify.condition_text import condition_words
from pipec.verify.conditions import GRID, condition_data, launchable, met, names_in
from pipec.verify.terms import Formula, Linear, Symbol, atom, floor, substituted

# Why a condition is not required of a launch.
UNASKED = "the proof needs a condition that no launch can check"
FEW_SIZES = "arithmetic may wrap at 32 bits at usual sizes; that none does is known for `{}` only"
USUAL = 100  # a typical large size
_LARGE = 1 << 24  # a size that may still be usual where the others are no more than that


def with_conditions(interface: KernelInterface, assumed: Sequence[Formula]) -> KernelInterface | None:
    """The interface with the assumptions on the PTX's symbols as launch conditions; None if a launch cannot check them."""
    names, conditions = _in_words_of_launches(interface, assumed)
    if any(not launchable(one, names) or _empties(one, names) for one in conditions):
        return None
    return replace(interface, conditions=(*interface.conditions, *map(condition_data, conditions)))


def _in_words_of_launches(interface: KernelInterface, assumed: Sequence[Formula]) -> tuple[frozenset[str], list[Formula]]:
    """The names known at launch, and the conditions in terms of them."""
    names = {row.symbol: row.dimension for row in interface.parameters if isinstance(row, DimensionParameter)}
    scalars = [row for row in interface.parameters if isinstance(row, ScalarParameter)]
    names |= {row.symbol: row.scalar for row in scalars if row.dtype in ("i32", "i64", "u32", "u64")}
    # (What the reader calls a size that no thread reads, and an `assume` speaks of.)
    tensors = (one for one in interface.arguments if isinstance(one, TensorArgument))
    names |= {f"size {size}": size for one in tensors for size in one.shape if isinstance(size, str)}
    names |= {f"%nctaid.{axis}": here for here, axis in zip(GRID, "xyz", strict=True)}
    values: dict[Symbol, Linear] = {Symbol(symbol): atom(Symbol(name)) for symbol, name in names.items()}
    for here, axis, together in zip(GRID, "xyz", interface.cluster, strict=True):
        values[Symbol(f"%nclusterid.{axis}")] = floor(atom(Symbol(here)), together)
    return frozenset(names.values()), [substituted(one, values) for one in assumed]


def _empties(condition: Formula, names: frozenset[str]) -> bool:
    """Whether only few sizes satisfy the condition. Useful conditions keep numbers far beyond any array within 32 bits; a condition that
    requires empty arrays would make the proof vacuous."""
    return not met(condition, dict.fromkeys(names, USUAL))


def narrow(condition: Formula) -> bool:
    """Whether it refuses usual launches, of one size that is large: as where it takes a grid at its largest, and leaves little for a size
    by which the place of a block is multiplied."""
    names = names_in(condition)
    return any(not met(condition, {name: _LARGE if name == one else USUAL for name in names}) for one in names)


def why_unasked(interface: KernelInterface, assumed: Sequence[Formula]) -> str:
    names, conditions = _in_words_of_launches(interface, assumed)
    few = next((one for one in conditions if launchable(one, names) and _empties(one, names)), None)
    return UNASKED if few is None else FEW_SIZES.format(condition_words(few))
