"""The barriers and fences that order a kernel's accesses to global memory, by role."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations, combinations_with_replacement, product

from pipec.kir.global_memory.access_pairs import AccessPair, Answer, Use, all_apart
from pipec.kir.global_memory.accesses import Access, RoleAccesses, not_compared
from pipec.kir.global_memory.order import Ordering, hands_over, order
from pipec.kir.global_memory.overlaps import (
    Doubts,
    StoreOverlaps,
    answers_of_blocks,
    stores_again,
    stores_again_where_sizes_differ,
)
from pipec.kir.ir import Kernel
from pipec.kir.plan.roles import operations
from pipec.kir.plan.types import GlobalOrder
from pipec.sema import tree


def plan_global(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> dict[str, GlobalOrder]:
    """Only for roles that touch what the kernel writes, and touches elsewhere as well."""
    again = stores_again(kernel, rows)
    orders = _orders(rows, again)
    twice = AccessPair(kernel)
    stores = {row.role.name: _stores(row) for row in rows}
    taken = {name: _own(twice, stores[name], own.taken) for name, own in orders.items()}
    beside: dict[str, dict[tuple[str, str], Answer]] = {}
    for (name, other, tensor), answer in _beside(twice, stores):
        beside.setdefault(name, {})[other, tensor] = answer
    doubtful = Doubts(
        {name for name, answers in taken.items() if "open" in answers.values()},
        {tensor for answers in beside.values() for (_, tensor), answer in answers.items() if answer == "open"},
    )
    more = stores_again_where_sizes_differ(kernel, rows, doubtful)
    if more.shared or any(more.own.values()):
        again = again.joined(more)
        orders = _orders(rows, again)
    stored_by_both = {access for pair in again.shared for access in pair}
    handed = hands_over(rows, stored_by_both | _in_turns_of_others(kernel, rows))
    found: dict[str, GlobalOrder] = {}
    for name, own in orders.items():
        waits, fences = handed.get(name, (False, False))
        still = {tensor: answer for tensor, answer in taken[name].items() if tensor in own.taken}
        found[name] = GlobalOrder(
            own.before, own.at_end, own.waits, own.fences, name in handed, waits, fences, still, beside.get(name, {})
        )
    return found


def _in_turns_of_others(kernel: Kernel, rows: tuple[RoleAccesses, ...]) -> frozenset[Access]:
    """The accesses that turns of another role may order among blocks. Who passes a turn on completes what its own role has done; what
    others have done by then is complete where they hand something over."""
    taking = {role.name for role in kernel.roles if any(isinstance(one, tree.AwaitTurn) for one in operations(role))}
    beside = [access for row in rows if taking - {row.role.name} for access in row.accesses]
    if not beside:
        return frozenset()
    answers = answers_of_blocks(kernel, rows)
    return frozenset(access for access in beside if answers[access.tensor] == "open")


def _orders(rows: tuple[RoleAccesses, ...], again: StoreOverlaps) -> dict[str, Ordering]:
    return {row.role.name: order(row, again.own.get(row.role.name, ())) for row in rows}


def _own(twice: AccessPair, stores: Mapping[str, list[Use]], tensors: Iterable[str]) -> dict[str, Answer]:
    return {tensor: all_apart(twice, combinations_with_replacement(stores[tensor], 2)) for tensor in sorted(tensors)}


def _beside(twice: AccessPair, stores: Mapping[str, Mapping[str, list[Use]]]) -> Iterator[tuple[tuple[str, str, str], Answer]]:
    """Of two roles and a tensor, in the order of the roles, where their tiles alone do not show it."""
    of_tensor: dict[str, list[str]] = {}
    for name, tensors in stores.items():
        for tensor in tensors:
            of_tensor.setdefault(tensor, []).append(name)
    for tensor, names in of_tensor.items():
        for name, other in combinations(names, 2):
            pairs = list(product(stores[name][tensor], stores[other][tensor]))
            if any(not_compared(one, second) for (_, one), (_, second) in pairs):
                yield (name, other, tensor), all_apart(twice, pairs)


def _stores(row: RoleAccesses) -> dict[str, list[Use]]:
    found: dict[str, list[Use]] = {}
    for one in row.accesses:
        if one.writes:
            found.setdefault(one.tensor, []).append((row.role, one))
    return found
