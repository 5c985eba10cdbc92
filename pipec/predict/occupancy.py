"""How many blocks of a kernel a multiprocessor holds at a time: shared memory, registers, threads, columns of tensor memory."""

from collections.abc import Mapping
from math import ceil

from pipec.predict.tile_loops import operations_in
from pipec.sema import tree

SHARED_BYTES = 227 * 1024  # of a multiprocessor, for its blocks together
BLOCK_BYTES = 1024  # of shared memory that the system keeps for each block
REGISTERS = 65_536  # of a multiprocessor
_SYSTEM_REGISTERS = 56  # that a thread needs beside its accumulators


def held(shared_bytes: int, threads: int, launch_registers: int | None, accumulator_registers: int, columns: int) -> int:
    """Blocks that a multiprocessor holds at a time. All targets have as much of everything."""
    if launch_registers is not None:
        registers = launch_registers
    else:
        registers = min(255, 8 * ceil((accumulator_registers + _SYSTEM_REGISTERS) / 8))
    by_registers = REGISTERS // max(1, threads * registers)
    by_columns = 512 // columns if columns else 32
    return max(1, min(SHARED_BYTES // (shared_bytes + BLOCK_BYTES), by_registers, 2048 // threads, by_columns, 32))


def tensor_columns(kernel: tree.Kernel) -> int:
    """Of tensor memory, allocated by powers of two: 32-bit columns."""
    columns = sum(buffer.columns * buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.alias is None)
    return min(512, max(32, 1 << (columns - 1).bit_length())) if columns else 0


def tile_bytes(rows: int, columns: int, bits: int) -> int:
    return rows * columns * bits // 8


def shared_bytes(kernel: tree.Kernel, stages: Mapping[str, int] | None = None) -> int:
    """Of a block's tiles, and of what stores stage beside them; rings that `stages` names have as many as it says."""
    total = 0
    for buffer in kernel.buffers:
        if buffer.space == "shared":
            owner = buffer.owner.name if buffer.owner is not None else ""
            count = buffer.count if stages is None else stages.get(owner, buffer.count)
            total += tile_bytes(buffer.rows, buffer.columns, buffer.dtype.bits) * count
    return total + staging_bytes(kernel, SHARED_BYTES - BLOCK_BYTES - total)


_PANEL_BYTES = 128  # of a row: the widest swizzle
_FOUR_PANELS = (3, 4)  # of a tile that a role which adds up in registers stores at once, where there is room


def staging_bytes(kernel: tree.Kernel, free: int) -> int:
    """Of shared memory, for tiles on their way to TMA stores: a panel for each role that stores so, two where they fit, or four (the plan,
    pipec.kir.plan.memory, has it exactly)."""
    strides, wide = [], []
    for role in kernel.roles:
        done = list(operations_in(role.body))
        stores = [one.placed for one in done if isinstance(one, tree.Store) and one.path == "tma"]
        if stores:
            strides.append(max(tile.rows * min(_PANEL_BYTES, tile_bytes(1, tile.columns, tile.dtype.bits)) for tile in stores))
            panels = max(tile_bytes(1, tile.columns, tile.dtype.bits) // _PANEL_BYTES for tile in stores)
            wide.append(panels in _FOUR_PANELS and any(isinstance(one, tree.RegisterMma) for one in done))
    if 2 * sum(strides) > free:
        return sum(strides)
    total = 2 * sum(strides)
    for stride, four in zip(strides, wide, strict=True):
        total += 2 * stride if four and total + 2 * stride <= free else 0
    return total


def launch_registers(kernel: tree.Kernel, threads: int) -> int | None:
    """Of a thread when the block starts, where roles have budgets: all the same, or all that there are in equal shares
    (pipec.kir.plan.roles)."""
    budgets = {role.registers for role in kernel.roles}
    if budgets == {None}:
        return None
    one = next(iter(budgets))
    return one if len(budgets) == 1 and one is not None else REGISTERS // threads
