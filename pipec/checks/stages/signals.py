"""How a stage's barrier is signalled: in one way, after the uses that the signal covers (E05xx)."""

from pipec.checks.stages.arrivals import ADDED_UP, Signature, check_arrivals, one_way
from pipec.checks.stages.fill_counts import count_fills
from pipec.checks.stages.payload import Payload, obtained
from pipec.checks.stages.sub_stages import release_call
from pipec.checks.summary import (
    ACCUMULATE,
    COPY,
    INDEX,
    LOAD,
    OPERAND,
    READ,
    STORE,
    WRITE,
    RoleSummary,
    StageSummary,
    Summary,
    Touch,
)
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.catalogue.stages import sub_stages
from pipec.diag.message import Sink
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.vocabulary import DRAINING, FILLING, Side, SignalKind, UseKind

# The name of a use of a stage, and who has finished with the stage when it is signalled.
_BY = {
    LOAD: "a TMA load",
    COPY: "copies of the role's threads",
    WRITE: "the role's threads",
    ACCUMULATE: "an MMA",
    OPERAND: "an MMA",
    READ: "the role's threads",
    STORE: "a TMA store",
}

# The uses that an explicit signal covers.
_COVERED = {"commit": (ACCUMULATE, OPERAND), "arrive": (WRITE, READ), "own": (*FILLING, *DRAINING)}
_WHEN = {"commit": "when the MMAs before it are complete", "arrive": "at once"}
_DONE = {
    LOAD: "filled by TMA here",
    COPY: "filled by cp.async here",
    WRITE: "written by threads here",
    ACCUMULATE: "the MMA writes it",
    OPERAND: "the MMA reads it",
    READ: "read by threads here",
    STORE: "the TMA store reads it",
}
# Why a stage is not filled, or read, in two ways, and what to do.
_ONE_TILE = (
    "the two write the same bytes in an unknown order or, on two paths, the full barrier waits for bytes that one of them does not bring",
    "fill a tile of its own by each, or obtain a stage on each path",
)
_TWO_TILES = (
    "the full barrier waits for one kind of signal: after the first of two it completes, and the rest is read too early",
    "hand over the two tiles through two pipelines",
)


def check(summary: Summary, sink: Sink) -> None:
    _one_pipeline_each(summary, sink)
    for role in summary.roles:
        counts = count_fills(role)
        signatures: dict[tuple[tree.Pipeline, Side], Signature] = {}
        for found in role.stages:
            handle = found.handle
            mixed = handle.side == "producer" and _filled_in_two_ways(found, sink)
            waits = _explicit_signals_wait(found, sink) and _one_barrier_for_bytes(found, sink)
            check_arrivals(role, found, sink)
            # The signature of a stage with two kinds of work would be that of either one, and its payload would appear unfilled.
            if mixed or not waits:
                continue
            one_way(role, found, signatures, sink)
            if handle.side == "producer" and handle in counts and found.kinds() & FILLING:
                tiles = [
                    tile
                    for tile in _tiles_of(role, handle.pipeline, summary)
                    if tile.space == "shared" or _written(tile, summary)
                ]
                Payload(role, found, tiles, counts[handle], sink).check()


def _tiles_of(role: RoleSummary, pipeline: tree.Pipeline, summary: Summary) -> list[tree.Buffer]:
    """The tiles of a pipeline that the role alone has to fill; those that no role fills are for its first producer."""
    first = next(one for one in summary.roles if any(_is_filled(handle, pipeline) for handle in one.handles))
    fillers = ((tile, summary.filled_by.get(tile, [first])) for tile in summary.handed_over[pipeline])
    return [tile for tile, found in fillers if len(found) == 1 and found[0] is role]


def _is_filled(handle: tree.Handle, pipeline: tree.Pipeline) -> bool:
    return handle.pipeline is pipeline and handle.side == "producer"


def _written(tile: tree.Buffer, summary: Summary) -> bool:
    """Whether threads hand the tile over, and no MMA."""
    producers = {touch.kind for touch in summary.touches.get(tile, ()) if touch.handle.side == "producer"}
    return WRITE in producers and ACCUMULATE not in producers


# Barriers order only what their own pipeline's stages hand over; another pipeline's roles may still use the buffer.
def _one_pipeline_each(summary: Summary, sink: Sink) -> None:
    """A buffer declared by the kernel must be handed over by the stages of one pipeline."""
    first: dict[tree.Buffer, Touch] = {}
    told: set[tree.Buffer] = set()
    for _, handle in summary.handles():
        for _, touch in handle.touches:
            buffer = touch.buffer
            if buffer is None or buffer.owner is not None or buffer in told:
                continue
            other = first.setdefault(buffer, touch)
            if other.handle.pipeline is touch.handle.pipeline:
                continue
            told.add(buffer)
            sink.report(
                messages.BufferOfTwoPipelines(
                    buffer=buffer.name,
                    one=other.handle.pipeline.name,
                    second=touch.handle.pipeline.name,
                    at=touch.span,
                    first=other.span,
                    declared=buffer.span,
                )
            )


def _filled_in_two_ways(summary: StageSummary, sink: Sink) -> bool:
    """Whether a tile of the stage is, or two of them in ways of which the signals do not add up."""
    added = ADDED_UP["producer"]
    seen: dict[tuple[UseKind, tree.Buffer | None], Touch] = {}
    for _, touch in summary.touches:
        if touch.kind not in FILLING:
            continue
        seen.setdefault((touch.kind, touch.buffer), touch)
        # Who fills a tile decides what its barrier counts: that must be the same on each path, and one would overwrite the other.
        apart = (one for one in seen.values() if one.buffer is touch.buffer or not added >= {one.kind, touch.kind})
        other = next((one for one in apart if one.kind != touch.kind), None)
        if other is None:
            continue
        consequence, instead = _ONE_TILE if other.buffer is touch.buffer else _TWO_TILES
        sink.report(
            messages.MixedFill(
                stage=summary.handle.name,
                pipeline=summary.handle.pipeline.name,
                one=_BY[other.kind],
                second=_BY[touch.kind],
                consequence=consequence,
                instead=instead,
                at=touch.span,
                first=other.span,
                obtained=obtained(summary),
            )
        )
        return True
    return False


def _explicit_signals_wait(summary: StageSummary, sink: Sink) -> bool:
    for site in summary.signals:
        signal = site.operation
        assert isinstance(signal, tree.Signal)
        early = next((touch for _, touch in summary.touches if touch.kind not in (INDEX, *_COVERED[signal.how])), None)
        if early is None:
            continue
        instead, edit = _better_signal(summary.handle, early.kind)
        sink.report(
            messages.SignalDoesNotWait(
                signal="mma.commit" if signal.how == "commit" else "arrive",
                work=_BY[early.kind],
                stage=summary.handle.name,
                instead=instead,
                edit=edit,
                when=_WHEN[signal.how],
                done=_DONE[early.kind],
                consequence=_too_early(summary.handle, signal.how, early.kind),
                at=signal.span,
                use=early.span,
                obtained=obtained(summary),
            )
        )
        return False
    return True


def _better_signal(handle: tree.Handle, kind: UseKind) -> tuple[str, str | None]:
    """The replacement for a signal that does not wait, and the edit if nothing else has to change."""
    right = _right_signal(handle, kind)
    if handle.form == "stepped" and right.startswith("mma.commit"):
        return f"write `{right}` in place of it", right
    if handle.pipeline.kind == ROLE:
        return f"write `{right}` in place of it and of the step", None
    return f"leave the signal to `{right}`, which gives the right one", None


def _right_signal(handle: tree.Handle, kind: UseKind) -> str:
    """The call that signals once work of this kind is complete."""
    if handle.form != "stepped":
        return release_call(handle)
    pipeline = handle.pipeline.name
    if kind in (ACCUMULATE, OPERAND):
        return f"mma.commit({pipeline}.{handle.side}_mbar({handle.name}))"
    return f"{pipeline}.{handle.side}_step()" if kind in (LOAD, COPY) else f"{pipeline}.consume()"


def _one_barrier_for_bytes(summary: StageSummary, sink: Sink) -> bool:
    pipeline = summary.handle.pipeline
    load = next((touch for _, touch in summary.touches if touch.kind == LOAD), None)
    # A copy completes its bytes on a single barrier, chosen at issue; the stage's other sub-stages would not be signalled.
    if load is None or pipeline.producer_sub_stages == 1:
        return True
    count = pipeline.producer_sub_stages
    sink.report(sub_stages.SubStageCopies(pipeline=pipeline.name, count=count, at=load.span, declared=pipeline.span))
    return False


def _too_early(handle: tree.Handle, how: SignalKind, kind: UseKind) -> str:
    name = handle.pipeline.name
    if handle.side == "consumer":
        return f"the producer of `{name}` may overwrite the slot while it is still read"
    if how == "commit" and kind == LOAD:
        return f"the full barrier of `{name}` gets an arrival besides the bytes and completes a phase that nothing filled"
    return f"the consumers of `{name}` may read the slot before it is filled"
