"""Unordered accesses to global memory (E0614 to E0616, E0620 to E0622).

Within a role the compiler orders them (pipec.kir.global_memory.order) and reports where it cannot. Between two roles a hand-over must
order them: every access of one before every access of the other; or iteration by iteration, if other iterations touch other tiles; or in
turns, through a one-stage pipeline that both hold around their accesses, or through two pipelines of which one acknowledges the other; or
through any other roles that have the same loops. A stage may be awaited with a lag, from a certain iteration on.
"""

from collections.abc import Mapping

from pipec.checks.memory.chains import Chains
from pipec.checks.memory.findings import Partners
from pipec.checks.memory.hand_overs import HandOvers, Use, before, ordered, speaks_alike
from pipec.checks.summary import collect as collect_summary
from pipec.diag.catalogue.grid import global_memory as messages
from pipec.diag.message import Message, Sink
from pipec.kir.global_memory.access_pairs import Answer
from pipec.kir.global_memory.accesses import BULK, THREADS, Access, RoleAccesses, commute, may_meet, not_compared
from pipec.kir.global_memory.clocks import only_order
from pipec.kir.global_memory.order import Clash, order
from pipec.kir.global_memory.overlaps import between_roles
from pipec.kir.plan.types import Plan
from pipec.kir.walk import nodes
from pipec.sema import tree


def check_rows_anywhere(rows: tuple[RoleAccesses, ...], sink: Sink) -> bool:
    """Reports accesses to rows that are not known here and that other accesses could meet; whether there are any."""
    accesses = [access for row in rows for access in row.accesses]
    found: list[Message] = []
    for access in (one for one in accesses if one.anywhere):
        others = [one for one in accesses if one.tensor == access.tensor and one is not access]
        if not access.writes:
            store = next(one for one in others if one.writes)
            found.append(messages.GathersWhatIsStored(tensor=access.tensor, at=access.span, store=store.span))
        elif access.reduce is None:
            found.append(messages.ScattersWithoutReducing(tensor=access.tensor, at=access.span))
        elif (other := next((one for one in others if not commute(access, one)), None)) is not None:
            does = "stores to it" if other.writes else "loads from it"
            if other.writes and other.reduce is not None:
                does = f'reduces by "{other.reduce}"'
            found.append(
                messages.ScatteredAndUsed(tensor=access.tensor, does=does, reduce=access.reduce, at=access.span, other=other.span)
            )
    for message in found:
        sink.report(message)
    return bool(found)


def check(plan: Plan, rows: tuple[RoleAccesses, ...], sink: Sink) -> Mapping[Partners, Answer]:
    """Returns the roles that are taken to store different elements of a tensor, and whether that is shown."""
    clashes = [(row.role.name, clash) for row in rows for clash in order(row).clashes]
    sides = _sides(plan) if len(rows) > 1 or any(clash.under_way for _, clash in clashes) else {}
    for name, clash in clashes:
        # Completion of a copy may be established through another role, which has waited for its stage.
        if not clash.under_way or not before(sides, (name, clash.first), (name, clash.second)):
            sink.report(_clash(clash))
    if len(rows) < 2:
        return {}
    always = only_order(plan.kernel, rows, lambda pipeline, side: speaks_alike(sides, (pipeline, side)))
    completes, chains = _Completes(plan), Chains(sides, plan)
    told: set[tuple[str, str, str]] = set()
    taken: dict[Partners, None] = {}
    for number, row in enumerate(rows):
        for other in rows[number + 1 :]:
            for first in row.accesses:
                for second in other.accesses:
                    names = row.role.name, other.role.name, first.tensor
                    # One pair of roles and one tensor need one hand-over, and get one message, however many accesses there are.
                    unsure = not_compared(first, second)
                    if names in (taken if unsure else told) or not (unsure or may_meet(first, second)):
                        continue
                    mine, theirs = (row.role.name, first), (other.role.name, second)
                    if (not unsure or completes(mine, theirs)) and (
                        ordered(sides, mine, theirs) or always(first, second) or chains.order(mine, theirs)
                    ):
                        continue
                    if unsure:
                        taken[names] = None
                    else:
                        told.add(names)
                        sink.report(_unordered(row.role.name, first, other.role.name, second))
    # Stores with incomparable addresses are assumed to be disjoint, unless they overlap at a sampled size.
    orders = {one.role.name: one.global_order for one in plan.roles}
    answers = {(role, other, tensor): orders[role].beside[other, tensor] for role, other, tensor in taken}
    doubtful = {tensor for (_, _, tensor), answer in answers.items() if answer == "open"}
    found = between_roles(plan.kernel, rows, doubtful) if not told else None
    if found is not None:
        (role, use), (partner, second_use) = found.first, found.second
        sink.report(_unordered(role.name, use.access, partner.name, second_use.access, found.sizes))
    return answers


def _sides(plan: Plan) -> dict[str, HandOvers]:
    summary = {one.role.name: one for one in collect_summary(plan.kernel).roles}
    return {one.name: HandOvers(summary[one.name], plan) for one in plan.kernel.roles}


class _Completes:
    """Whether a hand-over between two roles also completes their accesses: bulk stores, and conflicts across proxies."""

    def __init__(self, plan: Plan) -> None:
        self._orders = {one.role.name: one.global_order for one in plan.roles}

    def __call__(self, *uses: Use) -> bool:
        fenced = any(access.engine != THREADS for _, access in uses)
        return all(
            row.hand_over and (row.hand_over_waits or access.engine != BULK) and (row.hand_over_fences or not fenced)
            for row, access in ((self._orders[role], access) for role, access in uses)
        )


def _clash(clash: Clash) -> Message:
    first, second, tensor = clash.first.span, clash.second.span, clash.first.tensor
    if clash.under_way:
        return messages.CopyUnderWay(tensor=tensor, at=second, copy=first)
    operation = clash.first.operation
    scalar = operation is not None and any(isinstance(one, tree.ReadElement) and one.span == first for one in nodes(operation))
    loaded = first.text() if scalar else f"registers({first.text()})"
    what = "it before every thread has loaded" if scalar else "other elements of it"
    return messages.ReadsWhatItStores(tensor=tensor, what=what, loaded=loaded, at=first, store=second)


def _unordered(role: str, one: Access, other: str, second: Access, at: Mapping[str, int] | None = None) -> Message:
    """`at`: sizes at which they use the same element, if they do not at others."""
    # The message is about the access that may observe a wrong value.
    if one.writes and not second.writes:  # that is the reader
        role, one, other, second = other, second, role, one
    both = one.writes and second.writes
    sizes = ", ".join(f"{name} = {size}" for name, size in (at or {}).items())
    return messages.UnorderedRoles(
        role=role,
        other=other,
        tensor=one.tensor,
        does="stores" if one.writes else "loads",
        other_does="stores" if second.writes else "loads",
        consequence=("either of the two may be the last" if both else "the load may find old values, new ones, or some of both")
        + (f"; with {sizes} they use the same elements" if sizes else ""),
        at=one.span,
        first=second.span,
    )
