"""A stage's barrier receives the arrivals it was initialised with, on every path of its role (E05xx)."""

from typing import Final, Literal

from pipec.checks.summary import ACCUMULATE, COPY, LOAD, OPERAND, READ, STORE, WRITE, RoleSummary, StageSummary
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.targets import WARP
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import BARRIER_SIDE, DRAINING, FILLING, Side, UseKind

# The signals of these uses add up on a barrier, also on those of other CTAs: a role gives all of them for each stage, at once where there
# is nothing to wait for.
ADDED_UP: Final[dict[Side, frozenset[UseKind]]] = {
    "producer": frozenset((LOAD, COPY, WRITE)),
    "consumer": frozenset((READ, OPERAND, STORE)),
}


def check_arrivals(role: RoleSummary, summary: StageSummary, sink: Sink) -> None:
    for site in summary.signals:
        participation = role.role.blocks[site.block].participation
        # A barrier without arrivals never completes its phase (hardware.md 1.1).
        if participation.threads == "some" and not participation.chosen:
            sink.report(
                messages.NoArrival(
                    stage=summary.handle.name,
                    pipeline=summary.handle.pipeline.name,
                    at=site.operation.span,
                    guard=participation.guard,
                )
            )


@record
class Signature:
    """How one stage is signalled: the description, and the number of arrivals."""

    words: str
    arrivals: int
    span: Span


def one_way(
    role: RoleSummary,
    summary: StageSummary,
    signatures: dict[tuple[tree.Pipeline, Side], Signature],
    sink: Sink,
) -> None:
    """A role must signal all stages of a pipeline in the same way."""
    handle = summary.handle
    for signature in _signatures(role, summary):
        # A barrier is initialised with one count for all phases (hardware.md 1.1), so a second way of signalling would complete a phase
        # too early, or never.
        first = signatures.setdefault((handle.pipeline, handle.side), signature)
        if (first.words, first.arrivals) == (signature.words, signature.arrivals):
            continue
        sink.report(
            messages.SignalsDiffer(
                role=role.role.name,
                pipeline=handle.pipeline.name,
                one=first.words,
                second=signature.words,
                barrier=BARRIER_SIDE[handle.side],
                expected=counted(first.arrivals, "arrival"),
                found=str(signature.arrivals),
                at=signature.span,
                first=first.span,
                declared=handle.pipeline.span,
            )
        )
        return


def _signatures(role: RoleSummary, summary: StageSummary) -> list[Signature]:
    if summary.signals:
        found: list[Signature] = []
        if multiplied_in_registers(summary) and any(_is_commit(site.operation) for site in summary.signals):
            return found  # the target has no such commit (E0903)
        for site in summary.signals:
            signal = site.operation
            assert isinstance(signal, tree.Signal)
            chosen = role.role.blocks[site.block].participation.chosen
            arriving = None if chosen is None else len(chosen)
            if signal.how == "own":
                found.append(_own_signature(role, summary, arriving, signal.span))
            else:
                found.append(_signature(role, "threads" if signal.how == "arrive" else "commit", arriving, signal.span))
        # Of a stage that goes from name to name some signals may be given by releases alone.
        given = (site.operation for site in summary.releases if site.operation in role.signalling)
        found += [_own_signature(role, summary, None, one.span) for one in given if isinstance(one, tree.Release) and one.signals]
        return sorted(found, key=lambda one: (one.span.line, one.span.column))
    if not summary.releases:
        return []
    return [_own_signature(role, summary, None, summary.releases[0].operation.span)]


def _is_commit(operation: tree.Operation) -> bool:
    return isinstance(operation, tree.Signal) and operation.how == "commit"


def multiplied_in_registers(summary: StageSummary) -> bool:
    return any(isinstance(touch.operation, tree.RegisterMma) for _, touch in summary.touches if touch.kind == OPERAND)


def _own_signature(role: RoleSummary, summary: StageSummary, arriving: int | None, span: Span) -> Signature:
    """The signals that the uses of the role's stages require."""
    side, used = summary.handle.side, DRAINING if summary.handle.side == "consumer" else FILLING
    alike = [one for one in role.stages if (one.handle.pipeline, one.handle.side) == (summary.handle.pipeline, side)]
    kinds = summary.kinds() & used
    together = {kind for one in alike for kind in one.kinds()} & used
    by_hand = any(
        isinstance(site.operation, tree.Signal) and site.operation.how != "own" for one in alike for site in one.signals
    )
    # A consumer gives a stage that it does not use back like the others. Of a producer their signals would say too much.
    if (kinds or side == "consumer") and together <= ADDED_UP[side] and not by_hand:
        kinds = together
    # TMA and commits arrive by themselves once their work is done; a thread's arrival instead of theirs would precede completion.
    found = []
    if kinds & {ACCUMULATE, OPERAND}:
        if any(map(multiplied_in_registers, alike)):
            # wgmma has no commit that arrives on a barrier (hardware.md 8): each warp waits for its MMAs and arrives once.
            found.append(Signature(f"{role.role.warps} warps whose MMAs are complete", role.role.warps, span))
        else:
            found.append(_signature(role, "commit", arriving, span))
    if LOAD in kinds:
        found.append(Signature("TMA bytes", 1, span))
    if STORE in kinds:
        found.append(Signature("a finished TMA store", 1, span))
    if COPY in kinds:
        found.append(_signature(role, "threads", None, span))
    if kinds & {READ, WRITE} or not kinds:
        found.append(_signature(role, "threads", arriving, span))
    return Signature(" and ".join(one.words for one in found), sum(one.arrivals for one in found), span)


def _signature(role: RoleSummary, how: Literal["threads", "commit"], arriving: int | None, span: Span) -> Signature:
    if how == "commit":
        return Signature("an MMA commit", 1, span)
    arrivals = WARP * role.role.warps if arriving is None else arriving
    return Signature(f"{arrivals} threads arriving" if arrivals != 1 else "1 thread arriving", arrivals, span)
