"""No role waits for ever (E06xx): proved for all trip counts, refuted with the smallest sizes found, or left open and said so."""

from pipec.budgets import BudgetEnded
from pipec.checks.grid.semaphores import assumption
from pipec.checks.protocol_model import programs
from pipec.checks.protocol_proof import Programs, State, holds, prove
from pipec.checks.protocol_search import Failure, Undecided, search
from pipec.checks.verdict import Verdict
from pipec.diag.catalogue.stages import protocol as messages
from pipec.diag.message import Sink
from pipec.sema import tree
from pipec.vocabulary import Side


def check(kernel: tree.Kernel, sink: Sink) -> Verdict:
    """Reports a deadlock, or pipelines whose two sides do not count alike; the verdict says what is known otherwise."""
    given = assumption(kernel)
    if not kernel.pipelines:
        return Verdict("proved", f"protocol: no role waits{given}")
    seen = programs(kernel)
    try:
        if _proved(kernel, seen):
            return Verdict(
                "proved", f"protocol: no role waits for ever, for all trip counts{given}; the certificate was checked again"
            )
        failure, runs = search(kernel, seen)
        known = f"not proved for all trip counts; no deadlock in {runs} small sizes"
    except Undecided:
        failure, known = None, "not decided; loops or branches depend on values known only inside the kernel"
    except BudgetEnded as ended:
        failure, known = None, f"not decided within {ended.budget.limit:,} {ended.budget.unit}, the budget of this check"
    if failure is not None:
        _report(failure, sink)
        return Verdict("refuted", "protocol: a deadlock was found")
    return Verdict("open", f"protocol: {known}")


def _proved(kernel: tree.Kernel, seen: Programs) -> bool:
    state = State(kernel)
    order = prove(seen, state)
    return order is not None and state.even() and holds(seen, order, State(kernel))


def _report(failure: Failure, sink: Sink) -> None:
    sizes = ", ".join(f"{name.removeprefix('parameter ')} = {value}" for name, value in failure.sizes.items())
    when = f" when {sizes}" if sizes else ""
    if not failure.blocked:
        pipeline, filled, role, consumed = failure.uneven[0]
        sink.report(
            messages.Uneven(
                pipeline=pipeline.name, filled=_times(filled), role=role, consumed=_times(consumed), when=when, at=pipeline.span
            )
        )
        return
    first, others = failure.blocked[0], failure.blocked[1:]
    waits = "; ".join(
        f"`{one.role}` waits for a stage of `{one.event.pipeline.name}` to be {_awaited(one.event.side)}"
        for one in failure.blocked
    )
    ended = (
        f"; {', '.join(f'`{role}`' for role in failure.ended)} {'has' if len(failure.ended) == 1 else 'have'} ended"
        if failure.ended
        else ""
    )
    roles = ", ".join(f"`{one.role}`" for one in failure.blocked)
    sink.report(messages.Deadlock(
        roles=f"role{'s' if others else ''} {roles} wait{'' if others else 's'}", when=when, waits=waits + ended, role=first.role,
        at=first.event.span, others=tuple(one.event.span for one in others)))  # fmt: skip


def _awaited(side: Side) -> str:
    return "given back" if side == "producer" else "filled"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
