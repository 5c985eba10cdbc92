"""Each tile of a payload is filled exactly once on every path, so that the barrier receives the expected bytes (E05xx).

A tile may be loaded in parts, some rows at a time: then each of them is, and together they are the tile.
"""

from pipec.checks.stages.fill_counts import UNBOUNDED, Fills, Part
from pipec.checks.summary import COPY, LOAD, WRITE, StageSummary, Summary, Touch
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span

_CALLS = {LOAD: "tma.load", COPY: "cp.async", WRITE: "write"}


def obtained(summary: StageSummary) -> Span | None:
    return summary.acquires[0].operation.span if summary.acquires else None


@record
class _Piece:
    """A tile, or some of its rows."""

    tile: tree.Buffer
    part: Part = None

    @property
    def bytes(self) -> int:
        whole = _bytes(self.tile)
        return whole if self.part is None else whole // self.tile.rows * self.part[1]


class Payload:
    """Each tile of the payload is filled exactly once on every path."""

    def __init__(
        self, summary: Summary, handle: StageSummary, counts: dict[tuple[tree.Handle, tree.Buffer, Part], Fills], sink: Sink
    ) -> None:
        self._handle = handle
        self._sink = sink
        # Tiles in tensor memory are written by MMAs, whose commit counts no bytes.
        self._tiles = [buffer for buffer in summary.handed_over[handle.handle.pipeline] if buffer.space == "shared"]
        self._counts = {_Piece(buffer, part): fills for (_, buffer, part), fills in counts.items()}
        self._total = sum(map(_bytes, self._tiles))

    def check(self) -> None:
        for tile in self._tiles:
            pieces = sorted((one for one in self._counts if one.tile is tile), key=lambda one: one.part or (0, tile.rows))
            if self._cover(tile, pieces):
                for piece in pieces or [_Piece(tile)]:
                    self._check(piece)

    def _cover(self, tile: tree.Buffer, pieces: list[_Piece]) -> bool:
        """Whether the pieces are the tile, each row once: only then the bytes of all are those that the barrier expects."""
        place = 0
        for piece in pieces:
            first, count = piece.part or (0, tile.rows)
            if first > place:
                self._never(_Piece(tile, (place, first - place)))
                return False
            if first < place:
                self._twice(piece, 2, [touch for _, touch in self._handle.touches if touch.buffer is tile])
                return False
            place = first + count
        if pieces and place < tile.rows:
            self._never(_Piece(tile, (place, tile.rows - place)))
            return False
        return True

    def _check(self, piece: _Piece) -> None:
        fills = self._counts.get(piece, Fills())
        touches = [touch for _, touch in self._handle.touches if touch.buffer is piece.tile and touch.part == piece.part]
        # From the most to the least specific error: each tile gets one message.
        if fills.most == 0:
            self._never(piece)
        # Only copies signal by themselves, so only they can signal too often; threads may write a tile in several parts.
        elif fills.loop is not None and fills.most > 1 and touches[0].kind in (LOAD, COPY):
            self._in_loop(piece, fills, touches)
        elif fills.fewest == 0 and fills.loop is not None and fills.branch is None:
            self._in_empty_loop(piece, fills.loop, touches[0])
        elif fills.fewest == 0:
            self._on_one_branch(piece, fills, touches[0])
        elif fills.most > 1 and touches[0].kind in (LOAD, COPY):
            self._twice(piece, fills.most, touches)

    def _never(self, piece: _Piece) -> None:
        handle = self._handle.handle
        loads = [touch for _, touch in self._handle.touches if touch.kind in (LOAD, COPY, WRITE)]
        filled = sum(other.bytes for other, fills in self._counts.items() if other.tile in self._tiles and fills.most)
        name = self._name(piece)
        self._sink.report(
            messages.TileNeverFilled(
                stage=handle.name,
                pipeline=handle.pipeline.name,
                tile=name,
                bytes=piece.bytes,
                total=self._total,
                filled=filled,
                load=f"{_CALLS[loads[0].kind] if loads else 'write'}({name}, ...)",
                at=obtained(self._handle) or handle.span,
                declared=piece.tile.span,
                others=tuple(touch.span for touch in loads),
            )
        )

    def _on_one_branch(self, piece: _Piece, fills: Fills, touch: Touch) -> None:
        handle = self._handle.handle
        self._sink.report(
            messages.TileFilledOnOneBranch(
                stage=handle.name,
                pipeline=handle.pipeline.name,
                tile=self._name(piece),
                bytes=piece.bytes,
                fewest=self._total - piece.bytes,
                most=self._total,
                fill=touch.span,
                branch=fills.branch.span if fills.branch else None,
                obtained=obtained(self._handle),
            )
        )

    def _in_empty_loop(self, piece: _Piece, loop: ir.Loop, touch: Touch) -> None:
        handle = self._handle.handle
        self._sink.report(
            messages.TileFilledInLoopOnly(
                stage=handle.name,
                pipeline=handle.pipeline.name,
                tile=self._name(piece),
                at=touch.span,
                loop=loop.span,
                obtained=obtained(self._handle),
            )
        )

    def _name(self, piece: _Piece) -> str:
        name = self._name_of(piece.tile)
        return name if piece.part is None else f"rows({name}, {piece.part[0]}, {piece.part[1]})"

    def _name_of(self, tile: tree.Buffer) -> str:
        handle = self._handle.handle
        if handle.form == "stepped":
            return f"{f'{handle.pipeline.name}.payload.' if tile.owner else ''}{tile.name}[{handle.name}]"
        return f"{handle.name}.{tile.name}" if tile.owner else f"{tile.name}[{handle.name}.index()]"

    def _in_loop(self, piece: _Piece, fills: Fills, touches: list[Touch]) -> None:
        assert fills.loop is not None
        handle = self._handle.handle
        self._sink.report(
            messages.TileLoadedInLoop(
                stage=handle.name,
                tile=self._name(piece),
                bytes=piece.bytes,
                times="any number of times" if fills.most >= UNBOUNDED else f"{fills.most} times",
                at=touches[0].span,
                loop=fills.loop.span,
                obtained=obtained(self._handle),
            )
        )

    def _twice(self, piece: _Piece, times: int, touches: list[Touch]) -> None:
        handle = self._handle.handle
        self._sink.report(
            messages.TileLoadedTwice(
                stage=handle.name,
                tile=self._name(piece),
                bytes=piece.bytes,
                issued=piece.bytes * times,
                at=touches[-1].span,
                first=touches[0].span,
                obtained=obtained(self._handle),
            )
        )


def _bytes(tile: tree.Buffer) -> int:
    return tile.rows * tile.columns * tile.dtype.bits // 8
