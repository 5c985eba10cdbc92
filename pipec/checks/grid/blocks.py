"""Accesses of blocks at sampled sizes: conflicts between two blocks (E0618), stores at negative coordinates (E0725)."""

from collections.abc import Mapping

from pipec.diag.catalogue.grid import global_memory
from pipec.diag.catalogue.tiles import copies
from pipec.diag.message import Message, Sink
from pipec.diag.shown import counted
from pipec.kir.global_memory.access_pairs import Answer
from pipec.kir.global_memory.accesses import RoleAccesses
from pipec.kir.global_memory.clocks import Tells
from pipec.kir.global_memory.overlaps import Overlap, between_blocks, in_front
from pipec.kir.global_memory.places import TileBox
from pipec.kir.ir import Kernel
from pipec.sema import tree


def check(kernel: Kernel, rows: tuple[RoleAccesses, ...], tells: Tells, sink: Sink) -> Mapping[str, Answer]:
    """Returns, for each tensor that is stored, whether it is shown that blocks access disjoint elements."""
    for access, axis in in_front(kernel, rows).items():
        coordinate = access.where.coordinates[axis]
        if not isinstance(coordinate, tree.Constant):  # the check of copies reports constants
            sink.report(copies.StoreBefore(tensor=access.tensor, at=coordinate.span))
    found = between_blocks(kernel, rows, tells)
    for met in found.met:
        sink.report(_meeting(met))
    return found.apart


def _extent(place: TileBox) -> str:
    """Of a tile that the source need not tell: `, 64 rows and 1 column`. A tile of one column has its elements below each other."""
    rows_and_columns = place.extent[-2:]
    if len(rows_and_columns) < 2 or None in rows_and_columns:
        return ""
    rows, columns = (counted(size or 0, word) for size, word in zip(rows_and_columns, ("row", "column"), strict=True))
    return f", {rows} and {columns}"


def _meeting(met: Overlap) -> Message:
    """The message for two conflicting accesses in different blocks, the load first."""
    uses = [(use.access, block) for (_, use), block in zip((met.first, met.second), met.blocks, strict=True)]
    uses.sort(key=lambda row: row[0].writes)
    (one, here), (other, there) = uses
    both = one.writes and other.writes
    element = [max(first, start) for (first, _), (start, _) in zip(met.first[1].box, met.second[1].box, strict=True)]
    sizes = ", ".join(f"{name} = {size}" for name, size in met.sizes.items())
    return global_memory.UnorderedBlocks(
        tensor=one.tensor,
        block=str(here),
        other=str(there),
        does="both store" if both else "load and store",
        what="stored" if both else "loaded",
        extent=_extent(one.place),
        element=f"`{one.tensor}[{', '.join(map(str, element))}]`",
        sizes=f" at {sizes}" if sizes else "",
        consequence="either of the two may be the last" if both else "the load may find old values, new ones, or some of both",
        at=one.span,
        second=None if other.span == one.span else other.span,
    )
