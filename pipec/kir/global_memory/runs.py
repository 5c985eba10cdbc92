"""Executes a role at given sizes in one block: computes its scalars, and records each use of global memory as a box of elements.

A run shows what does happen, not what may happen: two overlapping boxes are an error of some launch. Values known only at launch
(contents of memory) are unknown: code that depends on a branch on one is skipped, and execution continues at the join.
"""

from collections.abc import Iterator, Mapping

from pipec.kir import ir
from pipec.kir.global_memory.accesses import Access
from pipec.kir.global_memory.courses import Course
from pipec.kir.global_memory.scalars import Scalars, Unknown, known
from pipec.record import record
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.vocabulary import Side

MOST_STEPS = 4_000  # operations of one run
_MOST_TOUCHES = 96  # of one run

Box = tuple[tuple[int, int], ...]  # per axis the first element, and the one after the last
Turn = tuple[tuple[str, tuple[int, ...]], int]  # the counter's tensor and index, the turn


@record(eq=False)
class RecordedAccess:
    """`step`: the number of operations that the role has executed. `held`: the turns that the role has waited for so far. `before`: the
    axis along which the tile starts at a negative coordinate. `use`: of a copy into shared memory, the producer's use of its pipeline."""

    access: Access
    box: Box
    step: int
    held: frozenset[Turn]
    before: int | None = None
    use: int | None = None


@record(eq=False)
class HandOver:
    """The role waits for (`waits`) or signals use number `use` of a side; a drain waits for all uses below it."""

    pipeline: tree.Pipeline
    side: Side
    waits: bool
    use: int
    step: int


@record(eq=False)
class Taken:
    turn: Turn
    step: int


@record(eq=False)
class Passed:
    """`held`: the turns that the role has waited for so far."""

    turn: Turn
    step: int
    held: frozenset[Turn]


Event = RecordedAccess | HandOver | Taken | Passed


class Run(Scalars):
    """One role in one block."""

    def __init__(self, course: Course, launch: Mapping[str, int], times: int = 1) -> None:
        """`times`: how often as far it goes as usual."""
        super().__init__(launch, course.rules, times)
        self._times = times
        self._course = course
        self._uses: dict[tuple[tree.Pipeline, Side], int] = {}
        self._of_handle: dict[tree.Handle, int] = {}
        self._held: frozenset[Turn] = frozenset()
        self._turn: Turn | None = None
        self._step = 0
        self.ended = False  # the role reached its end, and nothing was skipped
        self.turns_known = True
        self._left_out = False

    def events(self) -> Iterator[Event]:
        number, touches = 0, 0
        while True:
            number = self._passed_over(number)
            block, before = self._course.role.blocks[number], self._step
            for stop in self._course.stops(number):
                self._step = before + min(stop.site + 1, len(block.operations))
                if stop.accesses:
                    for touch in self._touches(stop.accesses):
                        touches += 1
                        yield touch
                if isinstance(stop.operation, tree.Assign):
                    self._assign(stop.operation)
                elif stop.operation is not None:
                    yield from self._does(stop.operation)
            self._step = before + len(block.operations) + 1
            self.ended = isinstance(block.terminator, ir.Exit) and not self._left_out
            following = self._following(number, block.terminator)
            if following is None or self._step > MOST_STEPS * self._times or touches > _MOST_TOUCHES * self._times:
                return
            number = following

    def _passed_over(self, number: int) -> int:
        """The block after the idle loops that start here, counted with one step per iteration."""
        while (idle := self._course.idle.get(number)) is not None:
            try:
                first, last = self.value(idle.condition.left), self.value(idle.condition.right)
            except Unknown:
                break
            self._step += 1 + len(range(first, last, idle.step))
            for variable in idle.changed:
                self.variables.pop(variable, None)
            number = idle.behind
        return number

    def _following(self, number: int, terminator: ir.Terminator) -> int | None:
        match terminator:
            case ir.Jump(target):
                return target
            case ir.ElectBranch(then):
                return then  # the elected thread executes the branch
            case ir.Branch(condition, then, otherwise):
                try:
                    return then if self.value(condition) else otherwise
                except Unknown:
                    return self._behind(number)
            case ir.Exit():
                return None

    def _behind(self, number: int) -> int | None:
        """Where the role continues, whichever branch it takes; its actions until then are unknown."""
        found = self._course.joins(number)
        if found is None:
            return None
        following, skipped = found
        if any(isinstance(operation, tree.AwaitTurn | tree.PassTurn) for operation in skipped):
            return None
        for operation in skipped:
            if isinstance(operation, tree.Assign):
                self.variables.pop(operation.variable, None)
        self._left_out = True
        return following

    def _assign(self, operation: tree.Assign) -> None:
        if isinstance(operation.variable.type, TileType):
            return
        try:
            self.variables[operation.variable] = self.value(operation.value)
        except Unknown:
            self.variables.pop(operation.variable, None)

    def _does(self, operation: tree.Operation) -> Iterator[Event]:
        match operation:
            case tree.Peek(ready=ready):
                self.variables.pop(ready, None)
            case tree.Acquire(handle=handle):
                if operation.first:
                    side = handle.pipeline, handle.side
                    self._of_handle[handle] = self._uses.get(side, 0)
                    self._uses[side] = self._of_handle[handle] + 1
                yield self._hand_over(handle, waits=True)
            case tree.Signal(handle=handle) | tree.Release(handle=handle):
                yield self._hand_over(handle, waits=False)
            case tree.Move(target=target, source=source):
                self._of_handle[target] = self._of_handle.get(source, 0)
            case tree.Skip(pipeline=pipeline):
                self._uses[pipeline, "consumer"] = self._uses.get((pipeline, "consumer"), 0) + 1
            case tree.Drain(pipeline=pipeline):
                # Equivalent to waiting for the use after the last stage that was filled.
                last = self._uses.get((pipeline, "producer"), 0) - 1
                yield HandOver(pipeline, "producer", True, last + pipeline.stages, self._step)
            case tree.AwaitTurn():
                self._turn = self._taken(operation)
                if self._turn is not None:
                    self._held |= {self._turn}
                    yield Taken(self._turn, self._step)
                else:
                    self.turns_known = False
            case tree.PassTurn() if self._turn is not None:
                yield Passed(self._turn, self._step, self._held)
            case _:
                pass

    def _hand_over(self, handle: tree.Handle, *, waits: bool) -> HandOver:
        return HandOver(handle.pipeline, handle.side, waits, self._of_handle.get(handle, 0), self._step)

    def _taken(self, operation: tree.AwaitTurn) -> Turn | None:
        try:
            index = tuple(map(self.value, operation.counter.coordinates))
            return (operation.counter.tensor.name, index), self.value(operation.turn)
        except Unknown:
            return None

    # ------------------------------------------------------------------------------------------------------------- boxes

    def _touches(self, accesses: tuple[Access, ...]) -> Iterator[RecordedAccess]:
        for access in accesses:
            try:
                corner = [self.value(coordinate) for coordinate in access.where.coordinates]
                box = self._box(access, corner)
            except Unknown:
                continue
            before = next((axis for axis, first in enumerate(corner) if first < 0), None)
            if before is not None or all(first < last for first, last in box):
                use = self._of_handle.get(access.handle) if access.handle is not None else None
                yield RecordedAccess(access, box, self._step, self._held, before, use)

    def _box(self, access: Access, corner: list[int]) -> Box:
        """The part inside the tensor: copies and stores clip the rest."""
        sizes = [self.named(size) if isinstance(size, str) else size for size in access.where.tensor.shape]
        return tuple(
            (max(0, first), min(first + extent, size))
            for first, extent, size in zip(corner, self._extent(access), sizes, strict=True)
        )

    def _extent(self, access: Access) -> tuple[int, ...]:
        extent = [known(one) for one in access.place.extent]
        operation = access.operation
        if access.writes and isinstance(operation, tree.Store) and operation.rows is not None:
            axis = max(0, len(extent) - 2)  # a tensor of one dimension has a tile's rows along it
            extent[axis] = min(extent[axis], self.value(operation.rows))
        return tuple(extent)
