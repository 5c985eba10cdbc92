"""One block on its multiprocessor: the engines shared by all blocks, and what its roles have handed over so far."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Protocol

from pipec.kir.plan.types import Plan
from pipec.predict.conditions import Conditions
from pipec.predict.device import Device
from pipec.predict.following.events import START, Busy, Event, latest
from pipec.predict.following.tensor_cores import TensorCores
from pipec.predict.following.uses import Stretch, Use
from pipec.predict.following.values import Values
from pipec.predict.tile_loops import warpgroups
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import Side

MOST_EVENTS = 200_000


class Waiting(Protocol):
    """A process that waits for a use."""

    now: Event


class Engines:
    """What blocks on a multiprocessor share: each engine is free from its last event on."""

    def __init__(self, device: Device, conditions: Conditions, stages: Mapping[str, int], *, drawn: bool) -> None:
        """`drawn`: notes the `stretches`, for a timeline."""
        self.device, self.conditions, self._stages, self.drawn = device, conditions, stages, drawn
        self.start = Event(0.0, None, START, 0.0)
        self.copies = self.served = self.products = self.stores = self.start
        self.tensor_cores = TensorCores()  # for products in registers
        self.working: dict[str, Event] = defaultdict(lambda: self.start)  # until when threads of a role issue instructions
        self.stretches: list[Stretch] = []
        self.busy: dict[Busy, float] = defaultdict(float)
        self.instructions: dict[str, int] = defaultdict(int)  # of TMA, by role
        self.loaded: dict[tree.Operation, int] = defaultdict(int)  # number of loads, by the first block
        self.blocks: list[Block] = []
        self.ready: list[tuple[float, int, Waiting]] = []  # a heap: who goes on when, in which order at the same time
        self.turn = 0  # steps taken so far

    def is_first(self, time: float) -> bool:
        """Whether nobody else has anything to do up to this time. Counts as a step, since threads go on without the queue then."""
        self.turn += 1
        return self.turn <= MOST_EVENTS and (not self.ready or time < self.ready[0][0])

    def stages(self, pipeline: tree.Pipeline) -> int:
        return self._stages.get(pipeline.name, pipeline.stages)


class Block:
    """One CTA. Others of its cluster do the same at the same time."""

    def __init__(
        self,
        kernel: tree.Kernel,
        plan: Plan,
        values: Values,
        granted: Sequence[int],
        most_tiles: int | None,
        around: Engines,
        number: int,
    ) -> None:
        """`granted`: the tiles from a tile scheduler, after the block's own; `most_tiles`: the block ends after this many."""
        self.number, self.plan, self.values, self.around = number, plan, values, around
        self.kernel = kernel
        self.arrived: dict[Use, list[Event]] = defaultdict(list)
        self.handed_over: dict[Use, Event] = {}
        self.waiting: dict[Use, list[Waiting]] = defaultdict(list)
        self.woken: list[Waiting] = []
        self.granted = granted if most_tiles is None else granted[: most_tiles - 1]
        self.most_tiles = most_tiles
        self.assumed: dict[Span, None] = {}
        self._counts: dict[tuple[tree.Pipeline, Side], int] = {}
        self.marks: dict[tuple[str, tree.Pipeline], list[Event]] = defaultdict(list)  # when a role obtained each stage
        self.groups = {role.name: warpgroups(role) for role in kernel.roles}
        self.multicasts = any(copy.line is not None for copy in plan.tma.values())

    def arrive(self, use: Use, event: Event) -> None:
        arrived = self.arrived[use]
        arrived.append(event)
        if len(arrived) >= self._arrivals(use.pipeline, use.side):
            self.handed_over[use] = latest(arrived)
            self.woken += self.waiting.pop(use, ())

    def _arrivals(self, pipeline: tree.Pipeline, side: Side) -> int:
        """The arrivals of groups of threads that complete a use."""
        key = pipeline, side
        if key not in self._counts:
            signals = self.plan.signals.get(key)
            roles = [
                role for role in self.plan.kernel.roles if pipeline in (role.produces if side == "producer" else role.consumes)
            ]
            groups = max((self.groups[role.name] for role in roles), default=1)
            self._counts[key] = groups * (1 if signals is None or signals.in_turn else len(signals.how))
        return self._counts[key]
