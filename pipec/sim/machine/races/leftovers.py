"""What the marks of a CTA's shared memory say of its tiles once it has ended: parts that nobody read, and loads by threads in another
swizzle than that of the copy.

A wrong start, box or loop bound reads too little of one tile, and the wrong numbers that it gives have no other symptom.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from pipec.record import record

from ...compiled.pieces import distinct
from ...units.patterns import lane_steps, warp_steps, written_otherwise
from ...units.tcgen05.operands import GRANULE
from .layouts import Layouts, Misreading, called
from .ledger import NOBODY, Access
from .shadow import Shadow
from .thread import Thread

_PRODUCTS = ("wgmma", "tcgen05.mma")


@record
class _Pair:
    """Places that `writers` wrote last and `readers` have read since, from `first` on."""

    writers: tuple[Access, ...]
    readers: tuple[Access, ...]
    first: int
    marks: tuple[int, int]

    @property
    def tile(self) -> Access | None:
        return next((one for one in self.writers if one.tile is not None), None)


def judge(layouts: Layouts, shadow: Shadow) -> None:
    """Reports what is wrong with the tiles that a CTA leaves behind."""
    if layouts.misread is None or not shadow.writes.size:
        return
    pairs = list(_pairs(layouts, shadow))
    for found in (*_partly_read(shadow, pairs), *_loaded_otherwise(pairs)):
        layouts.misread(found)
    for found in _partly_stored(layouts, shadow, pairs):
        layouts.partly_copied.setdefault((found.writer.pc, found.reader.pc), found)


def judge_all(layouts: Layouts) -> None:
    """Reports what threads stored and copies took in part in every CTA. Where they take all of it in one CTA, how much they take
    depends on the data, as where groups of any numbers of rows are multiplied."""
    for (stored, _), found in layouts.partly_copied.items():
        if layouts.misread is not None and stored not in layouts.copied_whole:
            layouts.misread(found)


def _pairs(layouts: Layouts, shadow: Shadow) -> Iterator[_Pair]:
    writers, readers = shadow.cells
    # Runs of equal marks first, which are few.
    ends = np.flatnonzero((writers[1:] != writers[:-1]) | (readers[1:] != readers[:-1])) + 1
    starts = np.concatenate([[0], ends])
    marks = writers[starts].astype(np.int64) << 32 | readers[starts]
    found, first = np.unique(marks, return_index=True)
    for mark, place in zip(found.tolist(), starts[first].tolist(), strict=True):
        if mark >> 32 != NOBODY:
            members = layouts.sets.members
            numbers = mark >> 32, mark & 0xFFFFFFFF
            yield _Pair(members(numbers[0]), members(numbers[1]), place * shadow.granule, numbers)


def _partly_read(shadow: Shadow, pairs: Iterable[_Pair]) -> Iterator[Misreading]:
    """Boxes of which MMAs or tensor copies read a part and nobody the rest."""
    by_box: dict[Access, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        if pair.tile is not None:
            by_box[pair.tile].append(pair)
    for box, parts in by_box.items():
        reader = next(
            (one for part in parts for one in part.readers if one.tile is not None or one.what.startswith(_PRODUCTS)), None
        )
        unread = [part for part in parts if not part.readers]
        left = next((place for part in unread for place in _of_the_tensor(shadow, box, part)), None) if reader else None
        if reader is not None and left is not None:
            why = f"nobody reads what it wrote at 0x{left:x}"
            yield Misreading(box, reader, reader.tile or "a part of a box", f"wrote {box.tile}", why, "unread")


def _of_the_tensor(shadow: Shadow, box: Access, part: _Pair) -> list[int]:
    """Where a part of a box begins, not counting the fill for elements outside the tensor."""
    if box.tile is None or not box.tile.inside:
        return [part.first]
    writers, readers = shadow.cells
    places = np.flatnonzero((writers == part.marks[0]) & (readers == part.marks[1])) * shadow.granule
    return [int(place) for place in places[box.tile.holds(places // GRANULE)][:1]]


def _partly_stored(layouts: Layouts, shadow: Shadow, pairs: Iterable[_Pair]) -> Iterator[Misreading]:
    """What the last executions of one store by threads wrote, of which a tensor copy takes a part and nobody the rest."""
    unread, copied = dict[int, Access](), dict[int, Access]()
    # By what a warp stored between two signals to others.
    unread_together, copied_together = dict[object, tuple[Access, _Pair]](), dict[object, Access]()
    read_by: dict[Access, set[int]] = defaultdict(set)  # by copies, the sets of accesses in which they have read
    for pair in pairs:
        copy = next((one for one in pair.readers if one.tile is not None and not one.writes), None)
        for one in pair.writers:
            if one.plain and copy is not None:
                copied[one.pc] = copied_together[one.thread, one.time] = copy
                read_by[copy].add(pair.marks[1])
            elif one.plain and not pair.readers:
                unread[one.pc] = one
                unread_together[one.thread, one.time] = one, pair
    layouts.copied_whole |= copied.keys() - unread.keys()
    for together in unread_together.keys() & copied_together.keys():
        (writer, pair), copy = unread_together[together], copied_together[together]
        # A tile of its own may be left, as where a GEMM stores a second one in some CTAs.
        if not _adjoins(shadow, pair, read_by[copy]):
            continue
        unread.pop(writer.pc, None)
        why = f"nobody reads what it stored at 0x{pair.first:x}"
        yield Misreading(writer, copy, copy.tile or "a box", "stored more", why, "unread")
    for pc in unread.keys() & copied.keys():
        left, taken = _by_last_execution(layouts, shadow, pc, unread[pc].thread.peers)
        if left and taken:
            why = f"nobody reads what it stored at 0x{left[0]:x}"
            yield Misreading(unread[pc], copied[pc], copied[pc].tile or "a box", "stored more", why, "unread")


def _adjoins(shadow: Shadow, pair: _Pair, taken: set[int]) -> bool:
    """Whether some of these places are next to others that copies have read."""
    writers, readers = shadow.cells
    left = np.flatnonzero((writers == pair.marks[0]) & (readers == pair.marks[1]))
    around = np.concatenate([left[left > 0] - 1, left[left < len(readers) - 1] + 1])
    return bool(np.isin(readers[around], list(taken)).any())


def _by_last_execution(layouts: Layouts, shadow: Shadow, pc: int, warps: Iterable[Thread]) -> tuple[list[int], bool]:
    """Where the last executions of a store by these warps wrote what nobody has read, and whether any of it was."""
    writers, readers = shadow.cells
    left, taken = list[int](), False
    for warp in warps:
        lanes = warp.laid_out(pc)
        if lanes is None:
            continue
        places = lanes[lanes < shadow.size] // shadow.granule
        own = [one for one in distinct(writers[places]) if any(_is(access, warp, pc) for access in layouts.sets.members(one))]
        places = places[np.isin(writers[places], own)]
        left += (places[readers[places] == NOBODY] * shadow.granule).tolist()
        taken |= bool((readers[places] != NOBODY).any())
    return left, taken


def _is(access: Access, warp: Thread, pc: int) -> bool:
    return access.thread is warp and access.pc == pc and access.plain


def _loaded_otherwise(pairs: Iterable[_Pair]) -> Iterator[Misreading]:
    """Threads that load from a box as another swizzle asks."""
    loads: dict[tuple[int, int], dict[int, tuple[Access, Access]]] = defaultdict(dict)
    for pair in pairs:
        box = pair.tile
        if box is not None:
            for one in pair.readers:
                if one.plain:
                    loads[box.pc, one.pc][one.thread.index] = box, one
    for by_warp in loads.values():
        laid_out = [(warp, one.thread.laid_out(one.pc)) for warp, (_, one) in sorted(by_warp.items())]
        known = [(warp, lanes) for warp, lanes in laid_out if lanes is not None]
        box, reader = next(iter(by_warp.values()))
        if known and box.tile is not None:
            steps = lane_steps(np.stack([lanes for _, lanes in known])) + warp_steps(
                [(warp, int(lanes[0])) for warp, lanes in known]
            )
            verdict = written_otherwise(box.tile.swizzle, steps)
            # Without a swizzle it may be a view of plain bytes.
            if verdict is not None and verdict[0] != "none":
                name, step = verdict
                why = f"{step.who} of the load are at 0x{step.first:x} and 0x{step.second:x}, which only {called(name)} makes neighbours"
                yield Misreading(box, reader, "a box", f"wrote {box.tile}", why)
