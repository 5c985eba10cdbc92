"""Kernels in CuTe DSL, as a user writes them. Importable only with the package, and after `pipec.cute.install`."""

import cutlass
from cutlass import cute
from cutlass.cute.nvgpu import cpasync

ROWS, COLUMNS = 32, 64


@cute.kernel
def _twice(x: cute.Tensor, y: cute.Tensor, n: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < n:
        y[i] = x[i] * 2.0


@cute.jit
def twice(x: cute.Tensor, y: cute.Tensor, n: cutlass.Int32):
    _twice(x, y, n).launch(grid=[(n + 127) // 128, 1, 1], block=[128, 1, 1])


@cute.kernel
def _turned(x: cute.Tensor, y: cute.Tensor, wait: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    shared = cutlass.memory.SmemAllocator().allocate_tensor(cutlass.Float32, cute.make_layout(128), 16)
    shared[thread] = x[thread]
    if cutlass.const_expr(wait):
        cute.arch.sync_threads()
    y[thread] = shared[127 - thread]


@cute.jit
def turned(x: cute.Tensor, y: cute.Tensor, wait: cutlass.Constexpr):
    _turned(x, y, wait).launch(grid=[1, 1, 1], block=[128, 1, 1])


@cute.kernel
def _copied(
    load: cute.CopyAtom,
    x: cute.Tensor,
    store: cute.CopyAtom,
    y: cute.Tensor,
    swizzle: cutlass.Constexpr,
    expected: cutlass.Constexpr,
):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    memory = cutlass.memory.SmemAllocator()
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    swizzled = cute.make_swizzle(swizzle, 4, 3) if swizzle else None
    stage = cute.group_modes(memory.allocate_tensor(cutlass.Float16, tile, 1024, swizzled), 0, 2)
    full = memory.allocate_array(cutlass.Int64, 1)
    if thread == 0:
        cute.arch.mbarrier_init(full, 1)
        cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    source = cute.group_modes(cute.local_tile(x, (ROWS, COLUMNS), (block, 0)), 0, 2)
    target = cute.group_modes(cute.local_tile(y, (ROWS, COLUMNS), (block, 0)), 0, 2)
    to, source = cpasync.tma_partition(load, 0, cute.make_layout(1), stage, source)
    from_, target = cpasync.tma_partition(store, 0, cute.make_layout(1), stage, target)
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(full, expected)
        cute.copy(load, source, to, tma_bar_ptr=full)
    cute.arch.mbarrier_wait(full, 0)
    if warp == 0:
        cute.copy(store, from_, target)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=False)


@cute.jit
def copied(x: cute.Tensor, y: cute.Tensor, swizzle: cutlass.Constexpr, expected: cutlass.Constexpr):
    """By tensor copies through tiles of 32 x 64; for the 128-byte swizzle, `swizzle` is 3."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    stage = cute.make_composed_layout(cute.make_swizzle(swizzle, 4, 3), 0, tile) if swizzle else tile
    load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), x, stage, (ROWS, COLUMNS))
    store, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, stage, (ROWS, COLUMNS))
    _copied(load, source, store, target, swizzle, expected).launch(grid=[2, 1, 1], block=[64, 1, 1])


@cute.jit
def copied_from_below(x: cute.Tensor, y: cute.Tensor, first: cutlass.Constexpr, expected: cutlass.Constexpr):
    """The map of `x` begins a tile below it, and what is copied at its row `first`."""
    tile = cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    below = cute.make_tensor(x.iterator - ROWS * COLUMNS, cute.make_layout((3 * ROWS, COLUMNS), stride=(COLUMNS, 1)))
    load, source = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), below, tile, (ROWS, COLUMNS))
    store, target = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), y, tile, (ROWS, COLUMNS))
    source = cute.domain_offset((first, 0), source)
    _copied(load, source, store, target, 0, expected).launch(grid=[2, 1, 1], block=[64, 1, 1])
