"""Warp numbers, election, named barriers, register budgets, and the mapping of register-tile rows to threads."""

from collections.abc import Iterator, Mapping
from math import gcd

from pipec.isa.targets import MOST_REGISTERS, REGISTER_STEP, WARP, WARPGROUP_WARPS, Target
from pipec.kir.ir import Kernel, Role
from pipec.kir.lazy_tiles import lazy_tiles, reads_accumulator
from pipec.kir.plan.mma_waits import plan_mma_waits
from pipec.kir.plan.striping import Stripes, rows_together, striped_map, stripes_of
from pipec.kir.plan.types import MOST_OF_A_THREAD, RegisterGroup, RolePlan, RowMap, round_up
from pipec.kir.walk import evaluated_tile, nodes, subexpressions
from pipec.record import replace
from pipec.sema import tree
from pipec.sema.types import TileType
from pipec.vocabulary import Space

_MOST_REGISTERS = MOST_REGISTERS // REGISTER_STEP * REGISTER_STEP  # that .maxnreg gives a thread
# The maximum for a role that runs in a whole warp: the constants of each are kept in registers (pipec.lower.bases). With the six of
# attention.pipe, ptxas spills them, and the loop has 491 instructions instead of 208.
_MOST_MMAS = 4


def operations(role: Role) -> Iterator[tree.Operation]:
    for block in role.blocks:
        yield from block.operations


def expressions(role: Role) -> Iterator[tree.Expression]:
    """Every expression of the role with all subexpressions, including branch conditions."""
    for block in role.blocks:
        for operation in block.operations:
            yield from nodes(operation)
        condition = getattr(block.terminator, "condition", None)
        if condition is not None:
            yield from subexpressions(condition)


def reads_tensor(role: Role) -> bool:
    """Whether the role's threads access tensor memory (each warp can only access its own quarter of the lanes)."""
    if any(isinstance(node, tree.ReadBuffer) and node.source.buffer.space == "tensor" for node in expressions(role)):
        return True
    return any(_writes(operation, "tensor") for operation in operations(role))


def _writes(operation: tree.Operation, space: Space) -> bool:
    return isinstance(operation, tree.Write) and operation.destination.buffer.space == space


def plan_roles(kernel: Kernel) -> tuple[tuple[RolePlan, ...], int]:
    """The roles by first warp, and the threads of the CTA.

    Roles that read tensor memory or fill whole warpgroups come first: each then starts at a warp divisible by 4, as required by the lane
    quarters of tcgen05.ld (hardware.md 3.9) and by setmaxnreg.
    """
    aligned = [role for role in kernel.roles if role.warps % WARPGROUP_WARPS == 0 or reads_tensor(role)]
    others = [role for role in kernel.roles if role not in aligned]
    plans: list[RolePlan] = []
    warp = 0
    # Named barrier 0 synchronises the whole CTA.
    barrier = 1
    for role in (*aligned, *others):
        if role in aligned:
            warp = round_up(warp, WARPGROUP_WARPS)
        # A one-warp role needs none; a CTA has 16.
        named = barrier if role.warps > 1 else None
        barrier += named is not None
        plans.append(replace(_role_plan(role, warp, named), mma_waits=plan_mma_waits(kernel, role)))
        warp += role.warps
    # Budgets apply to whole warpgroups, so the last one is padded with idle warps (hardware.md 7).
    if any(role.registers is not None for role in kernel.roles):
        warp = round_up(warp, WARPGROUP_WARPS)
    return tuple(plans), warp * WARP


def _role_plan(role: Role, first_warp: int, named_barrier: int | None) -> RolePlan:
    kinds = [type(operation) for operation in operations(role)]
    stores_bulk = tree.TmaStore in kinds or any(
        isinstance(operation, tree.Store) and operation.path == "tma" for operation in operations(role)
    )
    uses_tensor = tree.Mma in kinds or reads_tensor(role)
    return RolePlan(
        role=role,
        first_warp=first_warp,
        single_thread=_runs_in_one_thread(role),
        named_barrier=named_barrier,
        registers=role.registers,
        uses_tensor=uses_tensor,
        stores_bulk=stores_bulk,
    )


def _runs_in_one_thread(role: Role) -> bool:
    """Whether nothing in the role needs a second thread: no register tiles, no value that differs between lanes."""
    if role.warps != 1 or any(block.participation.threads in ("some", "unknown") for block in role.blocks):
        return False
    # One thread would take 32 times as long for what a whole warp stores or copies; a vote needs all lanes.
    if any(
        isinstance(operation, (tree.Store, tree.Write, tree.CopyAsync, tree.Vote, tree.ReduceColumns))
        for operation in operations(role)
    ):
        return False
    for node in expressions(role):
        if isinstance(node.type, TileType):
            return False
        # The elected thread need not be the one with a particular lane number.
        if isinstance(node, tree.Special) and node.name in ("lane_id", "role_thread"):
            return False
    return True


def stays_together(role: Role, written: frozenset[str]) -> bool:
    """Whether all lanes of the role's warp compute the same values, so that they can branch together. `written`: names of the tensors to
    which the kernel stores: lanes may load different values from them."""
    apart = (tree.AwaitTurn, tree.PassTurn)
    if any(isinstance(operation, apart) for operation in operations(role)):
        return False
    if sum(isinstance(operation, tree.Mma) for operation in operations(role)) > _MOST_MMAS:
        return False
    # Lanes may get different results from a peek; a wait that completes it reconverges them, a branch would not.
    looks = {operation.ready for operation in operations(role) if isinstance(operation, tree.Peek)}
    return not any(
        isinstance(node, tree.ReadElement)
        and node.source.tensor.name in written
        or isinstance(node, tree.ReadVariable)
        and node.variable in looks
        for node in expressions(role)
    )


def plan_registers(roles: tuple[RolePlan, ...], threads: int, target: Target) -> tuple[tuple[RegisterGroup, ...], int | None]:
    """Budgets apply to whole warpgroups: roles that share one get the largest; also the fixed count at launch.

    Without groups, if all have one budget, threads keep their initial registers.
    """
    if all(row.role.registers is None for row in roles):
        return (), None
    groups: list[RegisterGroup] = []
    for first in range(0, threads // WARP, WARPGROUP_WARPS):
        inside = [row for row in roles if row.first_warp < first + WARPGROUP_WARPS and first < row.first_warp + row.role.warps]
        stated = [row.role.registers for row in inside if row.role.registers is not None]
        group = RegisterGroup(first, WARPGROUP_WARPS, max(stated) if stated else None)
        joined = groups and any(row.first_warp < first for row in inside)
        if joined:  # a role spans this warpgroup and the previous one: they act together
            last = groups.pop()
            budgets = [budget for budget in (last.registers, group.registers) if budget is not None]
            group = RegisterGroup(last.first_warp, last.warps + WARPGROUP_WARPS, max(budgets) if budgets else None)
        groups.append(group)
    different = {group.registers for group in groups}
    if len(different) == 1:
        budget = different.pop()
        return (), None if budget is None else min(
            budget, MOST_OF_A_THREAD
        )  # from the start, so that more blocks fit on a multiprocessor
    # All registers of the multiprocessor, in equal shares: roles that give up registers do so before others can take them.
    launch = target.registers // threads // REGISTER_STEP * REGISTER_STEP
    return tuple(groups), min(launch, _MOST_REGISTERS)


def plan_row_maps(roles: tuple[RolePlan, ...]) -> dict[tree.Operation, RowMap]:
    """The row map of every operation that evaluates a register tile."""
    return {operation: row_map for row in roles for operation, row_map in _row_maps_of_role(row).items()}


def _row_maps_of_role(row: RolePlan) -> dict[tree.Operation, RowMap]:
    lets = lazy_tiles(row.role)
    values = {operation: value for operation in operations(row.role) if (value := evaluated_tile(operation)) is not None}
    resident = {operation for operation in operations(row.role) if _is_resident(operation, lets)}
    written = {operation for operation in operations(row.role) if isinstance(operation, tree.WriteAccumulator)}
    # Register-resident tiles are combined element by element, so all of a role have the same distribution: the one required by the
    # narrowest reader of tensor memory.
    resident_half_warps = any(_reads_half_warp_tile(values[operation], lets) for operation in resident)
    maps: dict[tree.Operation, RowMap] = {}
    together = rows_together(values, lets)
    striped: dict[int, Stripes | None] = {}  # by the number of rows
    for operation, value in values.items():
        assert isinstance(value.type, TileType)
        rows, spread_as = value.type.rows, together[operation]
        if spread_as not in striped:
            striped[spread_as] = stripes_of(row, values, lets, together, spread_as)
        if (stripes := striped[spread_as]) is not None:
            maps[operation] = striped_map(spread_as, row.threads, stripes, in_registers=operation in resident)
            continue
        if operation in written or reads_accumulator(value, lets) or (row.mma_waits is not None and operation in resident):
            maps[operation] = fragment_map(rows, row.role.warps, in_registers=operation in resident)
            continue
        # The left half of the columns is in lanes 0 to 63, the right half in the others (hardware.md 3.6, layout B), so no thread has a
        # whole row.
        if rows == 64 and any(buffer.folded for buffer in tensor_tiles(value, lets)):
            maps[operation] = RowMap(rows, 1, 1, False, row.threads > 2 * rows, folded=True)
            continue
        half_warps = rows == 64 and (resident_half_warps if operation in resident else _reads_half_warp_tile(value, lets))
        maps[operation] = row_map_of(rows, row.threads, half_warps=half_warps)
        if operation in resident:
            maps[operation] = replace(with_split(maps[operation], 2 if half_warps else 1), in_registers=True)
    return maps


def plan_rewrites(role: Role, maps: Mapping[tree.Operation, RowMap]) -> frozenset[tree.Operation]:
    """Writes of tiles that another write to the same stage distributes among the role's threads in another way: an element that one
    thread has written is then another one's."""
    by_tile: dict[tuple[tree.Handle, tree.Buffer], list[tree.Write]] = {}
    for operation in operations(role):
        if isinstance(operation, tree.Write):
            by_tile.setdefault((operation.destination.handle, operation.destination.buffer), []).append(operation)
    return frozenset(one for alike in by_tile.values() if len({maps[one] for one in alike}) > 1 for one in alike)


def register_tiles(value: tree.Expression, lets: dict[tree.Variable, tree.Expression]) -> Iterator[tree.Variable]:
    """The register-resident tiles that an expression reads, directly or through lazy ones."""
    read = (node.variable for node in subexpressions(value, lets) if isinstance(node, tree.ReadVariable))
    yield from dict.fromkeys(variable for variable in read if variable.in_registers)


def _is_resident(operation: tree.Operation, lets: dict[tree.Variable, tree.Expression]) -> bool:
    value = evaluated_tile(operation)
    return value is not None and (isinstance(operation, tree.Assign) or any(register_tiles(value, lets)))


def fragment_map(rows: int, warps: int, *, in_registers: bool) -> RowMap:
    """A warp has 16 of every 64 rows of its warpgroup's share, a lane two of them."""
    return RowMap(rows, max(1, 2 * rows // (16 * warps)), 1, False, False, fragment=True, in_registers=in_registers)


def row_map_of(rows: int, threads: int, *, half_warps: bool) -> RowMap:
    # A divisor of both, so that each block of rows uses the same threads and no block is partial.
    block_rows = rows if half_warps or rows <= threads else gcd(rows, threads)
    sharing = max(1, threads // block_rows)
    # A power of two: threads that share a row combine their parts by shuffles, and compute their part by a shift.
    split = 1 << (sharing.bit_length() - 1)
    return RowMap(block_rows, rows // block_rows, split, half_warps, block_rows * split != threads)


def _reads_half_warp_tile(value: tree.Expression, lets: dict[tree.Variable, tree.Expression]) -> bool:
    """An M = 64 accumulator is in lanes 32w .. 32w + 15 (hardware.md 3.6, layout F)."""
    return any(buffer.rows == 64 for buffer in tensor_tiles(value, lets))


def tensor_tiles(value: tree.Expression, lets: dict[tree.Variable, tree.Expression]) -> Iterator[tree.Buffer]:
    """The tiles in tensor memory that an expression reads, directly or through lazy ones."""
    for node in subexpressions(value, lets):
        if isinstance(node, tree.ReadBuffer) and node.source.buffer.space == "tensor":
            yield node.source.buffer


def with_split(row_map: RowMap, split: int) -> RowMap:
    """The same rows with fewer threads per row; the rest stay idle."""
    return replace(row_map, split=split, idle=row_map.idle or split != row_map.split)
