"""Blocks that take turns through a counter in global memory (E061x)."""

from pipec.diag.catalogue.grid import global_memory as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.kir.global_memory.accesses import collect
from pipec.kir.global_memory.counters import constant_places, places
from pipec.kir.global_memory.turns import taken_by_all
from pipec.kir.plan.roles import operations
from pipec.sema import tree
from pipec.source import Span
from pipec.terms.term import Term


def check(kernel: ir.Kernel, sink: Sink) -> None:
    _within(kernel, sink)
    _as_many_as_blocks(kernel, sink)
    _for_turns_only(kernel, sink)


def _within(kernel: ir.Kernel, sink: Sink) -> None:
    """Counters must be within their tensors. What is known only at launch is checked there."""
    for place in dict.fromkeys((*places(kernel), *constant_places(kernel))):
        known = [form.constant for form in place.within() if not form.terms]
        if min(known, default=0) >= 0:
            continue
        counter = place.operation.counter
        outside = place.first if place.first.constant < 0 else place.last
        sink.report(
            messages.CounterOutside(
                tensor=counter.tensor.name,
                place=outside.constant,
                size=counter.tensor.shape[place.axis],
                at=counter.coordinates[place.axis].span,
                declared=counter.tensor.span,
            )
        )


def _as_many_as_blocks(kernel: ir.Kernel, sink: Sink) -> None:
    """If every block along axes of the grid takes a turn, there must be as many turns as blocks."""
    for taken in taken_by_all(kernel):
        # With too few turns two blocks enter at once; with too many the last block waits for one that does not exist. Numbers that may be
        # equal in some launch are not compared: either may be intended.
        if taken.too_many() in (None, 0):
            continue
        along = [blocks for axis, blocks in zip("xyz", kernel.grid, strict=True) if axis in taken.axes]
        sink.report(
            messages.TurnsOfGrid(
                axes=" and ".join(taken.axes),
                blocks=_shown(taken.blocks, " * ".join(map(_factor, along))),
                turns=_shown(taken.turns, taken.operation.turns.span.text()),
                at=taken.operation.span,
                grid=along[0].span.to(along[-1].span),
            )
        )


def _for_turns_only(kernel: ir.Kernel, sink: Sink) -> None:
    """Other blocks count at any time: nothing orders what else is done with a tensor of counters. One message for each tensor."""
    taken: dict[str, Span] = {}
    for role in kernel.roles:
        for operation in operations(role):
            if isinstance(operation, tree.AwaitTurn):
                taken.setdefault(operation.counter.tensor.name, operation.span)
    others = (access for row in collect(kernel, frozenset(taken)) for access in row.accesses) if taken else ()
    for access in others:
        if access.tensor in taken:
            sink.report(
                messages.CounterUsed(
                    tensor=access.tensor,
                    does="stores to" if access.writes else "loads from",
                    what="stored" if access.writes else "loaded",
                    at=access.span,
                    turn=taken.pop(access.tensor),
                )
            )


def _shown(term: Term, text: str) -> str:
    return f"`{text}`" if term.number is None else str(term.number)


def _factor(blocks: tree.Expression) -> str:
    return f"({blocks.span.text()})" if isinstance(blocks, tree.Binary) else blocks.span.text()
