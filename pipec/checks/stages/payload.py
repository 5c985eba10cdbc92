"""Each tile of a payload is filled exactly once on every path, so that the barrier receives the expected bytes (E05xx)."""

from pipec.checks.stages.fill_counts import UNBOUNDED, Fills
from pipec.checks.summary import COPY, LOAD, WRITE, StageSummary, Summary, Touch
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.sema import tree
from pipec.source import Span

_CALLS = {LOAD: "tma.load", COPY: "cp.async", WRITE: "write"}


def obtained(summary: StageSummary) -> Span | None:
    return summary.acquires[0].operation.span if summary.acquires else None


class Payload:
    """Each tile of the payload is filled exactly once on every path."""

    def __init__(
        self, summary: Summary, handle: StageSummary, counts: dict[tuple[tree.Handle, tree.Buffer], Fills], sink: Sink
    ) -> None:
        self._handle = handle
        self._sink = sink
        # Tiles in tensor memory are written by MMAs, whose commit counts no bytes.
        self._tiles = [buffer for buffer in summary.handed_over[handle.handle.pipeline] if buffer.space == "shared"]
        self._counts = {buffer: fills for (_, buffer), fills in counts.items()}
        self._total = sum(map(_bytes, self._tiles))

    def check(self) -> None:
        for tile in self._tiles:
            fills = self._counts.get(tile, Fills())
            touches = [touch for _, touch in self._handle.touches if touch.buffer is tile]
            # From the most to the least specific error: each tile gets one message.
            if fills.most == 0:
                self._never(tile)
            # Only copies signal by themselves, so only they can signal too often; threads may write a tile in several parts.
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
                at=obtained(self._handle) or handle.span,
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
                obtained=obtained(self._handle),
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
                obtained=obtained(self._handle),
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
                obtained=obtained(self._handle),
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
                obtained=obtained(self._handle),
            )
        )


def _bytes(tile: tree.Buffer) -> int:
    return tile.rows * tile.columns * tile.dtype.bits // 8
