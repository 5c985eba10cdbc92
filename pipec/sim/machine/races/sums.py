"""Accumulated products: the operands of each MMA, compared with those of the previous one on the same accumulator."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ...units.layouts import Reading
from ...units.products import Product, unlike
from .layouts import Misreading
from .ledger import Access

_MOST = 1024
_judged = lru_cache(maxsize=4096)(unlike)


class Sums:
    """By place; `misread` as for `Layouts`."""

    def __init__(self, misread: Callable[[Misreading], None] | None) -> None:
        self.misread = misread
        self.last: dict[object, tuple[Product, Access, Access | None, int | None]] = {}

    def added(
        self, access: Access, product: Product, place: object, tile: Access | None = None, group: int | None = None
    ) -> None:
        """`access` adds `product` there; `tile` wrote its operand B. `group`: how many groups of MMAs the thread has committed, where
        the accumulator is in registers."""
        if self.misread is None:
            return
        if len(self.last) > _MOST:
            self.last.clear()
        before = self.last.get(place)
        self.last[place] = product, access, tile, group
        # Registers that nobody can have waited for. A kernel may give up what an earlier group has computed, as attention does with keys
        # that a mask hides.
        if before is not None and group is not None and group == before[3] and not product.accumulates:
            self.lost(before[1], access, product)
        one_tile = None if before is None or before[2] is None or tile is None else before[2] is tile
        found = _judged(before[0], product, one_tile) if before else None
        if before is None or found is None:
            return
        written = f"took {found.before} for the same sum"
        self.misread(Misreading(before[1], access, found.now, written, found.why, found.check))

    def lost(self, before: Access, access: Access, product: Product) -> None:
        """`access` overwrites the sums of `before`, which nobody has read."""
        # (Lanes that issue one MMA together are another matter.)
        if self.misread is not None and before.made != access.made:
            self.misread(
                Misreading(before, access, product.d, "wrote it", "nobody has read those sums", "lost", does="overwrites")
            )

    def of_parts(self, before: Access, whole: Callable[[Reading], bool]) -> bool:
        """Whether an operand of `before` is not `whole`: it has more rows than the kernel has data for, which wants a part of the sums."""
        made = (product for product, access, *_ in self.last.values() if access.made == before.made)
        return any(isinstance(one, Reading) and not whole(one) for product in made for one in (product.a, product.b))

    def partly_read(self, before: Access, reader: Access, left: str) -> None:
        """`reader` has read a part of the sums of `before`, and nobody the rest."""
        if self.misread is not None:
            self.misread(Misreading(before, reader, "a part of its sums", "made them", f"nobody reads {left}", "unread"))

    def forget(self) -> None:
        """The accumulators' places have been overwritten."""
        self.last.clear()
