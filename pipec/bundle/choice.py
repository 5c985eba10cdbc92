"""Selects the form of a kernel for given sizes: the nearest row. The generated C code computes the same (`pipec_choose`)."""

from collections.abc import Sequence

from pipec.bundle.manifest import Choice


def nearest(choices: Sequence[Choice], sizes: Sequence[int]) -> int:
    """The variant of the nearest row, the first on a tie; 0 without rows. An exact match is nearer than others in its bucket."""
    best = min(choices, key=lambda choice: _distance(choice.sizes, sizes), default=None)
    return 0 if best is None else best.variant


def _distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(2 * abs(_bucket(a) - _bucket(b)) + (a != b) for a, b in zip(one, other, strict=True))


def _bucket(size: int) -> int:
    """The number of a size's bucket: one per power of two up to 16, then four per doubling (as in pipec.tune.table.bucket)."""
    if size <= 1:
        return size
    bits = (size - 1).bit_length()
    return 1 + bits if size <= 16 else 1 + 4 + 4 * (bits - 5) + ((size - 1) >> (bits - 3) & 3) + 1
