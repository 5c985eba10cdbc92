"""A stage's barrier receives the arrivals it was initialised with, on every path of its role (E05xx)."""

from typing import Literal

from pipec.checks.summary import ACCUMULATE, LOAD, OPERAND, READ, STORE, RoleSummary, StageSummary
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.message import Sink
from pipec.diag.shown import counted
from pipec.isa.targets import WARP
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import BARRIER_SIDE, DRAINING, FILLING, Side


def check_arrivals(role: RoleSummary, summary: StageSummary, sink: Sink) -> None:
    for site in summary.signals:
        participation = role.role.blocks[site.block].participation
        # A barrier without arrivals never completes its phase (hardware.md 1.1).
        if participation.lanes is not None and participation.lanes <= 0:
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
    role: RoleSummary, summary: StageSummary, signatures: dict[tuple[tree.Pipeline, Side], Signature], sink: Sink
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
        found = []
        for site in summary.signals:
            signal = site.operation
            assert isinstance(signal, tree.Signal)
            lanes = role.role.blocks[site.block].participation.lanes
            if signal.how == "own":
                found.append(_own_signature(role, summary, lanes, signal.span))
            else:
                found.append(_signature(role, "threads" if signal.how == "arrive" else "commit", lanes, signal.span))
        return found
    if not summary.releases:
        return []
    return [_own_signature(role, summary, None, summary.releases[0].operation.span)]


def multiplied_in_registers(summary: StageSummary) -> bool:
    return any(isinstance(touch.operation, tree.RegisterMma) for _, touch in summary.touches if touch.kind == OPERAND)


# The order of the cases matters: TMA and commits arrive by themselves once their work is done; a thread's arrival instead of theirs would
# precede completion.
def _own_signature(role: RoleSummary, summary: StageSummary, lanes: int | None, span: Span) -> Signature:
    """The signal that the use of the stage requires."""
    used = DRAINING if summary.handle.side == "consumer" else FILLING
    kinds = summary.kinds() & set(used)
    alike = [
        one for one in role.stages if (one.handle.pipeline, one.handle.side) == (summary.handle.pipeline, summary.handle.side)
    ]
    if any(map(multiplied_in_registers, alike)):
        # wgmma has no commit that arrives on a barrier (hardware.md 8): each warp waits for its MMAs and arrives once. Where threads read
        # some of the stages, they arrive for all of them.
        kinds = {kind for one in alike for kind in one.kinds()}
        warps = Signature(f"{role.role.warps} warps whose MMAs are complete", role.role.warps, span)
        if READ not in kinds:
            return warps
        threads = _signature(role, "threads", lanes, span)
        return Signature(f"{warps.words} and {threads.words}", warps.arrivals + threads.arrivals, span)
    if kinds & {ACCUMULATE, OPERAND}:
        return _signature(role, "commit", lanes, span)
    if LOAD in kinds:
        return Signature("TMA bytes", 1, span)
    if STORE in kinds:
        return Signature("a finished TMA store", 1, span)
    return _signature(role, "threads", lanes, span)


def _signature(role: RoleSummary, how: Literal["threads", "commit"], lanes: int | None, span: Span) -> Signature:
    if how == "commit":
        return Signature("an MMA commit", 1, span)
    arrivals = (WARP if lanes is None else lanes) * role.role.warps
    return Signature(f"{arrivals} threads arriving" if arrivals != 1 else "1 thread arriving", arrivals, span)
