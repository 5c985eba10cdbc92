"""One role of a block, followed statement by statement: what it waits for, what it submits to the engines, and when."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from pipec.kir.plan.types import RolePlan
from pipec.kir.walk import subexpressions
from pipec.predict.following.block import Block
from pipec.predict.following.computing import ON_SCHEDULERS, await_turn, compute, fetch, read, take_turns, work_of
from pipec.predict.following.copies import copy_async, load, load_of, store
from pipec.predict.following.events import Why, because
from pipec.predict.following.products import await_products, multiply
from pipec.predict.following.threads import Threads
from pipec.predict.following.uses import Unpredictable, Use
from pipec.predict.following.values import Value
from pipec.predict.tile_loops import goes_over_tiles, operations_in
from pipec.predict.work import instructions, product_cycles, remote_words, thread_cycles, tiles_read
from pipec.sema import tree
from pipec.sema.types import TileType


class Role(Threads):
    """Threads with what they do. Each of the `steps` is a use that they wait for, a time until which others may go first, or None."""

    def __init__(self, block: Block, plan: RolePlan, body: tuple[tree.Statement, ...], group: int) -> None:
        super().__init__(block, plan, body, group)
        self.body = body
        self.steps = self._run(body)

    def _run(self, body: tuple[tree.Statement, ...]) -> "Iterator[Use | float | None]":
        yield from self._go(self._ready(body))
        self.give_back()
        if any(isinstance(one, tree.Assign | tree.Store) and remote_words(one) for one in operations_in(body)):
            # A CTA ends when the others have read what lies in its memory.
            self.now = self.now.later(because(Why.HAND_OVER, self.name), self.device.meet)

    def _go(
        self, body: "tuple[_Step, ...]", variable: tree.Variable | None = None, numbers: Iterable[int] = (0,)
    ) -> "Iterator[Use | float | None]":
        """With each of the numbers for the variable: a generator for all of them, since each step comes out through all generators."""
        around, block = self.around, self.block
        for number in numbers:
            if variable is not None:
                self.known[variable] = number
            for do, in_turn, waits in body:
                if waits is not None:
                    yield from waits()
                    continue
                if in_turn and (block.woken or not around.is_first(self.now.time)):
                    yield None
                do()

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
        return self._go(body, loop.variable, numbers)

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

    def _operation(self, operation: tree.Operation) -> "Iterator[_Step]":
        mma_waits = self.plan.mma_waits
        wait = mma_waits.waits.get(operation) if mma_waits is not None else None
        if wait is not None:
            yield _waits(await_products, self, wait)
        if self.block.number == 0 and (isinstance(operation, tree.TmaLoad | tree.CopyAsync) or tiles_read(operation)):
            yield _does(self._count, operation)
        match operation:
            case tree.Assign():
                yield from self._work(operation)
                yield from self._assigned(operation)
            case tree.Acquire():
                yield _waits(self.acquire, operation, self.around.stages(operation.handle.pipeline))
            case tree.Move():
                yield _does(self.move, operation)
            case tree.Skip(pipeline=pipeline):
                yield _does(self.skip, pipeline)
            case tree.Peek():
                yield _does(self.known.__setitem__, operation.ready, True)
            case tree.Signal():
                yield _does(self.signal, operation.handle, operation.sub_stage)
            case tree.Release():
                yield from self._release(operation)
            case tree.RequestTile():
                yield _does(self._request, operation.handle)
            case tree.TmaLoad():
                yield _in_turn(load, self, load_of(self, operation))  # in time order among all copies
            case tree.CopyAsync():
                yield _does(copy_async, self, operation.destination)
            case tree.TmaStore():
                yield _does(store, self, operation)
            case tree.Mma():
                yield _in_turn(multiply, self, operation, *product_cycles(instructions(operation), self.device))
            case tree.RegisterMma():
                yield from self._work(operation)
                yield _in_turn(multiply, self, operation, *product_cycles(instructions(operation), self.device))
            case tree.Store() | tree.Write() | tree.WriteAccumulator() | tree.Vote() | tree.ReduceColumns():
                yield from self._work(operation)
            case tree.AwaitTurn():
                yield _does(await_turn, self, self.block.values.of(operation.turns))
            case tree.PassTurn():
                yield _does(take_turns, self)
            case tree.Drain() | tree.ExpectBytes() | tree.ClearAccumulator() | tree.AwaitGrids() | tree.LaunchDependents():
                pass  # draining happens at the end anyway, and memory of other blocks is not modelled
            case _:
                yield _does(self._refuse, operation)

    def _count(self, operation: tree.Operation) -> None:
        self.around.loaded[operation] += 1

    def _assigned(self, operation: tree.Assign) -> "Iterator[_Step]":
        if not isinstance(operation.variable.type, TileType):  # loops and branches need no tiles
            yield _does(self._assign, operation.variable, self.block.values.of(operation.value))

    def _assign(self, variable: tree.Variable, value: Value) -> None:
        self.known[variable] = value(self.known)

    def _request(self, handle: tree.Handle) -> None:
        self.lands(handle, self.now.later(because(Why.LATENCY, handle.pipeline.name), self.device.load))

    def _refuse(self, operation: tree.Operation) -> None:
        raise Unpredictable("what this takes is not known", operation.span)

    def _release(self, operation: tree.Release) -> "Iterator[_Step]":
        handle = operation.handle
        if not operation.signals and "tma" not in self.block.plan.signals[handle.pipeline, handle.side].how[self.name]:
            return  # bytes of copies count by themselves, even without a signal
        late = self.plan.mma_waits is not None and operation in self.plan.mma_waits.late
        yield _does(self.give, handle, handle.pipeline.sub_stages(handle.side), late)

    def _work(self, operation: tree.Operation) -> "Iterator[_Step]":
        if tiles := tiles_read(operation):
            yield _does(read, self, tiles)
        cycles = thread_cycles(operation, self.plan.role.warps, self.device) * self.part
        if cycles:
            # Stores occupy the path to memory, not the schedulers. In time order among all computations.
            engine = self.name if isinstance(operation, tree.Store) else ON_SCHEDULERS
            yield _in_turn(compute, self, work_of(self, type(operation).__name__.lower(), engine, cycles))
        if remote := remote_words(operation) * self.part:
            yield _does(fetch, self, remote * self.device.remote)


class _Step(NamedTuple):
    """A prepared statement: what it `does`, immediately or `in_turn`, that is, in time order with all others on the multiprocessor; or,
    if it may wait itself, how it continues."""

    does: Callable[[], object]
    in_turn: bool = False
    waits: "Callable[[], Iterable[Use | float | None]] | None" = None


def _does(action: Callable[..., object], *given: object) -> _Step:
    return _Step(partial(action, *given))


def _in_turn(action: Callable[..., object], *given: object) -> _Step:
    return _Step(partial(action, *given), in_turn=True)


def _waits(action: "Callable[..., Iterable[Use | float | None]]", *given: object) -> _Step:
    return _Step(_nothing, waits=partial(action, *given))


def _nothing() -> None:
    pass
