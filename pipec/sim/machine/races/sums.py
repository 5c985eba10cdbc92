"""Accumulated products: the operands of each MMA, compared with those of the previous one on the same accumulator."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ...units.products import Product, unlike
from .layouts import Misreading
from .ledger import Access

_MOST = 1024
_judged = lru_cache(maxsize=4096)(unlike)


class Sums:
    """By place; `misread` as for `Layouts`."""

    def __init__(self, misread: Callable[[Misreading], None] | None) -> None:
        self.misread = misread
        self.last: dict[object, tuple[Product, Access]] = {}

    def added(self, access: Access, product: Product, place: object) -> None:
        """`access` adds `product` there."""
        if self.misread is None:
            return
        if len(self.last) > _MOST:
            self.last.clear()
        before = self.last.get(place)
        self.last[place] = product, access
        found = _judged(before[0], product) if before else None
        if before is None or found is None:
            return
        written = f"took {found.before} for the same sum"
        self.misread(Misreading(before[1], access, found.now, written, found.why, found.check))

    def forget(self) -> None:
        """The accumulators' places have been overwritten."""
        self.last.clear()
