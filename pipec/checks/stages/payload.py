"""Each tile of a payload is filled exactly once on every path, so that the barrier receives the expected bytes (E05xx).

A tile may be loaded in parts, some rows at a time: then each of its rows is, whichever parts a path has.
"""

from collections.abc import Iterator
from itertools import groupby

from pipec.checks.stages.fill_counts import UNBOUNDED, Fills, Rows, range_of_rows
from pipec.checks.summary import COPY, LOAD, WRITE, RoleSummary, StageSummary, Touch
from pipec.diag.catalogue.stages import signals as messages
from pipec.diag.message import Sink
from pipec.kir import ir
from pipec.record import record
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import FILLING

_CALLS = {LOAD: "tma.load", COPY: "cp.async", WRITE: "write"}


def obtained(summary: StageSummary) -> Span | None:
    return summary.acquires[0].operation.span if summary.acquires else None


@record
class _Piece:
    """A tile, or some of its rows, what fills them, with its block, and how often."""

    tile: tree.Buffer
    rows: Rows
    touches: tuple[tuple[int, Touch], ...]
    fills: Fills

    @property
    def bytes(self) -> int:
        return _bytes(self.tile) // self.tile.rows * self.rows[1]


class Payload:
    """Each tile of the payload is filled exactly once on every path."""

    def __init__(
        self,
        role: RoleSummary,
        handle: StageSummary,
        tiles: list[tree.Buffer],
        counts: dict[tuple[tree.Handle, tree.Buffer, Rows], Fills],
        sink: Sink,
    ) -> None:
        self._role = role
        self._handle = handle
        self._sink = sink
        # Of tiles in tensor memory those that threads write; accumulators are cleared where no MMA has written them.
        self._tiles = tiles
        self._counts: dict[tree.Buffer, dict[Rows, Fills]] = {}
        for (_, buffer, rows), fills in counts.items():
            self._counts.setdefault(buffer, {})[rows] = fills
        self._total = sum(_bytes(tile) for tile in tiles if tile.space == "shared")

    def check(self) -> None:
        for tile in self._tiles:
            # Each tile gets one message.
            any(self._wrong(piece) for piece in self._pieces(tile))

    def _pieces(self, tile: tree.Buffer) -> Iterator[_Piece]:
        """All rows of the tile in order, neighbours that are filled alike together."""
        counts = [(range(first, first + count), fills) for (first, count), fills in self._counts.get(tile, {}).items()]
        touches = [
            (range_of_rows(touch, tile), (block, touch))
            for block, touch in self._handle.touches
            if touch.buffer is tile and touch.kind in FILLING
        ]
        places = {0}.union(*[(rows.start, rows.stop) for rows, _ in (*counts, *touches)])

        def filled(row: int) -> tuple[Fills, tuple[tuple[int, Touch], ...]]:
            fills = next((fills for rows, fills in reversed(counts) if row in rows), Fills())
            return fills, tuple(one for rows, one in touches if row in rows)

        alike = [(found, next(rows)) for found, rows in groupby(sorted(at for at in places if at < tile.rows), filled)]
        for ((fills, by), first), end in zip(alike, [*(first for _, first in alike[1:]), tile.rows], strict=True):
            yield _Piece(tile, (first, end - first), by, fills)

    def _wrong(self, piece: _Piece) -> bool:
        """Whether the rows are not filled just once, which is then reported, by the most specific error."""
        fills, touches = piece.fills, [touch for _, touch in piece.touches]
        # Only copies signal by themselves, so only they can signal too often; threads may write a tile in several parts.
        copied = any(touch.kind in (LOAD, COPY) for touch in touches)
        if fills.most == 0:
            self._never(piece)
        elif fills.loop is not None and fills.most > 1 and copied:
            self._in_loop(piece, fills, touches)
        elif fills.fewest == 0 and fills.loop is not None and fills.branch is None:
            self._in_empty_loop(piece, fills.loop, touches[0])
        elif fills.fewest == 0:
            self._on_one_branch(piece, fills, touches[0])
        elif fills.most > 1 and copied:
            self._twice(piece)
        else:
            return False
        return True

    def _never(self, piece: _Piece) -> None:
        handle = self._handle.handle
        loads = [touch for _, touch in self._handle.touches if touch.kind in (LOAD, COPY, WRITE)]
        filled = sum(other.bytes for tile in self._tiles for other in self._pieces(tile) if other.fills.most)
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
                tile=self._name(piece),
                bytes=piece.bytes,
                consequence=self._with_one_less(piece, touch),
                fill=touch.span,
                branch=fills.branch.span if fills.branch else None,
                obtained=obtained(self._handle),
            )
        )

    def _with_one_less(self, piece: _Piece, touch: Touch) -> str:
        if touch.kind == WRITE:
            return f"on the other path the consumers of `{self._handle.handle.pipeline.name}` read whatever the slot held before"
        fewest = self._total - piece.bytes
        return (
            f"one path brings {self._total} bytes, the other {fewest}: the full barrier of `{self._handle.handle.pipeline.name}` "
            f"waits for {self._total}"
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
        first, count = piece.rows
        return name if count == piece.tile.rows else f"rows({name}, {first}, {count})"

    def _name_of(self, tile: tree.Buffer) -> str:
        handle = self._handle.handle
        if handle.form == "stepped":
            return f"{f'{handle.pipeline.name}.payload.' if tile.owner else ''}{tile.name}[{handle.name}]"
        if tile.owner:
            return f"{handle.name}.{tile.name}"
        index = ".index()"
        return f"{tile.name}[{handle.name.removesuffix(index)}{index}]"  # a stage without a name has that of its index

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

    def _twice(self, piece: _Piece) -> None:
        handle = self._handle.handle
        # Two that one path has; the last ones read best where there are several.
        pairs = (
            (first, again)
            for number, (block, again) in reversed([*enumerate(piece.touches)])
            for before, first in piece.touches[:number]
            if self._role.leads(before, block)
        )
        first, again = next(pairs)
        self._sink.report(
            messages.TileLoadedTwice(
                stage=handle.name,
                tile=self._name(piece),
                bytes=piece.bytes,
                issued=piece.bytes * piece.fills.most,
                at=again.span,
                first=first.span,
                obtained=obtained(self._handle),
            )
        )


def _bytes(tile: tree.Buffer) -> int:
    return tile.rows * tile.columns * tile.dtype.bits // 8
