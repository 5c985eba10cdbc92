"""One role of a block, followed statement by statement: what it waits for, what it submits to the engines, and when."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from pipec.kir.plan.types import MmaWait, RolePlan
from pipec.kir.walk import subexpressions
from pipec.predict.following.block import Block
from pipec.predict.following.events import Event, Reason, later_of
from pipec.predict.following.tensor_cores import Product
from pipec.predict.following.uses import Stretch, Unpredictable, Use
from pipec.predict.following.values import Known, Value
from pipec.predict.tile_loops import goes_over_tiles, multiplies, operations_in
from pipec.predict.work import (
    LINE,
    SCHEDULERS,
    Transfer,
    instructions,
    product_cycles,
    remote_words,
    thread_cycles,
    tiles_read,
    transfer,
)
from pipec.sema import tree
from pipec.vocabulary import Side

_NOTHING = (0, 0)  # rows and bytes
_SCHEDULERS = "schedulers"
_FILLED = 64  # bytes per L2 request


class Role:
    """The threads of a role, or of one of its warpgroups, as a unit: `now` is when they have executed the current step."""

    def __init__(self, block: Block, plan: RolePlan, body: tuple[tree.Statement, ...], group: int) -> None:
        self.block, self.plan = block, plan
        self.group, self.part = group, 1 / block.groups[plan.role.name]
        self.device, self.around = block.around.device, block.around
        self.name = plan.role.name
        self.body = body
        self._multiplies = multiplies(body)
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
        self.turns: tuple[float | None, float] = (
            None,
            0.0,
        )  # the number of blocks that take turns, and since when this one has its own
        self.steps = self._run(body)

    def _run(self, body: tuple[tree.Statement, ...]) -> "Iterator[Use | float | None]":
        yield from self._go(self._ready(body))
        self._give_back()
        if any(isinstance(one, tree.Assign | tree.Store) and remote_words(one) for one in operations_in(body)):
            # A CTA ends when the others have read what lies in its memory.
            self.now = self.now.later(Reason("hand over", self.name), self.device.meet)

    def _go(self, body: "tuple[_Step, ...]") -> "Iterator[Use | float | None]":
        for do, in_turn, waits in body:
            if waits is not None:
                yield from waits()
                continue
            if in_turn:
                yield None
            do()

    # ------------------------------------------------------------------------------------------------------ statements

    def _ready(self, body: tuple[tree.Statement, ...]) -> "tuple[_Step, ...]":
        """Statements are prepared once and executed many times."""
        return tuple(step for statement in body for step in self._steps_of(statement))

    def _steps_of(self, statement: tree.Statement) -> "Iterator[_Step]":
        value = self.block.values.of
        match statement:
            case tree.For():
                yield _waits(self._for, statement, value(statement.start), value(statement.stop), self._ready(statement.body))
            case tree.While():
                yield _waits(self._while, statement, value(statement.condition), self._ready(statement.body))
            case tree.If():
                taken, other = self._ready(statement.then), self._ready(statement.otherwise)
                yield _waits(self._if, statement, value(statement.condition), taken, other)
            case tree.Elect():
                yield from self._ready(statement.body)
            case _:
                yield from self._operation(statement)

    def _for(self, loop: tree.For, first: Value, last: Value, body: "tuple[_Step, ...]") -> "Iterator[Use | float | None]":
        start, stop = first(self.known), last(self.known)
        if start is None or stop is None:
            raise Unpredictable(self._unknown(loop.start, loop.stop), loop.span)
        numbers = range(int(start), int(stop), loop.step)
        if self.block.most_tiles is not None and goes_over_tiles(loop):
            numbers = numbers[: self.block.most_tiles]
        for number in numbers:
            self.known[loop.variable] = number
            yield from self._go(body)

    def _while(self, loop: tree.While, condition: Value, body: "tuple[_Step, ...]") -> "Iterator[Use | float | None]":
        while goes_on := condition(self.known):
            yield from self._go(body)
        if goes_on is None:
            raise Unpredictable(self._unknown(loop.condition), loop.span)

    def _if(
        self, branch: tree.If, condition: Value, taken: "tuple[_Step, ...]", other: "tuple[_Step, ...]"
    ) -> "Iterator[Use | float | None]":
        holds = condition(self.known)
        if holds is None:
            self.block.assumed[branch.span] = None
        return self._go(taken if holds is None or holds else other)

    def _unknown(self, *expressions: tree.Expression) -> str:
        """The tensor elements that loop bounds are read from, also through variables."""
        assigned = {one.variable: one.value for one in operations_in(self.body) if isinstance(one, tree.Assign)}
        nodes = (node for expression in expressions for node in subexpressions(expression, assigned))
        read = sorted({node.source.tensor.name for node in nodes if isinstance(node, tree.ReadElement)})
        if not read:
            return "how often this loop runs is known to the GPU alone"
        return f"how often this loop runs follows from elements of {' and '.join(f'`{name}`' for name in read)}, which the GPU alone knows"

    # ------------------------------------------------------------------------------------------------------ operations

    def _operation(self, operation: tree.Operation) -> "Iterator[_Step]":
        mma_waits = self.plan.mma_waits
        wait = mma_waits.waits.get(operation) if mma_waits is not None else None
        if wait is not None:
            yield _waits(self._await_products, wait)
        if self.block.number == 0 and (isinstance(operation, tree.TmaLoad | tree.CopyAsync) or tiles_read(operation)):
            yield _does(self._count, operation)
        match operation:
            case tree.Assign():
                yield from self._work(operation)
                yield _does(self._assign, operation.variable, self.block.values.of(operation.value))
            case tree.Acquire():
                yield _waits(self._acquire, operation, self.around.stages(operation.handle.pipeline))
            case tree.Skip(pipeline=pipeline):
                yield _does(self._skip, pipeline)
            case tree.Peek():
                yield _does(self.known.__setitem__, operation.ready, True)
            case tree.Signal():
                yield _does(self._signal, operation.handle, operation.sub_stage)
            case tree.Release():
                yield from self._release(operation)
            case tree.RequestTile():
                yield _does(self._request, operation.handle)
            case tree.TmaLoad():
                yield _in_turn(self._load, operation)  # in time order among all copies
            case tree.CopyAsync():
                yield _does(self._copy, operation.destination)
            case tree.TmaStore():
                yield _does(self._store, operation)
            case tree.Mma():
                yield _in_turn(self._multiply, operation, *product_cycles(instructions(operation), self.device))
            case tree.RegisterMma():
                yield from self._work(operation)
                yield _in_turn(self._multiply, operation, *product_cycles(instructions(operation), self.device))
            case tree.Store() | tree.Write() | tree.WriteAccumulator() | tree.Vote() | tree.ReduceColumns():
                yield from self._work(operation)
            case tree.AwaitTurn():
                yield _does(self._await_turn, self.block.values.of(operation.turns))
            case tree.PassTurn():
                yield _does(self._take_turns)
            case tree.Drain() | tree.ExpectBytes() | tree.ClearAccumulator() | tree.AwaitGrids() | tree.LaunchDependents():
                pass  # draining happens at the end anyway, and memory of other blocks is not modelled
            case _:
                yield _does(self._refuse, operation)

    def _count(self, operation: tree.Operation) -> None:
        self.around.loaded[operation] += 1

    def _assign(self, variable: tree.Variable, value: Value) -> None:
        self.known[variable] = value(self.known)

    def _request(self, handle: tree.Handle) -> None:
        self._lands(handle, self.now.later(Reason("latency", handle.pipeline.name), self.device.load))

    def _refuse(self, operation: tree.Operation) -> None:
        raise Unpredictable("what this takes is not known", operation.span)

    def _copy(self, into: tree.BufferRef) -> None:
        lines = into.buffer.columns * into.buffer.dtype.bits / 8 / LINE
        late = self.device.load + self.around.conditions.farther + lines
        self._lands(into.handle, self.now.later(Reason("latency", into.buffer.label), late))

    def _acquire(self, operation: tree.Acquire, stages: int) -> "Iterator[Use | float | None]":
        handle = operation.handle
        pipeline, side = handle.pipeline, handle.side
        if operation.first:
            self.number[handle] = self.uses[pipeline, side]
            self.uses[pipeline, side] += 1
            self.signalled -= {(handle, sub_stage) for sub_stage in range(pipeline.sub_stages(side))}
            self.pending[handle] = []
            self.landed[handle] = _NOTHING
        number = self.number[handle] - (stages if side == "producer" else 0)
        other: Side = "consumer" if side == "producer" else "producer"
        if number >= 0:
            use = Use(pipeline, other, operation.sub_stage, number)
            while (event := self.block.handed_over.get(use)) is None:
                yield use
            self._wait(event, pipeline.name)
        if operation.first:
            if self.group == 0:
                self.block.marks[self.name, pipeline].append(self.now)
            schedule = self.block.plan.kernel.schedule
            if schedule is not None and pipeline is schedule.responses and side == "consumer":
                granted = self.block.granted
                self.known[handle] = granted[self.number[handle]] if self.number[handle] < len(granted) else -1

    def _skip(self, pipeline: tree.Pipeline) -> None:
        self.uses[pipeline, "consumer"] += 1

    def _wait(self, event: Event, what: str) -> None:
        if event.time > self.now.time:
            self._stretch(f"wait for {what}", self.now.time, event.time)
            self.now = event

    def _release(self, operation: tree.Release) -> "Iterator[_Step]":
        handle = operation.handle
        if not operation.signals and "tma" not in self.block.plan.signals[handle.pipeline, handle.side].how[self.name]:
            return  # bytes of copies count by themselves, even without a signal
        late = self.plan.mma_waits is not None and operation in self.plan.mma_waits.late
        yield _does(self._give, handle, handle.pipeline.sub_stages(handle.side), late)

    def _give(self, handle: tree.Handle, sub_stages: int, late: bool) -> None:
        for sub_stage in range(sub_stages):
            if (handle, sub_stage) not in self.signalled:
                if late:
                    self.held_back.append((handle, self.number[handle]))
                else:
                    self._signal(handle, sub_stage)

    def _signal(self, handle: tree.Handle, sub_stage: int) -> None:
        self.signalled.add((handle, sub_stage))
        event = self.now
        for landed in self.pending[handle]:
            event = landed if landed.time > event.time else event
        if event is self.now:
            event = event.later(Reason("hand over", handle.pipeline.name), self.device.arrive)
        self.block.arrive(Use(handle.pipeline, handle.side, sub_stage, self.number[handle]), event)

    def _lands(self, handle: tree.Handle, event: Event) -> None:
        self.pending[handle].append(event)

    # ---------------------------------------------------------------------------------------------------------- copies

    def _load(self, operation: tree.TmaLoad) -> None:
        handle, copy = operation.destination.handle, transfer(operation, self.block.plan.tma[operation])
        around, device, pipeline = self.around, self.device, handle.pipeline.name
        parts, tensor = self._parts(operation, copy), operation.source.tensor.name
        walking, engine = self._walking(copy, parts, tensor)
        if self.landed[handle] == _NOTHING:
            self.now = self.now.later(Reason("issue", self.name), device.turn)
            around.busy[f"issue {self.name}"] += device.turn
        started, begin = self.now, later_of(self.now, around.copies)
        for _ in range(copy.instructions):
            around.copies = later_of(self.now, around.copies).later(Reason("walk", pipeline), walking / copy.instructions)
            self.now = self.now.later(Reason("issue", self.name), device.issue + device.issue_row * copy.rows / copy.instructions)
        self._stretch(f"issue loads of {pipeline}", started.time, self.now.time)
        around.busy[f"issue {self.name}"] += self.now.time - started.time
        self._engine("copies", pipeline, begin, around.copies, 0.0)
        around.busy[engine] += walking
        around.instructions[self.name] += copy.instructions
        inside = around.conditions.inside.get(tensor, 1.0)
        given = copy.bytes * parts * inside * around.conditions.served.get(tensor, 0.0)
        around.served = later_of(begin, around.served).later(Reason("walk", pipeline), given)
        around.busy["served"] += given
        rows, size = self.landed[handle]
        rows, size = rows + copy.rows * parts, size + copy.bytes * parts
        self.landed[handle] = rows, size
        # A request transfers at least 64 bytes, so that shorter rows find half of theirs already there.
        far = around.conditions.farther * min(1.0, size / rows / _FILLED)
        late = device.load + far + rows * device.load_row + size / LINE * device.load_line
        self._lands(handle, later_of(around.copies, around.served).later(Reason("latency", pipeline), late))

    def _parts(self, operation: tree.TmaLoad, copy: Transfer) -> int:
        """The number of CTAs of the cluster that load a tile together."""
        if self.block.plan.tma[operation].line is None:
            return 1
        shares = operation.destination.buffer.rows * copy.instructions // max(1, copy.rows)
        return min(self.block.plan.kernel.cluster.size, max(1, shares))

    def _walking(self, copy: Transfer, parts: int, tensor: str) -> tuple[float, str]:
        """Cycles of the copy engine, for rows inside the tensor, which need requests, and for those outside, which are zero-filled; and
        whether the engine or the L2 is the limit."""
        conditions = self.around.conditions
        inside = conditions.inside.get(tensor, 1.0)
        requests = conditions.requests.get(tensor, 1.0)
        there = copy.rows * inside * requests * self.device.row * conditions.slower
        moved = copy.bytes * inside * requests / conditions.bytes_per_cycle
        if self.block.multicasts:
            moved = max(moved, copy.bytes * parts * inside / self.device.multicast_rate)
        filled = copy.rows * (1 - inside) * max(self.device.row, self.device.outside * conditions.busy)
        return max(there, moved) + filled, "l2" if moved > there + filled else "copies"

    def _store(self, operation: tree.TmaStore) -> None:
        copy = transfer(operation, self.block.plan.tma[operation])
        around = self.around
        begin = later_of(self.now, around.stores)
        around.stores = begin.later(Reason("store", operation.destination.tensor.name), copy.rows * self.device.row)
        self._engine("stores", operation.destination.tensor.name, begin, around.stores, copy.rows * self.device.row)
        self._lands(
            operation.source.handle,
            around.stores.later(Reason("latency", operation.destination.tensor.name), self.device.load / 2),
        )
        self.now = self.now.later(Reason("issue", self.name), copy.instructions * self.device.issue)

    # -------------------------------------------------------------------------------------------------------- products

    def _multiply(self, operation: tree.Mma | tree.RegisterMma, cycles: float, first: float) -> None:
        around = self.around
        cycles *= self.part
        begin = self.now.later(Reason("latency", self.name), first)
        if isinstance(operation, tree.RegisterMma):
            self._share(begin, cycles)
            return
        # A product that directly follows another finds the pipeline filled.
        begin = later_of(begin, around.products)
        around.products = begin.later(Reason("multiply", self.name), cycles)
        self._engine("products", self.name, begin, around.products, cycles)
        for tile in (operation.accumulator, operation.a, operation.b, *operation.scales):
            self._lands(tile.handle, around.products)

    def _share(self, begin: Event, cycles: float) -> None:
        product = Product(begin, cycles, Reason("multiply", self.name))
        self.products.append(product)
        self.around.tensor_cores.multiply(self, product)
        self.around.busy["products"] += cycles

    def _await_products(self, wait: MmaWait) -> "Iterator[Use | float | None]":
        """Waits for wgmma's products, and releases the late stage."""
        cores, ended = self.around.tensor_cores, len(self.products) - wait.pending
        if ended > 0:
            last = self.products[ended - 1]
            while last.end is None:
                at = cores.ends(last)
                yield at
                cores.until(at)
            for one in self.products[:ended]:
                assert one.end is not None
                self.around.stretches.append(Stretch(self.block.number, "products", self.name, one.since.time, one.end.time))
            self._wait(last.end, "products")
            del self.products[:ended]
        if wait.gives_back:
            self._give_back()

    def _give_back(self) -> None:
        for handle, number in self.held_back:
            event = self.now.later(Reason("hand over", handle.pipeline.name), self.device.arrive)
            self.block.arrive(Use(handle.pipeline, handle.side, 0, number), event)
        self.held_back.clear()

    # ------------------------------------------------------------------------------------------------------------ rest

    def _await_turn(self, turns: Value) -> None:
        self.turns = turns(self.known), self.now.time

    def _take_turns(self) -> None:
        """Concurrent blocks reach their turns together, and the last of them waits for all others: each passes the turn on when its
        stores have completed, through a counter that the next one polls."""
        turns, since = self.turns
        others = max(0.0, (turns or 1) * self.around.conditions.at_once - 1)
        if others:
            begun = self.now.time
            section = begun - since + self.device.turn_over
            self.now = self.now.later(Reason("turns", self.name), others * section)
            self._stretch("wait for turns of other blocks", begun, self.now.time)

    def _work(self, operation: tree.Operation) -> "Iterator[_Step]":
        if tiles := tiles_read(operation):
            yield _does(self._read, tiles)
        cycles = thread_cycles(operation, self.plan.role.warps, self.device) * self.part
        if cycles:
            # Stores occupy the path to memory, not the schedulers. In time order among all computations.
            engine = self.name if isinstance(operation, tree.Store) else _SCHEDULERS
            yield _in_turn(self._compute, type(operation).__name__.lower(), engine, cycles)
        if remote := remote_words(operation) * self.part:
            yield _does(self._fetch, remote * self.device.remote)

    def _fetch(self, cycles: float) -> None:
        """Through the network between multiprocessors, which leaves the schedulers to others."""
        before = self.now
        self.now = before.later(Reason("latency", self.name), cycles)
        self._stretch("read from other CTAs", before.time, self.now.time)

    def _compute(self, what: str, engine: str, cycles: float) -> None:
        """Interleaved with other groups and blocks of any role, whose instructions the same schedulers issue."""
        before, around, reason = self.now, self.around, Reason("work", self.name)
        start = later_of(before, around.working[engine])
        filled = cycles * min(1.0, self.plan.role.warps / SCHEDULERS)
        around.working[engine] = start.later(reason, filled)
        # With one warp per scheduler, a warpgroup waits for its own results meanwhile.
        waits = self._multiplies and engine == _SCHEDULERS
        self.now = start.later(reason, cycles * (self.device.dependent if waits else 1.0))
        self._stretch(what, before.time, self.now.time)
        around.busy[f"work {self.name}"] += cycles
        if engine == _SCHEDULERS:
            around.busy[_SCHEDULERS] += filled

    def _read(self, tiles: tuple[tree.ReadTensor, ...]) -> None:
        """Threads wait for their loads from global memory, which come through the L2 like copies."""
        before, around = self.now, self.around
        for tile in tiles:
            size = tile.type.rows * tile.type.columns * tile.source.tensor.dtype.bits / 8 * self.part
            first = later_of(before, around.copies)
            around.copies = first.later(Reason("read", self.name), size / around.conditions.bytes_per_cycle)
        whole = [tile for tile in tiles if tile.axis is None]
        if not whole:
            return  # row and column vectors are small, stay in the L2 and are loaded early
        late = self.device.load + around.conditions.farther
        self.now = around.copies.later(Reason("latency", whole[-1].source.tensor.name), late)
        self._stretch("read", before.time, self.now.time)

    def _engine(self, engine: str, what: str, begin: Event, end: Event, cycles: float) -> None:
        self.around.busy[engine] += cycles
        self.around.stretches.append(Stretch(self.block.number, engine, what, begin.time, end.time))

    def _stretch(self, what: str, start: float, end: float) -> None:
        self.around.stretches.append(Stretch(self.block.number, self.name, what, start, end))


class _Step(NamedTuple):
    """A prepared statement: what it `does`, immediately or `in_turn`, that is, in time order with all others on the multiprocessor; or,
    if it may wait itself, how it continues."""

    does: Callable[[], object]
    in_turn: bool = False
    waits: "Callable[[], Iterator[Use | float | None]] | None" = None


def _does(action: Callable[..., object], *given: object) -> _Step:
    return _Step(partial(action, *given))


def _in_turn(action: Callable[..., object], *given: object) -> _Step:
    return _Step(partial(action, *given), in_turn=True)


def _waits(action: "Callable[..., Iterator[Use | float | None]]", *given: object) -> _Step:
    return _Step(_nothing, waits=partial(action, *given))


def _nothing() -> None:
    pass
