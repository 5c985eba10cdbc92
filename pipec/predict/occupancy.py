"""The number of resident blocks per multiprocessor: limited by shared memory, registers, threads, tensor-memory columns."""

from collections.abc import Mapping
from functools import cache
from math import ceil

from pipec.isa.targets import (
    DEFAULT_TARGET,
    MOST_REGISTERS,
    MULTIPROCESSOR_BLOCKS,
    MULTIPROCESSOR_REGISTERS,
    MULTIPROCESSOR_SHARED_BYTES,
    MULTIPROCESSOR_THREADS,
    REGISTER_STEP,
    RESERVED_SHARED_BYTES,
    TARGETS,
    TENSOR_COLUMNS,
    WARP,
)
from pipec.predict.tile_loops import operations_in
from pipec.record import record
from pipec.sema import tree

_SMALL_BYTES = 1024  # of a block's shared memory, for barriers and alignment; about what a plan keeps
_SYSTEM_REGISTERS = 56  # of a thread in addition to its accumulators


def resident_blocks(shared_bytes: int, threads: int, registers: int = 0, columns: int = 0) -> int:
    """Blocks that a multiprocessor holds at a time, at least one. `registers`: of a thread, 0 if they limit nothing; `columns`: allocated
    columns of tensor memory."""
    threads = WARP * ceil(max(threads, 1) / WARP)
    limits = [
        MULTIPROCESSOR_BLOCKS,
        MULTIPROCESSOR_THREADS // threads,
        MULTIPROCESSOR_SHARED_BYTES // (shared_bytes + RESERVED_SHARED_BYTES),
    ]
    if registers:
        limits.append(MULTIPROCESSOR_REGISTERS // (threads * REGISTER_STEP * ceil(registers / REGISTER_STEP)))
    if columns:
        limits.append(TENSOR_COLUMNS // columns)
    return max(1, min(limits))


def registers_of(launch_registers: int | None, accumulator_registers: int) -> int:
    """Registers of a thread: those that it is launched with if they are stated, else what accumulators and everything else take."""
    return launch_registers if launch_registers is not None else min(MOST_REGISTERS, accumulator_registers + _SYSTEM_REGISTERS)


def tensor_columns(kernel: tree.Kernel) -> int:
    """Allocated tensor memory, a power of two: 32-bit columns."""
    columns = sum(buffer.columns * buffer.count for buffer in kernel.buffers if buffer.space == "tensor" and buffer.alias is None)
    return min(TENSOR_COLUMNS, max(32, 1 << (columns - 1).bit_length())) if columns else 0


def tile_bytes(rows: int, columns: int, bits: int) -> int:
    return rows * columns * bits // 8


def shared_bytes(kernel: tree.Kernel, stages: Mapping[str, int] | None = None) -> int:
    """The bytes of a block's tiles and staging buffers; rings in `stages` have that many stages."""
    total = 0
    for buffer in kernel.buffers:
        if buffer.space == "shared":
            owner = buffer.owner.name if buffer.owner is not None else ""
            count = buffer.count if stages is None else stages.get(owner, buffer.count)
            total += tile_bytes(buffer.rows, buffer.columns, buffer.dtype.bits) * count
    return total + staging_bytes(kernel, TARGETS[DEFAULT_TARGET].shared_bytes - _SMALL_BYTES - total)


_PANEL_BYTES = 128  # of a row: the widest swizzle
_FOUR_PANELS = (3, 4)  # panels that a role with accumulators in registers stores at once, if there is room


def staging_bytes(kernel: tree.Kernel, free: int) -> int:
    """Shared memory that stages TMA stores: a panel for each role with such stores, or two if they fit, or four. Where one of the widest
    does not fit, they are as narrow as all panels of a row can be (the exact rule is in pipec.kir.plan.memory)."""
    panels = [one for role in kernel.roles if (one := _staged(role.body)) is not None]
    strides = [one.stride for one in panels]
    if sum(strides) > free:
        strides = [one.narrow for one in panels]
    total = 2 * sum(strides)
    if total > free:
        return total // 2
    for stride, four in zip(strides, (one.four for one in panels), strict=True):
        total += 2 * stride if four and total + 2 * stride <= free else 0
    return total


@record
class _Staged:
    """Bytes of a panel of the widest rows, and of one that divides the tile's rows; whether the role may store four at once."""

    stride: int
    narrow: int
    four: bool


@cache
def _staged(body: tuple[tree.Statement, ...]) -> _Staged | None:
    """None if the role has no TMA stores."""
    done = list(operations_in(body))
    tiles = [one.placed for one in done if isinstance(one, tree.Store) and one.path == "tma"]
    if not tiles:
        return None
    rows = [tile_bytes(1, tile.columns, tile.dtype.bits) for tile in tiles]
    wide = max(ceil(row / _PANEL_BYTES) for row in rows) in _FOUR_PANELS and any(
        isinstance(one, tree.RegisterMma) for one in done
    )
    stride = max(tile.rows * min(_PANEL_BYTES, row) for tile, row in zip(tiles, rows, strict=True))
    narrow = max(tile.rows * min(_PANEL_BYTES, row & -row) for tile, row in zip(tiles, rows, strict=True))
    return _Staged(stride, narrow, wide)


def launch_registers(kernel: tree.Kernel, threads: int) -> int | None:
    """Registers of a thread at the start of the block, if roles have budgets: all the same, or all available ones in equal shares
    (pipec.kir.plan.roles)."""
    budgets = {role.registers for role in kernel.roles}
    if budgets == {None}:
        return None
    one = next(iter(budgets))
    return one if len(budgets) == 1 and one is not None else MULTIPROCESSOR_REGISTERS // threads
