"""Which boxes of elements may overlap (`Cells`), beside the comparison of each with each."""

import random

import pytest

from pipec.kir.global_memory.launches import Cells
from pipec.kir.global_memory.runs import Box


def _boxes(chance: random.Random) -> list[Box]:
    axes, longest = chance.randint(1, 3), chance.randint(1, 9)
    starts = [[chance.randint(0, 20) for _ in range(axes)] for _ in range(12)]
    return [tuple((first, first + chance.randint(1, longest)) for first in corner) for corner in starts]


@pytest.mark.parametrize("seed", range(20))
def test_boxes_that_overlap_share_a_cell(seed: int) -> None:
    boxes = _boxes(random.Random(seed))
    cells = Cells(boxes)
    for number, box in enumerate(boxes):
        overlapping = {
            earlier
            for earlier, other in enumerate(boxes[:number])
            if all(first < end and start < last for (first, last), (start, end) in zip(box, other, strict=True))
        }
        assert overlapping <= set(cells.before(number))
