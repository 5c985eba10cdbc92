"""Blocks of a kernel run on one multiprocessor, event by event: roles wait for stages, engines take what they are given in turn.

Nothing is computed; scalars are followed as far as loops and branches need them. The result is the time of every event and what it
waited for, from which the period of the main loop and its bottleneck are read off.
"""

from collections import defaultdict
from collections.abc import Sequence
from heapq import heappop, heappush

from pipec.kir.plan.types import Plan
from pipec.predict.conditions import Conditions
from pipec.predict.device import Device
from pipec.predict.events import START, Event, latest
from pipec.predict.role import Role, warpgroups
from pipec.predict.uses import Stretch, Unpredictable, Use
from pipec.predict.values import Values
from pipec.sema import tree
from pipec.source import Span
from pipec.vocabulary import Side

MOST_EVENTS = 200_000


class Multiprocessor:
    """Engines that its blocks share."""

    def __init__(self, device: Device, conditions: Conditions) -> None:
        self.device, self.conditions = device, conditions
        self.start = Event(0.0, None, START, 0.0)
        self.copies = self.products = self.stores = self.start
        self.blocks: list[Block] = []
        self.stretches: list[Stretch] = []
        self.busy: dict[str, float] = defaultdict(float)
        self.instructions: dict[str, int] = defaultdict(int)  # of TMA, by role

    def run(self) -> Event:
        """All blocks to their end, whichever role is earliest going first. Raises Unpredictable."""
        turn = 0
        ready: list[tuple[float, int, Role]] = []
        for block in self.blocks:
            for role in block.roles:
                heappush(ready, (0.0, turn, role))
                turn += 1
        while ready:
            _, _, role = heappop(ready)
            need = next(role.steps, role.block.ended)
            turn += 1
            if turn > MOST_EVENTS:
                raise Unpredictable("the kernel does too much to be followed event by event", role.plan.role.span)
            if need is role.block.ended:
                role.over = True
            elif need is None or need in role.block.handed_over:
                heappush(ready, (role.now.time, turn, role))
            else:
                assert isinstance(need, Use)
                role.block.waiting[need].append(role)
            for woken in role.block.woken:
                turn += 1
                heappush(ready, (woken.now.time, turn, woken))
            role.block.woken.clear()
        for block in self.blocks:
            for role in block.roles:
                if not role.over:
                    raise Unpredictable(
                        f"role `{role.plan.role.name}` waits for ever when branches are taken as assumed", role.plan.role.span
                    )
        return latest([role.now for block in self.blocks for role in block.roles] + [self.stores, self.copies, self.products])


class Block:
    """One CTA. Others of its cluster do the same at the same time."""

    ended = object()

    def __init__(
        self,
        kernel: tree.Kernel,
        plan: Plan,
        values: Values,
        granted: Sequence[int],
        most_tiles: int | None,
        around: Multiprocessor,
    ) -> None:
        """`granted`: tiles by a tile scheduler, after the block's own; `most_tiles`: after so many the block ends."""
        self.number, self.plan, self.values, self.around = len(around.blocks), plan, values, around
        self.arrived: dict[Use, list[Event]] = defaultdict(list)
        self.handed_over: dict[Use, Event] = {}
        self.waiting: dict[Use, list[Role]] = defaultdict(list)
        self.woken: list[Role] = []
        self.granted = granted if most_tiles is None else granted[: most_tiles - 1]
        self.most_tiles = most_tiles
        self.assumed: dict[Span, None] = {}
        self.working: dict[str, Event] = defaultdict(lambda: around.start)  # until when groups of a role issue instructions
        self._counts: dict[tuple[tree.Pipeline, Side], int] = {}
        self.marks: dict[tuple[str, tree.Pipeline], list[Event]] = defaultdict(list)  # when a role had each stage
        plans = {row.role.name: row for row in plan.roles}
        self.groups = {role.name: warpgroups(role) for role in kernel.roles}
        self.roles = [
            Role(self, plans[role.name], role.body, number) for role in kernel.roles for number in range(self.groups[role.name])
        ]
        around.blocks.append(self)

    def arrive(self, use: Use, event: Event) -> None:
        arrived = self.arrived[use]
        arrived.append(event)
        if len(arrived) >= self._arrivals(use.pipeline, use.side):
            self.handed_over[use] = latest(arrived)
            self.woken += self.waiting.pop(use, ())

    def _arrivals(self, pipeline: tree.Pipeline, side: Side) -> int:
        """Of groups of threads, which complete a use."""
        key = pipeline, side
        if key not in self._counts:
            signals = self.plan.signals.get(key)
            roles = [
                role for role in self.plan.kernel.roles if pipeline in (role.produces if side == "producer" else role.consumes)
            ]
            groups = max((self.groups[role.name] for role in roles), default=1)
            self._counts[key] = groups * (1 if signals is None else len(signals.how))
        return self._counts[key]
