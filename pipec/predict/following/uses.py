"""What roles hand over and record while they are followed: uses of stages, time intervals."""

from typing import NamedTuple

from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import Side


class Unpredictable(Exception):
    """`what` depends on data that only the GPU knows, or the roles wait for each other."""

    def __init__(self, what: str, at: Span) -> None:
        super().__init__(what)
        self.what, self.at = what, at


class Use(NamedTuple):
    """One side's hand-over of a stage: for the `number`-th use of the pipeline, from 0."""

    pipeline: tree.Pipeline
    side: Side
    sub_stage: int
    number: int


class Stretch(NamedTuple):
    """An interval on a track of the timeline, from `start` to `end` (cycles); `critical`: it is on the critical path."""

    block: int
    track: str
    what: str
    start: float
    end: float
    critical: bool = False
