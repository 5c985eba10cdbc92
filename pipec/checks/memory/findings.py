"""What the checks of global memory found: for every launch, or only assumed, neither proved nor checked at launch. A report lists both."""

from collections.abc import Iterator, Mapping

from pipec.checks.verdict import Findings
from pipec.kir.global_memory.access_pairs import Answer, worst
from pipec.kir.global_memory.accesses import Access, RoleAccesses, commute
from pipec.kir.global_memory.counters import unplaced
from pipec.kir.global_memory.starts import starts_inside, unstarted
from pipec.kir.global_memory.turns import left_over
from pipec.kir.plan.types import Plan
from pipec.sema import tree

Partners = tuple[str, str, str]  # two roles and a tensor
_FITTING = ", if no index overflows 32 bits"


def findings(
    plan: Plan, rows: tuple[RoleAccesses, ...], blocks: Mapping[str, Answer], partners: Mapping[Partners, Answer]
) -> Findings:
    """`blocks`: for each tensor whether blocks share no elements; `partners`: the same of roles that both store to a tensor."""
    answered = (*_of_blocks(plan, rows, blocks), *_of_roles(plan, rows, partners), *_of_starts(plan, rows), *_of_counters(plan))
    checked = (sentence + (_FITTING if answer == "fitting" else "") for sentence, answer in answered if answer != "open")
    assumed = (*(sentence for sentence, answer in answered if answer == "open"), *_of_left_over(plan))
    return Findings(tuple(checked), assumed)


def _of_blocks(plan: Plan, rows: tuple[RoleAccesses, ...], blocks: Mapping[str, Answer]) -> Iterator[tuple[str, Answer]]:
    operations = (one for role in plan.kernel.roles for block in role.blocks for one in block.operations)
    turns = any(isinstance(one, tree.AwaitTurn) for one in operations)
    for tensor, answer in blocks.items():
        uses = [access for row in rows for access in row.accesses if access.tensor == tensor]
        if answer == "open" or turns or any(access.reduce is not None for access in uses):
            yield f"{tensor}: {_alone(uses, turns)}", answer
        elif all(access.writes for access in uses):
            yield f"{tensor}: no element is stored by two blocks", answer
        else:
            yield f"{tensor}: {_alone(uses, turns)}", answer


def _alone(uses: list[Access], turns: bool) -> str:
    if all(commute(one, other) for one in uses for other in uses):
        return "blocks only reduce into it, in any order"
    but = [*(["in another turn"] if turns else []), *(["to reduce in the same way"] if any(one.reduce for one in uses) else [])]
    return f"what one block stores no other touches{' but ' + ' or '.join(but) if but else ''}"


def _of_roles(plan: Plan, rows: tuple[RoleAccesses, ...], partners: Mapping[Partners, Answer]) -> Iterator[tuple[str, Answer]]:
    for (role, other, tensor), answer in partners.items():
        yield f"{tensor}: roles `{role}` and `{other}` store different elements", answer
    orders = {one.role.name: one.global_order for one in plan.roles}
    for row in rows:
        for tensor, answer in orders[row.role.name].taken.items():
            yield f"{tensor}: role `{row.role.name}` stores different elements each time", answer


def _of_starts(plan: Plan, rows: tuple[RoleAccesses, ...]) -> Iterator[tuple[str, Answer]]:
    found: dict[str, Answer] = {}
    for role, access in unstarted(rows):
        where = access.where.span.text()
        found[where] = worst((found.get(where, "shown"), starts_inside(plan.kernel, role, access)))
    for where, answer in found.items():
        yield f"stores: `{where}` starts at no negative coordinate", answer


def _of_counters(plan: Plan) -> Iterator[tuple[str, Answer]]:
    found: dict[str, Answer] = {}
    for operation, answer in unplaced(plan.kernel):
        where = operation.counter.span.text()
        found[where] = worst((found.get(where, "shown"), answer))
    for where, answer in found.items():
        yield f"counters: `{where}` lies inside its tensor", answer


def _of_left_over(plan: Plan) -> Iterator[str]:
    for turn in dict.fromkeys((one.counter.span.text(), one.turns.span.text()) for one in left_over(plan.kernel)):
        yield "counters: `{}` is zero again at the end: as many blocks take a turn as `{}` says".format(*turn)
