"""The main loops of a followed block: the pace of each ring whose stages are loaded and multiplied."""

from collections.abc import Iterator, Mapping
from statistics import median

from pipec.predict.following.block import Block
from pipec.predict.following.events import Busy, Event, Step, steps
from pipec.predict.tile_loops import operations_in
from pipec.record import record, replace
from pipec.sema import tree


@record
class MainLoop:
    """The loop around the products: `period` cycles per use of a stage of `pipeline` by `role`, which `loader` fills.

    `engines`: cycles that each engine is busy per use; `path`: the critical path from one use to the next, summed by reason.
    """

    role: str
    loader: str
    pipeline: tree.Pipeline
    period: float
    instructions: float  # of TMA, by the loading role per use
    engines: Mapping[Busy, float]
    path: tuple[Step, ...]


# ------------------------------------------------------------------------------------------------------------ main loops


def main_loops(block: Block, paces: Mapping[tuple[str, tree.Pipeline], float]) -> Iterator[MainLoop]:
    """For every ring whose stages are loaded and multiplied: its steady pace. `paces`: known paces, as cycles per use by a role."""
    loaded = {
        operation.destination.handle.pipeline: role.name
        for role in block.kernel.roles
        for operation in operations_in(role.body)
        if isinstance(operation, tree.TmaLoad | tree.CopyAsync)
    }
    multiplied = {
        (role.name, tile.handle.pipeline)
        for role in block.kernel.roles
        for operation in operations_in(role.body)
        if isinstance(operation, tree.Mma | tree.RegisterMma)
        for tile in ((operation.a, operation.b) if isinstance(operation.a, tree.BufferRef) else (operation.b,))
        if tile.handle.side == "consumer"
    }
    for (role, pipeline), marks in block.marks.items():
        stages = block.around.stages(pipeline)
        if (role, pipeline) not in multiplied or pipeline not in loaded or len(marks) < 2 * stages + 2:
            continue
        pace = paces.get((role, pipeline))
        first, last = _steady(marks, stages, pace)
        found = _main_loop(block, role, loaded[pipeline], pipeline, marks[last], marks[first], last - first)
        # A role that only issues runs ahead of its products until the ring is full.
        yield replace(found, period=pace) if pace is not None and abs(pace - found.period) <= _AHEAD * pace else found


def _steady(marks: list[Event], stages: int, pace: float | None) -> tuple[int, int]:
    """The interval in which the loop keeps its most frequent pace: whole laps of the ring, the latest ones. Excludes gaps between tiles,
    such as an epilogue of the same role, and the end, when nothing is loaded any more."""
    end = len(marks) - 1 - (stages if len(marks) > 3 * stages + 2 else 0)
    begin = len(marks) // 3
    laps_seen = [marks[at + stages].time - marks[at].time for at in range(min(begin, end - stages), end - stages + 1)]
    lap = median(laps_seen)
    if pace is not None and any(abs(one - pace * stages) <= _EVEN * one for one in laps_seen):
        lap = pace * stages
    laps = max(1, (end - begin) // (2 * stages))
    while laps > 1:
        width = laps * stages
        for last in range(end, max(begin, width) + width - 1, -1):
            if abs(marks[last].time - marks[last - width].time - laps * lap) <= _EVEN * laps * lap:
                return last - width, last
        laps = laps // 2
    last = min(range(end, max(stages, begin) - 1, -1), key=lambda at: abs(marks[at].time - marks[at - stages].time - lap))
    return last - stages, last


_EVEN = 0.005
_AHEAD = 0.1


def _main_loop(block: Block, role: str, loader: str, pipeline: tree.Pipeline, end: Event, since: Event, count: int) -> MainLoop:
    path = tuple(Step(step.reason, step.cycles / count) for step in steps(end, since.time))
    # Per block, while the engines work for all blocks; roles that alternate on a ring use only a part of what is loaded.
    uses = max(len(block.marks[role, pipeline]), len(block.marks[loader, pipeline]))
    engines = {name: cycles / uses for name, cycles in block.around.busy.items()}
    instructions = block.around.instructions[loader] / uses
    return MainLoop(role, loader, pipeline, (end.time - since.time) / count, instructions, engines, path)
