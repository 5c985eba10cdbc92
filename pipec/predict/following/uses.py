"""What roles hand to each other and leave behind while they are followed: uses of stages, stretches of time."""

from typing import NamedTuple

from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import Side


class Unpredictable(Exception):
    """What decides `what` is known to the GPU alone, or the roles wait for each other."""

    def __init__(self, what: str, at: Span) -> None:
        super().__init__(what)
        self.what, self.at = what, at


class Use(NamedTuple):
    """One side's hand-over of a stage: of the `number`-th use of the pipeline, counted from 0."""

    pipeline: tree.Pipeline
    side: Side
    sub_stage: int
    number: int


class Stretch(NamedTuple):
    """A track of the timeline from `start` to `end` (cycles); `critical`: the end of the whole waits for it."""

    block: int
    track: str
    what: str
    start: float
    end: float
    critical: bool = False
