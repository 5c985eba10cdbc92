"""The threads of a role as the other parts see them: what they wait for and hand over, and what they have in flight."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pipec.kir.plan.types import RolePlan
from pipec.predict.following.block import Block
from pipec.predict.following.events import Busy, Engine, Event, Why, because
from pipec.predict.following.tensor_cores import Product
from pipec.predict.following.uses import Stretch, Use
from pipec.predict.following.values import Known
from pipec.predict.tile_loops import multiplies
from pipec.sema import tree
from pipec.vocabulary import Side

NOTHING = (0, 0)  # rows and bytes


class Threads:
    """The threads of a role, or of one of its warpgroups, as a unit: `now` is when they have executed the current step."""

    def __init__(self, block: Block, plan: RolePlan, body: tuple[tree.Statement, ...], group: int) -> None:
        self.block, self.plan = block, plan
        self.group, self.part = group, 1 / block.groups[plan.role.name]
        self.device, self.around = block.around.device, block.around
        self.name = plan.role.name
        self.multiplies = multiplies(body)
        self.now = self.around.start
        self.over = False
        self.known: Known = {}
        self.uses: dict[tuple[tree.Pipeline, Side], int] = defaultdict(int)
        self.number: dict[tree.Handle, int] = {}
        self.signalled: set[tuple[tree.Handle, int]] = set()
        self.pending: dict[tree.Handle, list[Event]] = defaultdict(list)  # copies and products that a stage waits for
        self.landed: dict[tree.Handle, tuple[int, int]] = {}  # rows and bytes copied into a stage so far
        self.products: list[Product] = []  # of wgmma, in flight
        self.held_back: list[tuple[tree.Handle, int]] = []  # stages with deferred release
        # The number of blocks that take turns, and since when this one has its own.
        self.turns: tuple[float | None, float] = (None, 0.0)

    def acquire(self, operation: tree.Acquire, stages: int) -> "Iterable[Use | float | None]":
        """Waits for nothing if the stage has been handed over."""
        handle = operation.handle
        pipeline, side = handle.pipeline, handle.side
        if operation.first:
            self.number[handle] = self.uses[pipeline, side]
            self.uses[pipeline, side] += 1
            for sub_stage in range(pipeline.sub_stages(side)):
                self.signalled.discard((handle, sub_stage))
            self.pending[handle] = []
            self.landed[handle] = NOTHING
        number = self.number[handle] - (stages if side == "producer" else 0)
        other: Side = "consumer" if side == "producer" else "producer"
        if number >= 0:
            use = Use(pipeline, other, operation.sub_stage, number)
            event = self.block.handed_over.get(use)
            if event is None:
                return self._acquire_later(operation, use)
            self.wait(event, pipeline.name)
        self._obtained(operation)
        return ()

    def _acquire_later(self, operation: tree.Acquire, use: Use) -> "Iterator[Use | float | None]":
        while (event := self.block.handed_over.get(use)) is None:
            yield use
        self.wait(event, use.pipeline.name)
        self._obtained(operation)

    def _obtained(self, operation: tree.Acquire) -> None:
        handle = operation.handle
        pipeline, side = handle.pipeline, handle.side
        if operation.first:
            if self.group == 0:
                self.block.marks[self.name, pipeline].append(self.now)
            schedule = self.block.plan.kernel.schedule
            if schedule is not None and pipeline is schedule.responses and side == "consumer":
                granted = self.block.granted
                self.known[handle] = granted[self.number[handle]] if self.number[handle] < len(granted) else -1

    def move(self, operation: tree.Move) -> None:
        target, source = operation.target, operation.source
        self.number[target] = self.number[source]
        self.pending[target], self.pending[source] = self.pending[source], []
        self.landed[target] = self.landed[source]
        self.signalled.discard((target, 0))
        if (source, 0) in self.signalled:
            self.signalled.add((target, 0))

    def skip(self, pipeline: tree.Pipeline) -> None:
        self.uses[pipeline, "consumer"] += 1

    def wait(self, event: Event, what: str) -> None:
        if event.time > self.now.time:
            self.stretch(f"wait for {what}", self.now.time, event.time)
            self.now = event

    def give(self, handle: tree.Handle, sub_stages: int, late: bool) -> None:
        for sub_stage in range(sub_stages):
            if (handle, sub_stage) not in self.signalled:
                if late:
                    self.held_back.append((handle, self.number[handle]))
                else:
                    self.signal(handle, sub_stage)

    def signal(self, handle: tree.Handle, sub_stage: int) -> None:
        self.signalled.add((handle, sub_stage))
        event = self.now
        for landed in self.pending[handle]:
            event = landed if landed.time > event.time else event
        if event is self.now:
            event = event.later(because(Why.HAND_OVER, handle.pipeline.name), self.device.arrive)
        self.block.arrive(Use(handle.pipeline, handle.side, sub_stage, self.number[handle]), event)

    def lands(self, handle: tree.Handle, event: Event) -> None:
        self.pending[handle].append(event)

    def give_back(self) -> None:
        for handle, number in self.held_back:
            event = self.now.later(because(Why.HAND_OVER, handle.pipeline.name), self.device.arrive)
            self.block.arrive(Use(handle.pipeline, handle.side, 0, number), event)
        self.held_back.clear()

    def engine(self, engine: Engine, what: str, begin: Event, end: Event, cycles: float) -> None:
        self.around.busy[Busy(engine)] += cycles
        if self.around.drawn:
            self.around.stretches.append(Stretch(self.block.number, engine, what, begin.time, end.time))

    def stretch(self, what: str, start: float, end: float) -> None:
        if self.around.drawn:
            self.around.stretches.append(Stretch(self.block.number, self.name, what, start, end))
