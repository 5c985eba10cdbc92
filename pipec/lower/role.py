"""Lowers a role's control-flow graph, block by block."""

from typing import assert_never

from pipec.isa.targets import WARP
from pipec.kir import ir, signalled
from pipec.kir.plan.roles import operations
from pipec.kir.walk import children, subexpressions
from pipec.lower import walks
from pipec.lower.context import RoleContext
from pipec.lower.emit.value import FALSE, TRUE, integer
from pipec.lower.scalars import note_usual, scalar
from pipec.lower.synchronisation import (
    global_order,
    launch_control,
    mma_waits,
    pipelines,
    semaphores,  # noqa: F401 - imported for what it lowers, as are mma and async_copy
    timestamps,
)
from pipec.lower.table import LOWERINGS, check_complete, lowers
from pipec.lower.tensor_cores import (
    mma,  # noqa: F401
    scaled_mma,
    wgmma,
)
from pipec.lower.tensor_cores.mma import counter_of_later
from pipec.lower.tiles import (
    async_copy,  # noqa: F401
    column_reductions,  # noqa: F401
    fragments,
    stores,
    tma,
    votes,  # noqa: F401
)
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.vocabulary import Threads


def lower_role(role: RoleContext, end: str) -> None:
    """Emits the role's blocks; the last jumps to `end`."""
    plan = role.plan
    labels = [role.builder.label(f"{role.prefix}.{number}") for number in range(len(plan.role.blocks))]
    _declare(role)
    # Whether a release still has to signal is decided here, at compile time: a run-time flag would cost a register per handle.
    given = signalled.at_entry(plan.role)
    rejoining = rejoins(plan.role)
    heads = {
        target for number, block in enumerate(plan.role.blocks) for target in ir.successors(block.terminator) if target <= number
    }
    if plan.awaits_grids:
        role.builder.call("griddepcontrol.wait")
    role.builder.jump(labels[0])
    for number, block in enumerate(plan.role.blocks):
        role.participation = block.participation
        role.builder.place(labels[number], head=number in heads)
        role.signalled = given[number]
        pipelines.join_cursors(role)
        # Diverged lanes do not reconverge by themselves before an .aligned instruction; without this the behaviour is undefined.
        if number in rejoining:
            role.reconverge()
        _leave_loops(role, number)
        for place, operation in enumerate(block.operations):
            role.kernel.at(operation.span)
            role.waits_next = any(isinstance(one, tree.Acquire) for one in block.operations[place + 1 : place + 2])
            _operation(role, operation)
            role.signalled = signalled.after(role.signalled, operation)
        role.rejoin()
        _enter_loop(role, number)
        _terminator(role, number, block, labels, end)


def _enter_loop(role: RoleContext, number: int) -> None:
    """Computes the invariants of the loop that starts after this block."""
    for invariants in role.plan.invariants:
        if invariants.before == number:
            for expression in invariants.expressions:
                role.invariants[expression] = scalar(role, expression)
            for inner in sorted(invariants.blocks):
                for operation in role.plan.role.blocks[inner].operations:
                    if isinstance(operation, tree.TmaLoad):
                        tma.keep_coordinates(role, operation, invariants.expressions)
                    if isinstance(operation, tree.Mma) and operation.scale_b_row in invariants.expressions:
                        scaled_mma.keep_columns(role, operation)


def _leave_loops(role: RoleContext, number: int) -> None:
    """After its loop an invariant may have another value."""
    for invariants in role.plan.invariants:
        if invariants.before < number and number not in invariants.blocks:
            for expression in invariants.expressions:
                role.invariants.pop(expression, None)


def _declare(role: RoleContext) -> None:
    """Creates variables, and a flag per accumulator whether an MMA wrote it."""
    for operation in operations(role.plan.role):
        match operation:
            case tree.Assign(variable) if variable.in_registers:
                # All assignments of a variable use the same registers: control flow may join after any of them.
                if variable not in role.register_tiles and not fragments.is_operand(role, variable):
                    role.register_tiles[variable] = stores.new_tile(role, operation)
            case tree.Assign(variable) if not isinstance(variable.type, TileType):
                if variable not in role.variables:
                    name = variable.name.replace(".", "_")
                    role.variables[variable] = role.builder.variable(variable.type.llvm, f"{role.prefix}.{name}")
            case tree.Peek(ready=ready) if ready not in role.variables:
                role.variables[ready] = role.builder.variable("i1", f"{role.prefix}.{ready.name}")
            case tree.Vote(result=result):
                role.variables[result] = role.builder.variable("i1", f"{role.prefix}.{result.name}")
            case tree.TmaLoad() | tree.TmaStore() | tree.Store() if operation.cache is not None:
                if operation.cache not in role.policies:
                    # Once per role, not per copy: a policy is a 64-bit word that an instruction has to create.
                    role.policies[operation.cache] = role.builder.call(f"cache.{operation.cache}")
            case tree.Mma(accumulator):
                key = accumulator.handle, accumulator.buffer
                if key not in role.written:
                    hint = f"{role.prefix}.{accumulator.handle.label}"
                    role.written[key] = role.builder.variable("i1", f"{hint}.written")
                    if accumulator.buffer.count > 1:
                        role.targets[key] = role.builder.variable("i32", f"{hint}.target")
                counter = counter_of_later(role, operation)
                if counter is not None and counter not in role.later:
                    role.later[counter] = role.builder.variable("i1", f"{role.prefix}.{counter.name}.later")
            case tree.ClearAccumulator(accumulator):
                wgmma.declare(role, accumulator)
            case tree.RegisterMma():
                wgmma.declare_operand(role, operation)
            case _:
                pass
    pipelines.start_cursors(role)
    timestamps.start_role(role)
    mma_waits.start(role)
    role.kernel.at(role.plan.role.span)
    if role.prefix in role.kernel.plan.exchanges:
        role.exchange_turn = role.builder.variable("i32", f"{role.prefix}.exchange")
        role.exchange_turn.write(integer(0))
    if role.plan.stores_bulk:
        # Counts over all stores of the role, since they share one set of staging buffers.
        role.staging_turn = role.builder.variable("i32", f"{role.prefix}.staging")
        role.staging_turn.write(integer(0))


# Operations of one thread; a role that runs in a whole warp executes them in sections of the elected one.
_ACTIONS = (tree.Mma, tree.TmaLoad, tree.TmaStore, tree.Signal, tree.Release, tree.RequestTile)


def _operation(role: RoleContext, operation: tree.Operation) -> None:
    if not isinstance(operation, (*_ACTIONS, tree.ExpectBytes)):
        role.rejoin()
    if role.plan.mma_waits is not None and operation in role.plan.mma_waits.waits:
        mma_waits.wait(role, role.plan.mma_waits.waits[operation])
    if operation in role.plan.global_order.before:
        global_order.order(role)
    timestamps.stamp(role, operation, behind=False)
    LOWERINGS[type(operation)](role, operation)
    timestamps.stamp(role, operation, behind=True)


@lowers(tree.ExpectBytes)
def _expect_bytes(role: RoleContext, operation: tree.ExpectBytes) -> None:
    """Emits nothing: the acquire expects the derived bytes, which a check found to be equal."""


@lowers(tree.RequestTile)
def _request_tile(role: RoleContext, operation: tree.RequestTile) -> None:
    handle = operation.handle
    launch_control.request(role, handle, pipelines.barrier(role, handle.pipeline, "producer", role.stage(handle)))


@lowers(tree.AwaitGrids)
def _await_grids(role: RoleContext, operation: tree.AwaitGrids) -> None:
    role.builder.call("griddepcontrol.wait")


@lowers(tree.LaunchDependents)
def _launch_dependents(role: RoleContext, operation: tree.LaunchDependents) -> None:
    role.builder.call("griddepcontrol.launch_dependents")


@lowers(tree.Assign)
def _assign(role: RoleContext, operation: tree.Assign) -> None:
    """A lazy tile keeps its expression; the scalars and register-resident tiles in it are captured with their current values."""
    if fragments.is_operand(role, operation.variable):
        fragments.write_operand(role, operation, role.operands[operation.variable])
        return
    if operation.variable.in_registers:
        stores.keep(role, operation)
        return
    if operation.variable in role.later:
        role.later[operation.variable].write(FALSE if isinstance(operation.value, tree.Constant) else TRUE)
    if walks.assign(role, operation):
        return
    note_usual(role, operation)
    if not operation.variable.is_lazy:
        role.variables[operation.variable].write(scalar(role, operation.value))
        return
    role.lets[operation.variable] = operation.value
    for node in subexpressions(operation.value):
        match node:
            case tree.Splat(operand):
                scalars: tuple[tree.Expression, ...] = (operand,)
            case tree.ReadTensor(source):
                scalars = source.coordinates
            case tree.ReadBuffer() if children(node):
                scalars = children(node)
            case tree.ReadVariable(variable) if variable.in_registers:
                _capture_tile(role, node)
                continue
            case _:
                continue
        slots = []
        for value in (scalar(role, expression) for expression in scalars):
            slots.append(role.builder.variable(value.type, f"{role.prefix}.{operation.variable.name}.captured"))
            slots[-1].write(value)
        role.captured[node] = slots


def _capture_tile(role: RoleContext, node: tree.ReadVariable) -> None:
    """A copy costs registers while both are live, so a tile that never changes is read in place."""
    assignments = [operation for operation in operations(role.plan.role) if isinstance(operation, tree.Assign)]
    if sum(operation.variable is node.variable for operation in assignments) == 1:
        return
    copy = stores.new_tile(role, next(operation for operation in assignments if operation.variable is node.variable))
    for row, row_copy in zip(role.register_tiles[node.variable], copy, strict=True):
        for slot, slot_copy in zip(row, row_copy, strict=True):
            slot_copy.write(slot.read())
    role.captured_tiles[node] = copy


def _terminator(role: RoleContext, number: int, block: ir.Block, labels: list[str], end: str) -> None:
    builder = role.builder
    if number in role.plan.global_order.at_end:
        global_order.order(role)
    match block.terminator:
        case ir.Jump(target):
            if target <= number:
                # LLVM would unroll the loop: the code would grow, and a wait that occurs once in the source would occur several times.
                builder.jump(labels[target], role.kernel.metadata.rolled_loop())
            else:
                builder.jump(labels[target])
        case ir.Branch(condition, then, otherwise, span):
            role.kernel.at(span)
            if role.whole and _narrows_to(role, then, "some"):
                pipelines.hand_over_fences(role)
                if _in_each_warp(role.plan.role):
                    role.reconverge()
                else:
                    role.synchronise()
            goes_on = walks.goes_on(role, condition)
            builder.branch(scalar(role, condition) if goes_on is None else goes_on, labels[then], labels[otherwise])
        case ir.ElectBranch(then, otherwise, span):
            role.kernel.at(span)
            if role.plan.single_thread or role.alone:
                builder.jump(labels[then])
            else:
                if role.whole and _narrows_to(role, then, "one"):
                    pipelines.hand_over_fences(role)
                    role.synchronise()
                builder.branch(role.leader, labels[then], labels[otherwise])
        case ir.Exit():
            _finish(role)
            builder.jump(end)
        case _:
            assert_never(block.terminator)


def _in_each_warp(role: ir.Role) -> bool:
    """Whether, wherever some threads signal for the others, each warp has one that does for its own."""
    narrow = (block for block in role.blocks if block.participation.threads == "some" and _speaks(block))
    return all(len({thread // WARP for thread in block.participation.chosen or ()}) == role.warps for block in narrow)


def _speaks(block: ir.Block) -> bool:
    return any(isinstance(operation, tree.Signal | tree.Release | tree.TmaStore) for operation in block.operations)


def _narrows_to(role: RoleContext, block: int, threads: Threads) -> bool:
    """Whether a block runs with fewer threads that signal for the others, which must have finished with the stage first."""
    return role.plan.role.blocks[block].participation.threads == threads and any(
        inner.participation.threads == threads and _speaks(inner) for inner in role.plan.role.blocks
    )


def _finish(role: RoleContext) -> None:
    role.kernel.at(role.plan.role.end)
    for pipeline in role.plan.drains:
        # If a CTA exits while a copy or a commit may still arrive on its barriers, the arrival writes into memory of the next CTA.
        pipelines.drain(role, tree.Drain(pipeline, role.plan.role.end))
    if role.plan.mma_waits is not None and role.plan.mma_waits.at_end:
        mma_waits.settle(role)
    if role.plan.launches_dependents:
        role.builder.call("griddepcontrol.launch_dependents")
    if role.plan.stores_bulk:
        # The stores read from shared memory, which goes with the CTA; what they write, the end of the grid waits for. Threads without
        # stores wait for nothing.
        role.builder.call("bulk.wait_group.read", integer(0))


def rejoins(role: ir.Role) -> set[int]:
    """Blocks that all threads run, entered from blocks that only some run: the warp has to reconverge first."""
    found = set()
    for block in role.blocks:
        for target in ir.successors(block.terminator):
            wider = role.blocks[target].participation.threads == "all"
            if wider and (block.participation.threads != "all" or isinstance(block.terminator, ir.ElectBranch)):
                found.add(target)
    return found


check_complete()
