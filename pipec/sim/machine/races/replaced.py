"""What works in practice although PTX calls it a race, and the accesses before a store that this decision needs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..practice import PracticeName
from .clocks import Clock
from .ledger import Access, Cells, Ledger
from .shadow import Index, Shadow

# Whether memory already holds what some rows of a store write: those where the mask is true.
Same = Callable[[np.ndarray], bool]


def keep_replaced(sets: Ledger, access: Access, shadow: Shadow, index: Index, size: int, loaded: Cells, clock: Clock) -> None:
    """The store `access` replaces the last stores at these places, and has replaced the loads `loaded`."""
    cells, (writers, _) = shadow.replaced_by(size), shadow.of(size)
    rows = np.stack([cells[index], writers[index], loaded], -1).reshape(-1, 3)
    kept = rows[:, 0].copy()
    for before, stored, read in {tuple(row) for row in rows.tolist()}:
        if stored or read:
            kept[(rows == (before, stored, read)).all(1)] = sets.replaced(before, stored, read, access, clock)
    cells[index] = kept.reshape(loaded.shape)


def forgiven(
    old: Access,
    new: Access,
    shadow: Shadow,
    cells: Cells,
    index: Index,
    number: int,
    same: Same | None,
    practised: Callable[[PracticeName], bool],
) -> bool:
    """Whether a race is harmless in practice."""
    if replicated(old, new, shadow, cells, index, number):
        return practised("replicated loads")
    # Other warps copy other data, even if its values happen to be equal.
    apart = new.ends is not None and (old.thread is not new.thread or old.ends is None)
    if apart or not (old.writes and new.writes):
        return False
    # Last, since comparing the values reads memory.
    equal = old.copied == new.copied if new.copied is not None else same is not None and same(_rows(cells, index, number))
    return equal and practised("equal stores")


def _rows(cells: Cells, index: Index, number: int) -> np.ndarray:
    """Which of the pieces have this set of accesses somewhere."""
    marks: np.ndarray = cells[index] == number
    return np.asarray(marks.any(axis=1)) if marks.ndim > 1 else marks


def replicated(old: Access, new: Access, shadow: Shadow, cells: Cells, index: Index, number: int) -> bool:
    """Whether the lanes that store where others load have themselves loaded that array address by the same instruction: then the loads
    read copies of the stored element."""
    store, load = (old, new) if old.writes else (new, old)
    # A volatile load may be a copy like any other; a strong store does not store an element.
    if (
        shadow.kind != "global"
        or old.writes == new.writes
        or store.scope is not None
        or any(one.ends is not None for one in (old, new))
    ):
        return False
    latest = new.thread.executions(new.pc)
    concerned = _rows(cells, index, number)
    if not latest or isinstance(index, slice):
        return False
    touched = latest[-1][latest[-1] >= 0]
    if concerned.size != touched.size:
        return False
    # A warp may run so late that the store to what it loads is long past.
    if store.thread.executed is not None and store.thread.executed.copies(store.pc, load.pc):
        return True
    for stored in store.thread.executions(store.pc):
        for loaded in store.thread.executions(load.pc):
            own = stored[(stored == loaded) & (stored >= 0)]
            if np.isin(touched[concerned], own).all():
                return True
    return False
