"""What a launch says of the number of blocks where a share of tiles is multiplied: none of the blocks is left without a tile. And of which
numbers of blocks something is to be said, as the place of a block is multiplied.

One loop over the blocks of K of all tiles of a block goes round `share * K` times, and a share is told apart from one that is rounded
up from 0 only if there are no more blocks than tiles. Elsewhere this would only make each question of a proof longer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipec.verify.network import Process, Test, edges_of
from pipec.verify.reader.processes.leaps import goes_on
from pipec.verify.reader.text.interface import Interface
from pipec.verify.terms import (
    RANGES,
    Apply,
    Both,
    Compare,
    Either,
    Formula,
    Linear,
    add,
    atom,
    computed_in,
    forms_of,
    is_quotient,
    symbols_of,
)


def blocks_at_most(interface: Interface, processes: Iterable[Process], names: set[str]) -> Iterator[Formula]:
    """`names`: of the symbols about which there are facts."""
    if not any(map(_multiplies_shares, processes)):
        return
    for axis, bounds in zip("xyz", interface.most, strict=True):
        blocks = interface.blocks(axis)
        for most in bounds:
            if {one.name for one in symbols_of(most) | symbols_of(blocks)} <= names:
                yield Compare("ge", add(most, blocks, -1))


def ends_of_portions(ends: Mapping[Linear, tuple[Linear, Linear]], processes: Sequence[Process]) -> Iterator[Formula]:
    """That where a block's portion of the tiles ends is a signed number, as far as a process counts from where it begins; and, where some
    process goes on from numbers that it computes, as to the end of a tile, that portions of no less than 0 tiles lie among these. `ends`:
    by where a portion begins, and what it is one of."""
    given = {form for process in processes for form in _forms(process)}
    within = any(map(goes_on, processes))
    for begin, (end, whole) in ends.items():
        if begin in given:
            yield Compare("ge", add(Linear(RANGES["s32"][1]), end, -1))
            if within:
                among = Both((Compare("ge", begin), Compare("ge", add(whole, end, -1))))
                yield Either((Compare("ge", add(Linear(-1), whole, -1)), among))


def multiplied_places(interface: Interface, processes: Iterable[Process]) -> Iterator[str]:
    """The symbols of numbers of blocks, or clusters, of which a launch is asked for few: where a block's place is multiplied by a size, a
    bound that holds in the largest grid would leave next to nothing for the size."""
    products = [one for process in processes for form in _forms(process) for one in computed_in(form) if len(one.arguments) == 2]
    found = {symbol.name for one in products for symbol in symbols_of(atom(one))}
    for axis, extent in zip("xyz", interface.launch, strict=True):
        if extent is None or extent.terms:
            yield from (f"%n{kind}id.{axis}" for kind in ("cta", "cluster") if f"%{kind}id.{axis}" in found)


def _forms(process: Process) -> Iterator[Linear]:
    """What the process compares, and gives to registers."""
    for state in process.states:
        if isinstance(state.action, Test):
            yield from forms_of(state.action.condition)
        for edge in edges_of(state.action):
            yield from (form for _, form in edge.values if form is not None)


def _multiplies_shares(process: Process) -> bool:
    return any(map(_has_product, _forms(process)))


def _has_product(form: Linear) -> bool:
    factors = (
        each for one, _ in form.terms if isinstance(one, Apply) and one.function.startswith("mul.lo.") for each in one.arguments
    )
    return any(is_quotient(part) for each in factors for part, _ in each.terms)
