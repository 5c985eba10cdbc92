"""Where a role waits for its MMAs in registers (wgmma), which run on while its threads go further.

Two rules make every wait that is needed, and no program can leave one out: a stage is given back only after the MMAs that read it,
and an accumulator is read or cleared only after the MMAs that write it.
"""

from pipec.kir.ir import Kernel, Role, successors
from pipec.kir.plan_types import Flight
from pipec.kir.walk import operands, subexpressions
from pipec.sema import tree
from pipec.sema.tree import Pipeline

TileNames = dict[tree.Variable, tree.Expression]


def plan_flight(kernel: Kernel, role: Role) -> Flight | None:
    """None for a role without such MMAs."""
    mmas = [operation for block in role.blocks for operation in block.operations if isinstance(operation, tree.RegisterMma)]
    if not mmas:
        return None
    lagging = _lagging(kernel, role, mmas)
    waits, at_end = _waits(role, lagging)
    return Flight(frozenset(waits), at_end, lagging)


def _lagging(kernel: Kernel, role: Role, mmas: list[tree.RegisterMma]) -> Pipeline | None:
    """The pipeline whose stages may be given back one release late.

    The late stage is one more that the role holds while it waits for the next, so one more must exist; whoever waits for it must
    not be waited for by this role in between. Hence: only one pipeline, without sub-stages, feeds the MMAs, nobody drains it inside a
    loop, and the stage is given back before the role waits for anything else (see `_waits`).
    """
    pipelines = {operand.handle.pipeline for mma in mmas for operand in (mma.a, mma.b)}
    if len(pipelines) != 1:
        return None
    (pipeline,) = pipelines
    held = {
        operation.handle
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Acquire) and operation.handle.pipeline is pipeline
    }
    parts = max(pipeline.producer_sub_stages, pipeline.consumer_sub_stages)
    if len(held) + 1 > pipeline.stages or parts > 1 or _drained_in_loop(kernel, pipeline):
        return None
    return pipeline


def _drained_in_loop(kernel: Kernel, pipeline: Pipeline) -> bool:
    return any(
        isinstance(operation, tree.Drain) and operation.pipeline is pipeline and any(number in loop.blocks for loop in role.loops)
        for role in kernel.roles
        for number, block in enumerate(role.blocks)
        for operation in block.operations
    )


def _waits(role: Role, lagging: Pipeline | None) -> tuple[set[int], bool]:
    """The operations that find MMAs in flight and must not, and whether the end of the role does."""
    names = lazy_tiles(role)
    flying = [False] * len(role.blocks)  # at the start of each block, on some path
    waits: set[int] = set()
    open_blocks = [0]
    at_end = False
    seen: set[tuple[int, bool]] = set()
    while open_blocks:
        number = open_blocks.pop()
        if (number, flying[number]) in seen:
            continue
        seen.add((number, flying[number]))
        state = flying[number]
        for operation in role.blocks[number].operations:
            if state and _needs_all(operation, lagging, names):
                waits.add(id(operation))
                state = False
            state = state or isinstance(operation, tree.RegisterMma)
        after = successors(role.blocks[number].terminator)
        at_end = at_end or (state and not after)
        for next_ in after:
            flying[next_] = flying[next_] or state
            open_blocks.append(next_)
    return waits, at_end


def _needs_all(operation: tree.Operation, lagging: Pipeline | None, names: TileNames) -> bool:
    """Whether an operation touches an accumulator, or may block while a stage is given back late."""
    match operation:
        case tree.RegisterMma() | tree.Release() | tree.Signal():
            return False
        case tree.Assign(variable) if variable in names:
            return False
        case tree.Acquire(handle):
            return handle.pipeline is not lagging or handle.side != "consumer"
        case tree.ClearAccumulator() | tree.Drain():
            return True
        case _:
            return any(reads_accumulator(value, names) for value in operands(operation))


def lazy_tiles(role: Role) -> TileNames:
    """What the names of tiles that are evaluated where they are used stand for."""
    return {
        operation.variable: operation.value
        for block in role.blocks
        for operation in block.operations
        if isinstance(operation, tree.Assign) and operation.variable.is_lazy
    }


def reads_accumulator(value: tree.Expression, names: TileNames) -> bool:
    """Whether an expression has elements of an accumulator in registers in it."""
    return any(
        isinstance(node, tree.ReadAccumulator)
        or (isinstance(node, tree.ReadVariable) and node.variable in names and reads_accumulator(names[node.variable], names))
        for node in subexpressions(value)
    )
