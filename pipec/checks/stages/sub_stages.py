"""The part of pipec.checks.stages.linear about sub-stages: each is waited for once and signalled once before the step (E032x).

A stage without sub-stages has one per side, so the same rules apply to every pipeline.
"""

from pipec.checks.summary import COPY, LOAD, StageSummary, Summary, Touch
from pipec.diag.catalogue.stages import sub_stages as messages
from pipec.diag.message import Message, Sink
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.source import Span
from pipec.vocabulary import FILLING, OTHER_SIDE, Side

_WAIT = {"producer": "acquire", "consumer": "wait"}
_SIGNALLED = {"producer": "handed over", "consumer": "released"}


def check(summary: Summary, sink: Sink) -> None:
    """A tile selected by the index of a sub-stage must be filled and read under that sub-stage (E0339); one message per tile.

    Both sides number by the side with more sub-stages, so the numbers can be compared.
    """
    places: dict[tuple[tree.Buffer, tree.Pipeline], list[Touch]] = {}
    for _, handle in summary.handles():
        for _, touch in handle.touches:
            if touch.buffer is not None and touch.sub_stage is not None:
                places.setdefault((touch.buffer, touch.handle.pipeline), []).append(touch)
    for (buffer, pipeline), touches in places.items():
        filled = next((touch for touch in touches if touch.kind in FILLING), touches[0])
        wrong = next((touch for touch in touches if touch.sub_stage != filled.sub_stage), None)
        if wrong is None:
            continue
        reads = wrong.kind not in FILLING
        sink.report(
            messages.WrongSubStage(
                buffer=buffer.label,
                pipeline=pipeline.name,
                used="read" if reads else "filled",
                other_used="filled" if filled.kind in FILLING else "read",
                sub_stage=wrong.sub_stage or 0,
                other=filled.sub_stage or 0,
                consequence=_UNORDERED["read" if reads else "filled"],
                at=wrong.span,
                first=filled.span,
            )
        )


_UNORDERED = {
    "read": "the signal that is waited for says nothing about this tile: what is read may be the values before, or half of the new ones",
    "filled": "the release that is waited for says nothing about this tile: its readers may still be at it",
}


def covered(touch: Touch, side: Side) -> set[int]:
    """The sub-stages of a side that hand over the touched tile.

    The sub-stage in `tiles[p.index[sub]()]` refers to the side with more of them. A side with one hands over everything; if the sides
    are divided differently, the sub-stages of the coarser one cannot be distinguished.
    """
    pipeline = touch.handle.pipeline
    count = pipeline.sub_stages(side)
    if touch.sub_stage is not None and count >= pipeline.sub_stages(OTHER_SIDE[side]):
        return {touch.sub_stage}
    return set(range(count))


def missing(
    step: tree.Release, given: tuple[tree.Signal, ...], awaited: tuple[tree.Acquire, ...], summary: StageSummary
) -> Message | None:
    """The waits and signals that the stage still lacks at its step."""
    handle = step.handle
    pipeline, side = handle.pipeline, handle.side
    lacking = set(range(pipeline.sub_stages(OTHER_SIDE[side]))) - {acquire.sub_stage for acquire in awaited}
    if lacking:
        return messages.SubStageNotAwaited(
            missing=_list(lacking),
            pipeline=pipeline.name,
            other=OTHER_SIDE[side],
            wait=_WAIT[side],
            at=step.span,
            awaited=tuple(acquire.span for acquire in awaited),
        )
    unsignalled = set(range(pipeline.sub_stages(side))) - {signal.sub_stage for signal in given}
    # The bytes of TMA and the arrivals of cp.async signal by themselves, for the whole stage.
    by_bytes = bool(summary.kinds() & {LOAD, COPY})
    if not unsignalled or step.signals or by_bytes or pipeline.kind != ROLE:
        return None
    return messages.SubStageNotSignalled(
        missing=_list(unsignalled),
        pipeline=pipeline.name,
        verb=_SIGNALLED[side],
        waiter=f"the {OTHER_SIDE[side]}",
        call=_signal_call(pipeline, side, min(unsignalled)),
        at=step.span,
        given=tuple(signal.span for signal in given if signal.span is not step.span),
        obtained=awaited[0].span if awaited else None,
    )


def _signal_call(pipeline: tree.Pipeline, side: Side, sub_stage: int) -> str:
    if side == "consumer":
        return f"{pipeline.name}.release_no_step[{sub_stage}]()"
    return f"{pipeline.name}.producer_mbar[{sub_stage}]().arrive()"


def release_call(handle: tree.Handle) -> str:
    """The call that signals and steps."""
    if handle.pipeline.kind == ROLE:
        return f"{handle.pipeline.name}.{'commit' if handle.side == 'producer' else 'release'}()"
    return f"{handle.name}.release()"


def used_before_wait(touch: Touch, use: str, awaited: tuple[tree.Acquire, ...]) -> Message | None:
    handle = touch.handle
    lacking = covered(touch, OTHER_SIDE[handle.side]) - {acquire.sub_stage for acquire in awaited}
    if not lacking:
        return None
    return messages.UsedBeforeWait(
        tile=touch.span.text(),
        use=use,
        missing=_list(lacking),
        pipeline=handle.pipeline.name,
        other=OTHER_SIDE[handle.side],
        wait=_WAIT[handle.side],
        at=touch.span,
        awaited=tuple(acquire.span for acquire in awaited),
    )


def awaited_twice(again: tree.Acquire, awaited: tuple[tree.Acquire, ...]) -> Message:
    pipeline, side = again.handle.pipeline, again.handle.side
    steps = {"producer": f"`{pipeline.name}.commit()` or `{pipeline.name}.step()`", "consumer": f"`{pipeline.name}.release()`"}
    gone = {"producer": "the first is never handed over", "consumer": "the first is never given back"}
    return messages.SubStageAwaitedTwice(
        sub_stage=again.sub_stage,
        pipeline=pipeline.name,
        consequence=gone[side],
        fix=f"call {steps[side]} before this",
        at=again.span,
        first=next((acquire.span for acquire in awaited if acquire.sub_stage == again.sub_stage), None),
    )


def on_one_branch(handle: tree.Handle, sub_stage: int, at: Span, branch: Span | None, obtained: Span | None) -> Message:
    return messages.SubStageOnOneBranch(
        sub_stage=sub_stage,
        pipeline=handle.pipeline.name,
        other=OTHER_SIDE[handle.side],
        at=at,
        branch=branch,
        obtained=obtained if obtained is not at else None,
    )


def _list(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
