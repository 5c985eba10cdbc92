"""What a launch says of the number of blocks where a share of tiles is multiplied: none of the blocks is left without a tile.

One loop over the blocks of K of all tiles of a block goes round `share * K` times, and a share is told apart from one that is rounded
up from 0 only if there are no more blocks than tiles. Elsewhere this would only make each question of a proof longer.
"""

from collections.abc import Iterable, Iterator

from pipec.verify.network import Process, Test, edges_of
from pipec.verify.reader.text.interface import Interface
from pipec.verify.terms import Apply, Compare, Formula, Linear, add, forms_of, is_quotient, symbols_of


def blocks_at_most(interface: Interface, processes: Iterable[Process], names: set[str]) -> Iterator[Formula]:
    """`names`: of the symbols about which there are facts."""
    if not any(map(_multiplies_shares, processes)):
        return
    for axis, bounds in zip("xyz", interface.most, strict=True):
        blocks = interface.blocks(axis)
        for most in bounds:
            if {one.name for one in symbols_of(most) | symbols_of(blocks)} <= names:
                yield Compare("ge", add(most, blocks, -1))


def _multiplies_shares(process: Process) -> bool:
    for state in process.states:
        if isinstance(state.action, Test) and any(map(_has_product, forms_of(state.action.condition))):
            return True
        if any(form is not None and _has_product(form) for edge in edges_of(state.action) for _, form in edge.values):
            return True
    return False


def _has_product(form: Linear) -> bool:
    factors = (
        each for one, _ in form.terms if isinstance(one, Apply) and one.function.startswith("mul.lo.") for each in one.arguments
    )
    return any(is_quotient(part) for each in factors for part, _ in each.terms)
