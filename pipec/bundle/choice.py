"""Which form of a kernel suits given sizes: the row that is nearest. The generated C code counts in the same way (`pipec_choose`)."""

from collections.abc import Sequence

from pipec.bundle.manifest import Choice


def nearest(choices: Sequence[Choice], sizes: Sequence[int]) -> int:
    """The variant of the nearest row, the first of several; 0 without rows. Exactly these sizes are nearer than others of their bucket."""
    best = min(choices, key=lambda choice: _distance(choice.sizes, sizes), default=None)
    return 0 if best is None else best.variant


def _distance(one: Sequence[int], other: Sequence[int]) -> int:
    return sum(2 * abs(_bucket(a) - _bucket(b)) + (a != b) for a, b in zip(one, other, strict=True))


def _bucket(size: int) -> int:
    """The number of a size's bucket: of each power of two up to 16, then of four to a doubling (as pipec.tune.table.bucket has them)."""
    if size <= 1:
        return size
    bits = (size - 1).bit_length()
    return 1 + bits if size <= 16 else 1 + 4 + 4 * (bits - 5) + ((size - 1) >> (bits - 3) & 3) + 1
