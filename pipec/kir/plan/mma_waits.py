"""Where a role waits for its asynchronous register MMAs (wgmma).

Each MMA is a group of its own, groups complete in order, and a wait specifies how many of the latest may stay in flight. Three rules
determine all required waits, so that no program can omit one: a stage is released only after the MMAs that read it, an accumulator is
accessed by threads only after the MMAs that write it, and the registers of an operand are written only after the MMAs that read them
(PTX ISA 9.7.15: anything else is undefined).
"""

from pipec.kir.ir import Kernel, Role, successors
from pipec.kir.lazy_tiles import lazy_tiles
from pipec.kir.plan.types import MmaWait, MmaWaits
from pipec.kir.walk import operands, subexpressions
from pipec.sema import tree
from pipec.sema.tree import Pipeline

_MOST_PENDING = 7  # groups that are distinguished; a wait for older ones waits for these too

# What is in flight (an accumulator, a stage, the registers of an operand: its variable or the id of its MMA; a pipeline: its stage that was
# released in the source, but not signalled yet), and a lower bound on the number of MMAs issued after the last one that uses it.
_State = dict[object, int]


def plan_mma_waits(kernel: Kernel, role: Role) -> MmaWaits | None:
    """None for a role without such MMAs."""
    mmas = [operation for block in role.blocks for operation in block.operations if isinstance(operation, tree.RegisterMma)]
    if not mmas:
        return None
    lagging = _lagging(kernel, role, mmas)
    return _Analysis(role, lagging, _operand_tiles(role, mmas)).mma_waits()


def _operand_tiles(role: Role, mmas: list[tree.RegisterMma]) -> frozenset[tree.Variable]:
    """The register-resident tiles that are read only as operand `a`."""
    read = {
        node.variable
        for block in role.blocks
        for operation in block.operations
        for value in operands(operation)
        if not (isinstance(operation, tree.RegisterMma) and value is operation.a)
        for node in subexpressions(value)
        if isinstance(node, tree.ReadVariable)
    }
    return frozenset(mma.a.variable for mma in mmas if isinstance(mma.a, tree.ReadVariable)) - read


def _lagging(kernel: Kernel, role: Role, mmas: list[tree.RegisterMma]) -> tuple[Pipeline, ...]:
    """The pipelines whose stages may be released one release late.

    The role then holds one more stage of each while it waits for the next, so one more must exist, and no role that waits for the late
    stage may be one that this role waits for in between. Hence: the MMAs read the same pipelines, without sub-stages, and all stages that
    the role takes of them (it would keep the late one while it takes others), nobody drains one inside a loop, nobody holds two stages of
    one at a time (a producer that needs two before it fills one would wait for the late one), and the stage is released before the role
    waits for anything else (see `_Analysis`). In between the role waits for the other pipelines, where there are several: then each is
    filled by roles that wait for nothing else, and nobody else empties it.
    """
    first, *others = ({tile.handle.pipeline for tile in mma.tiles} for mma in mmas)
    if any(other != first for other in others):
        return ()
    pipelines = tuple(pipeline for pipeline in kernel.pipelines if pipeline in first)
    if len(pipelines) > 1 and not all(_waits_for_one(one, pipelines) for one in kernel.roles if one is not role):
        return ()
    read = _read_by(role, mmas)
    return pipelines if all(_has_one_more(kernel, role, pipeline, read) for pipeline in pipelines) else ()


def _waits_for_one(role: Role, pipelines: tuple[Pipeline, ...]) -> bool:
    """Whether the role uses none of the pipelines, or only fills one and uses no other."""
    waits = [
        operation for block in role.blocks for operation in block.operations if isinstance(operation, tree.Acquire | tree.Drain)
    ]
    used = {one.handle.pipeline if isinstance(one, tree.Acquire) else one.pipeline for one in waits}
    if used.isdisjoint(pipelines):
        return True
    return len(used) == 1 and all(isinstance(one, tree.Acquire) and one.handle.side == "producer" for one in waits)


def _read_by(role: Role, mmas: list[tree.RegisterMma]) -> set[tree.Handle]:
    """The stages that the MMAs read, under each of their names."""
    found = {tile.handle for mma in mmas for tile in mma.tiles}
    moves = [
        {operation.target, operation.source}
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Move)
    ]
    while further := [names for names in moves if not names.isdisjoint(found) and not names <= found]:
        found.update(*further)
    return found


def _has_one_more(kernel: Kernel, role: Role, pipeline: Pipeline, read: set[tree.Handle]) -> bool:
    """Whether the role can hold one more stage of the pipeline and nobody waits for it."""
    held = {
        operation.handle
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Acquire) and operation.handle.pipeline is pipeline
    }
    parts = max(pipeline.producer_sub_stages, pipeline.consumer_sub_stages)
    if not held <= read or len(held) + 1 > pipeline.stages or parts > 1 or _drained_in_loop(kernel, pipeline):
        return False
    return not any(_holds_two(one, pipeline) for one in kernel.roles)


def _holds_two(role: Role, pipeline: Pipeline) -> bool:
    """Whether the role ever obtains a stage while it holds another one."""
    entries: list[set[tree.Handle]] = [set() for _ in role.blocks]
    for block, entry in zip(role.blocks, entries, strict=True):  # only loops jump backwards, and they preserve the held stages
        held = set(entry)
        for operation in block.operations:
            match operation:
                case tree.Acquire(handle) if handle.pipeline is pipeline:
                    # The next use of the same handle is in the next iteration, which obtains the stage again.
                    if held - {handle}:
                        return True
                    held.add(handle)
                case tree.Release(handle):
                    held.discard(handle)
                case tree.Move(target, source):
                    held = held - {source} | {target}
                case _:
                    pass
        for after in successors(block.terminator):
            entries[after] |= held
    return False


def _drained_in_loop(kernel: Kernel, pipeline: Pipeline) -> bool:
    return any(
        isinstance(operation, tree.Drain) and operation.pipeline is pipeline and any(number in loop.blocks for loop in role.loops)
        for role in kernel.roles
        for number, block in enumerate(role.blocks)
        for operation in block.operations
    )


class _Analysis:
    """Tracks what is in flight along every path of a role."""

    def __init__(self, role: Role, lagging: tuple[Pipeline, ...], operand_tiles: frozenset[tree.Variable]) -> None:
        self._role = role
        self._lagging = lagging
        self._operands = operand_tiles
        self._names = lazy_tiles(role)

    def mma_waits(self) -> MmaWaits:
        entries = self._entries()
        waits: dict[tree.Operation, MmaWait] = {}
        late: set[tree.Operation] = set()
        at_end = False
        for block, entry in zip(self._role.blocks, entries, strict=True):
            state = dict(entry)
            for operation in block.operations:
                if self._late_stage(operation, state) is not None:
                    late.add(operation)
                wait = self._step(operation, state)
                if wait is not None:
                    waits[operation] = wait
            at_end = at_end or (bool(state) and not successors(block.terminator))
        return MmaWaits(waits, at_end, self._lagging, frozenset(late), self._operands)

    def _entries(self) -> list[_State]:
        """The state at the start of each block: everything in flight on some path, with the minimum age over all paths."""
        entries: list[_State] = [{} for _ in self._role.blocks]
        open_blocks = set(range(len(entries)))
        while open_blocks:
            number = min(open_blocks)
            open_blocks.remove(number)
            state = dict(entries[number])
            for operation in self._role.blocks[number].operations:
                self._step(operation, state)
            for after in successors(self._role.blocks[number].terminator):
                # The minimum age requires the longest wait, which suffices on every path.
                joined = {key: min(entries[after].get(key, age), age) for key, age in state.items()}
                if not joined.items() <= entries[after].items():
                    entries[after] |= joined
                    open_blocks.add(after)
        return entries

    def _step(self, operation: tree.Operation, state: _State) -> MmaWait | None:
        """The wait required before the operation; updates `state` to the one after it."""
        wait = None
        needed = [state[key] for key in self._needs(operation, state) if key in state]
        if needed:
            pending = min(needed)
            wait = MmaWait(pending, tuple(one for one in self._lagging if state.get(one, -1) >= pending))
            # Groups complete in order (PTX ISA, wgmma.wait_group): once one is complete, all older ones are.
            for key in [key for key, age in state.items() if age >= pending]:
                del state[key]
        if isinstance(operation, tree.RegisterMma):
            for key, age in state.items():
                state[key] = min(age + 1, _MOST_PENDING)
            state.update(dict.fromkeys(self._works_on(operation), 0))
        elif isinstance(operation, tree.Move):
            self._rename(operation, state)
        elif (stage := self._late_stage(operation, state)) is not None:
            state[stage.pipeline] = state.pop(stage)
        return wait

    def _rename(self, move: tree.Move, state: _State) -> None:
        state.pop(move.target, None)
        if move.source in state:
            state[move.target] = state.pop(move.source)

    def _late_stage(self, operation: tree.Operation, state: _State) -> tree.Handle | None:
        """The stage that the operation signals, if the signal is deferred to the next release."""
        match operation:
            case tree.Signal(handle) | tree.Release(handle, True) if handle.pipeline in self._lagging and handle in state:
                return handle
            case _:
                return None

    def _works_on(self, mma: tree.RegisterMma) -> list[object]:
        stages = [tile.handle for tile in mma.tiles]
        return (
            [mma.accumulator, *stages] if isinstance(mma.a, tree.BufferRef) else [mma.accumulator, self._registers(mma), *stages]
        )

    def _registers(self, mma: tree.RegisterMma) -> object:
        """The registers of operand `a`: the tile's own, or a copy for this MMA if it has other readers."""
        assert isinstance(mma.a, tree.ReadVariable)
        return mma.a.variable if mma.a.variable in self._operands else mma

    def _needs(self, operation: tree.Operation, state: _State) -> list[object]:
        """What must not be in flight at the operation."""
        match operation:
            case tree.RegisterMma(a=tree.ReadVariable(variable)) if variable not in self._operands:
                return [operation]
            # MMAs into the same accumulator are ordered by themselves (PTX ISA, wgmma.fence).
            case tree.RegisterMma() | tree.Peek() | tree.ExpectBytes() | tree.Move():
                return []
            case tree.Release() | tree.Signal():
                return [operation.handle if self._late_stage(operation, state) is None else operation.handle.pipeline]
            case tree.Assign(variable) if variable in self._names:
                return []
            case tree.Acquire(handle) if handle.pipeline in self._lagging and handle.side == "consumer":
                return []
            case tree.Acquire() | tree.Drain():
                return list(self._lagging)  # the awaited role may be waiting for the late stage
            case tree.ClearAccumulator():
                return [operation.accumulator]
            case _:
                return [*self._written(operation), *(one for value in operands(operation) for one in self._read(value))]

    def _written(self, operation: tree.Operation) -> list[object]:
        match operation:
            case tree.WriteAccumulator(accumulator):
                return [accumulator]
            case tree.Assign(variable) if variable in self._operands:
                return [variable]
            case _:
                return []

    def _read(self, value: tree.Expression) -> list[tree.Accumulator]:
        """The accumulators whose elements occur in the expression."""
        return [node.accumulator for node in subexpressions(value, self._names) if isinstance(node, tree.ReadAccumulator)]
