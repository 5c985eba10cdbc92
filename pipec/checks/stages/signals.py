"""A stage's barrier receives exactly the arrivals and bytes it waits for (E05xx)."""

from typing import Literal

from pipec.checks.stages.fill_counts import UNBOUNDED, Fills, count_fills
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
from pipec.isa.targets import WARP
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.sema.language.operation import ROLE
from pipec.source import Span
from pipec.vocabulary import BARRIER_SIDE, Side, SignalKind, UseKind

# What a use of a stage is called, and who is done with the stage when it is signalled.
_BY = {
    LOAD: "a TMA load",
    COPY: "copies of the role's threads",
    WRITE: "the role's threads",
    ACCUMULATE: "an MMA",
    OPERAND: "an MMA",
    READ: "the role's threads",
    STORE: "a TMA store",
}
_FILLS = (LOAD, COPY, WRITE, ACCUMULATE)
_DRAINS = (OPERAND, READ, STORE)

_CALLS = {LOAD: "tma.load", COPY: "cp.async", WRITE: "write"}

# The uses that an explicit signal covers.
_COVERED = {"commit": (ACCUMULATE, OPERAND), "arrive": (WRITE, READ), "own": (*_FILLS, *_DRAINS)}
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


def check(summary: Summary, sink: Sink) -> None:
    _one_pipeline_each(summary, sink)
    for role in summary.roles:
        counts = count_fills(role)
        signatures: dict[tuple[tree.Pipeline, Side], _Signature] = {}
        for handle, found in role.handles.items():
            mixed = _mixed(found, sink)
            waits = _explicit_signals_wait(found, sink) and _one_barrier_for_bytes(found, sink)
            _arrivals(role, found, sink)
            if mixed or not waits:
                continue
            _one_way(role, found, signatures, sink)
            if handle.side == "producer" and handle in counts and found.kinds() & set(_FILLS):
                _Payload(summary, found, counts[handle], sink).check()


def _obtained(summary: StageSummary) -> Span | None:
    return summary.acquires[0].operation.span if summary.acquires else None


def _one_pipeline_each(summary: Summary, sink: Sink) -> None:
    """A buffer of the kernel's own is handed over by the stages of one pipeline."""
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


# ---------------------------------------------------------------------------------------------------------- one way only


def _mixed(summary: StageSummary, sink: Sink) -> bool:
    """Whether the stage is filled, or read, in two ways. Threads that multiply in registers may read the stage themselves as well."""
    producer = summary.handle.side == "producer"
    if summary.kinds() <= {READ, OPERAND} and _multiplied_in_registers(summary):
        return False
    first: Touch | None = None
    for _, touch in summary.touches:
        if touch.kind not in (_FILLS if producer else _DRAINS):
            continue
        first = first or touch
        if touch.kind == first.kind:
            continue
        message = messages.MixedFill if producer else messages.MixedDrain
        sink.report(
            message(
                stage=summary.handle.name,
                pipeline=summary.handle.pipeline.name,
                one=_BY[first.kind],
                second=_BY[touch.kind],
                at=touch.span,
                first=first.span,
                obtained=_obtained(summary),
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
                obtained=_obtained(summary),
            )
        )
        return False
    return True


def _better_signal(handle: tree.Handle, kind: UseKind) -> tuple[str, str | None]:
    """What to write in place of a signal that does not wait, and the edit where nothing else changes with it."""
    right = _right_signal(handle, kind)
    if handle.form == "stepped" and right.startswith("mma.commit"):
        return f"write `{right}` in place of it", right
    if handle.pipeline.kind == ROLE:
        return f"write `{right}` in place of it and of the step", None
    return f"leave the signal to `{right}`, which gives the right one", None


def _right_signal(handle: tree.Handle, kind: UseKind) -> str:
    """The call that signals once the work of this kind is done."""
    if handle.form != "stepped":
        return release_call(handle)
    pipeline = handle.pipeline.name
    if kind in (ACCUMULATE, OPERAND):
        return f"mma.commit({pipeline}.{handle.side}_mbar({handle.name}))"
    return f"{pipeline}.{handle.side}_step()" if kind in (LOAD, COPY) else f"{pipeline}.consume()"


def _one_barrier_for_bytes(summary: StageSummary, sink: Sink) -> bool:
    pipeline = summary.handle.pipeline
    load = next((touch for _, touch in summary.touches if touch.kind == LOAD), None)
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


def _arrivals(role: RoleSummary, summary: StageSummary, sink: Sink) -> None:
    for site in summary.signals:
        participation = role.role.blocks[site.block].participation
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
class _Signature:
    """How one stage is signalled: in words, and with how many arrivals."""

    words: str
    arrivals: int
    span: Span


def _one_way(
    role: RoleSummary, summary: StageSummary, signatures: dict[tuple[tree.Pipeline, Side], _Signature], sink: Sink
) -> None:
    """All stages of a pipeline are signalled alike by a role."""
    handle = summary.handle
    for signature in _signatures(role, summary):
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
                expected=_arrival_count(first.arrivals),
                found=str(signature.arrivals),
                at=signature.span,
                first=first.span,
                declared=handle.pipeline.span,
            )
        )
        return


def _arrival_count(count: int) -> str:
    return "1 arrival" if count == 1 else f"{count} arrivals"


def _signatures(role: RoleSummary, summary: StageSummary) -> list[_Signature]:
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


def _multiplied_in_registers(summary: StageSummary) -> bool:
    return any(isinstance(touch.operation, tree.RegisterMma) for _, touch in summary.touches if touch.kind == OPERAND)


def _own_signature(role: RoleSummary, summary: StageSummary, lanes: int | None, span: Span) -> _Signature:
    """The signal that the stage's use asks for."""
    used = _DRAINS if summary.handle.side == "consumer" else _FILLS
    kinds = summary.kinds() & set(used)
    if _multiplied_in_registers(summary):
        warps = _Signature(f"{role.role.warps} warps whose MMAs are complete", role.role.warps, span)
        if READ not in kinds:
            return warps
        threads = _signature(role, "threads", lanes, span)
        return _Signature(f"{warps.words} and {threads.words}", warps.arrivals + threads.arrivals, span)
    if kinds & {ACCUMULATE, OPERAND}:
        return _signature(role, "commit", lanes, span)
    if LOAD in kinds:
        return _Signature("TMA bytes", 1, span)
    if STORE in kinds:
        return _Signature("a finished TMA store", 1, span)
    return _signature(role, "threads", lanes, span)


def _signature(role: RoleSummary, how: Literal["threads", "commit"], lanes: int | None, span: Span) -> _Signature:
    if how == "commit":
        return _Signature("an MMA commit", 1, span)
    arrivals = (WARP if lanes is None else lanes) * role.role.warps
    return _Signature(f"{arrivals} threads arriving" if arrivals != 1 else "1 thread arriving", arrivals, span)


# --------------------------------------------------------------------------------------------------------------- payload


class _Payload:
    """Each tile of the payload is filled exactly once on every path."""

    def __init__(
        self, summary: Summary, handle: StageSummary, counts: dict[tuple[tree.Handle, tree.Buffer], Fills], sink: Sink
    ) -> None:
        self._handle = handle
        self._sink = sink
        self._tiles = [buffer for buffer in summary.handed_over(handle.handle.pipeline) if buffer.space == "shared"]
        self._counts = {buffer: fills for (_, buffer), fills in counts.items()}
        self._total = sum(map(_bytes, self._tiles))

    def check(self) -> None:
        for tile in self._tiles:
            fills = self._counts.get(tile, Fills())
            touches = [touch for _, touch in self._handle.touches if touch.buffer is tile]
            if fills.most == 0:
                self._never(tile)
            elif fills.loop is not None and fills.most > 1 and touches[0].kind in (LOAD, COPY):
                self._in_loop(tile, fills, touches)
            elif fills.fewest == 0 and fills.loop is not None and fills.branch is None:
                self._in_empty_loop(tile, fills.loop, touches[0])
            elif fills.fewest == 0:
                self._on_one_branch(tile, fills, touches[0])
            elif fills.most > 1 and touches[0].kind in (LOAD, COPY):
                self._twice(tile, fills, touches)

    def _never(self, tile: tree.Buffer) -> None:
        handle = self._handle.handle
        loads = [touch for _, touch in self._handle.touches if touch.kind in (LOAD, COPY, WRITE)]
        filled = sum(_bytes(other) for other in self._tiles if self._counts.get(other, Fills()).most)
        name = self._name(tile)
        self._sink.report(
            messages.TileNeverFilled(
                stage=handle.name,
                pipeline=handle.pipeline.name,
                tile=name,
                bytes=_bytes(tile),
                total=self._total,
                filled=filled,
                load=f"{_CALLS[loads[0].kind] if loads else 'write'}({name}, ...)",
                at=_obtained(self._handle) or handle.span,
                declared=tile.span,
                others=tuple(touch.span for touch in loads),
            )
        )

    def _on_one_branch(self, tile: tree.Buffer, fills: Fills, touch: Touch) -> None:
        handle = self._handle.handle
        self._sink.report(
            messages.TileFilledOnOneBranch(
                stage=handle.name,
                pipeline=handle.pipeline.name,
                tile=self._name(tile),
                bytes=_bytes(tile),
                fewest=self._total - _bytes(tile),
                most=self._total,
                fill=touch.span,
                branch=fills.branch.span if fills.branch else None,
                obtained=_obtained(self._handle),
            )
        )

    def _in_empty_loop(self, tile: tree.Buffer, loop: ir.Loop, touch: Touch) -> None:
        handle = self._handle.handle
        self._sink.report(
            messages.TileFilledInLoopOnly(
                stage=handle.name,
                pipeline=handle.pipeline.name,
                tile=self._name(tile),
                at=touch.span,
                loop=loop.span,
                obtained=_obtained(self._handle),
            )
        )

    def _name(self, tile: tree.Buffer) -> str:
        handle = self._handle.handle
        if handle.form == "stepped":
            return f"{f'{handle.pipeline.name}.payload.' if tile.owner else ''}{tile.name}[{handle.name}]"
        return f"{handle.name}.{tile.name}" if tile.owner else f"{tile.name}[{handle.name}.index()]"

    def _in_loop(self, tile: tree.Buffer, fills: Fills, touches: list[Touch]) -> None:
        assert fills.loop is not None
        handle = self._handle.handle
        self._sink.report(
            messages.TileLoadedInLoop(
                stage=handle.name,
                tile=self._name(tile),
                bytes=_bytes(tile),
                times="any number of times" if fills.most >= UNBOUNDED else f"{fills.most} times",
                at=touches[0].span,
                loop=fills.loop.span,
                obtained=_obtained(self._handle),
            )
        )

    def _twice(self, tile: tree.Buffer, fills: Fills, touches: list[Touch]) -> None:
        handle = self._handle.handle
        self._sink.report(
            messages.TileLoadedTwice(
                stage=handle.name,
                tile=self._name(tile),
                bytes=_bytes(tile),
                issued=_bytes(tile) * fills.most,
                at=touches[-1].span,
                first=touches[0].span,
                obtained=_obtained(self._handle),
            )
        )


def _bytes(tile: tree.Buffer) -> int:
    return tile.rows * tile.columns * tile.dtype.bits // 8
