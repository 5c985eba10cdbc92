"""Runs blocks of a kernel on one multiprocessor, event by event: roles wait for stages, engines serve requests in order.

Nothing is computed; scalars are followed as far as loops and branches need them. The result is the time of every event and what it
waited for, from which the period of the main loop and its bottleneck are derived.
"""

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from pipec.kir.plan.types import Plan
from pipec.predict.conditions import Conditions
from pipec.predict.device import Device
from pipec.predict.following.block import MOST_EVENTS, Block, Engines
from pipec.predict.following.events import Event, latest
from pipec.predict.following.role import Role
from pipec.predict.following.tensor_cores import TensorCores
from pipec.predict.following.uses import Unpredictable, Use
from pipec.predict.following.values import Values
from pipec.sema import tree

_ENDED = object()


class Multiprocessor(Engines):
    """Engines, and the blocks that share them."""

    def __init__(self, device: Device, conditions: Conditions, stages: Mapping[str, int], *, drawn: bool) -> None:
        super().__init__(device, conditions, stages, drawn=drawn)
        self._roles: list[Role] = []

    def add(self, kernel: tree.Kernel, plan: Plan, values: Values, granted: Sequence[int], most_tiles: int | None) -> None:
        """Adds a block; arguments as for Block."""
        block = Block(kernel, plan, values, granted, most_tiles, self, len(self.blocks))
        self.blocks.append(block)
        plans = {row.role.name: row for row in plan.roles}
        self._roles += [
            Role(block, plans[role.name], role.body, group) for role in kernel.roles for group in range(block.groups[role.name])
        ]

    def run(self) -> Event:
        """Runs all blocks to their end, the earliest role first. Raises Unpredictable."""
        ready = self.ready
        ready += [(0.0, number, role) for number, role in enumerate(self._roles)]
        self.turn = len(ready)
        while ready:
            _, _, role = heappop(ready)
            assert isinstance(role, Role)
            need = next(role.steps, _ENDED)
            self.turn += 1
            if self.turn > MOST_EVENTS:
                raise Unpredictable("the kernel does too much to be followed event by event", role.plan.role.span)
            if need is _ENDED:
                role.over = True
            elif need is None or need in role.block.handed_over:
                heappush(ready, (role.now.time, self.turn, role))
            elif isinstance(need, float):  # until then others may ask for what it waits for
                heappush(ready, (need, self.turn, role))
            else:
                assert isinstance(need, Use)
                role.block.waiting[need].append(role)
            for woken in role.block.woken:
                assert isinstance(woken, Role)
                self.turn += 1
                heappush(ready, (woken.now.time, self.turn, woken))
            role.block.woken.clear()
        for role in self._roles:
            if not role.over:
                raise Unpredictable(
                    f"role `{role.plan.role.name}` waits for ever when branches are taken as assumed", role.plan.role.span
                )
        end = latest([role.now for role in self._roles] + [self.stores, self.copies, self.products])
        # What refers back to this object: without it, thousands of events are free as soon as nobody asks for them, without the collector.
        self._roles.clear()
        self.tensor_cores = TensorCores()
        return end
