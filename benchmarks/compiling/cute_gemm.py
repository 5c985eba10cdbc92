"""The GEMM of gemm.pipe in CuTe DSL, no GPU needed; writes its cubin for sm_100a to standard output. Run by benchmarks/compiling/sass.py.

D[M, N] = A[M, K] @ B[N, K].T, bf16, tile 128 x 256 x 64, 4 stages: a warp loads, a warp multiplies, four warps store. With GEMM_BK=128 in
the environment a stage has two K blocks, which 4 copies load. With nvidia-cutlass-dsl 4.8.1.
"""

import os
import sys
import tempfile
from pathlib import Path

import cutlass
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.memory import SmemAllocator, TmemAllocator
from cutlass.utils import blackwell_helpers

BM, BN, BK = 128, 256, int(os.environ.get("GEMM_BK", "64"))
STAGES = 256 // BK
EPILOGUE_WARPS, LOAD_WARP, MMA_WARP = 4, 4, 5
THREADS = 6 * 32
SUBTILES = 8  # of an accumulator, one after the other


@cute.struct
class Shared:
    input: cute.struct.MemRange[cutlass.Int64, 2 * STAGES]
    output: cute.struct.MemRange[cutlass.Int64, 2]
    tensor_memory: cutlass.Int32


@cute.jit
def load(produce, blocks, load_a, block_a, stage_a, load_b, block_b, stage_b):
    """The warp that loads: a stage for each of the blocks along K."""
    for k in cutlass.range(blocks, unroll=1):
        stage = produce.acquire_and_advance()
        cute.copy(load_a, block_a[None, k], stage_a[None, stage.index], tma_bar_ptr=stage.barrier)
        cute.copy(load_b, block_b[None, k], stage_b[None, stage.index], tma_bar_ptr=stage.barrier)
    produce.tail()


@cute.jit
def multiply(consume, accumulate, blocks, mma, sums, fragment_a, fragment_b):
    """The warp that multiplies the stages and hands over the sums."""
    held = accumulate.acquire_and_advance()
    mma.set(tcgen05.Field.ACCUMULATE, False)
    for k in cutlass.range(blocks, unroll=1):
        stage = consume.wait_and_advance()
        for step in cutlass.range_constexpr(cute.size(fragment_a, mode=[2])):
            at = (None, None, step, stage.index)
            cute.gemm(mma, sums, fragment_a[at], fragment_b[at], sums)
            mma.set(tcgen05.Field.ACCUMULATE, True)
        stage.release()
    held.commit()
    accumulate.tail()


@cute.jit
def store(finish, columns, thread, sums, to_d):
    """The four warps that store the sums, a subtile after the other."""
    columns.relinquish_alloc_permit()
    held = finish.wait_and_advance()
    subtile = ((BM, BN // SUBTILES),)
    read_from, store_to = cute.zipped_divide(sums, subtile), cute.zipped_divide(to_d, subtile)
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x32), cutlass.Float32)
    copy = tcgen05.make_tmem_copy(atom, read_from[None, 0])
    mine = copy.get_slice(thread)
    source, target = mine.partition_S(read_from), mine.partition_D(store_to)
    values = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.Float32)
    narrow = cute.make_rmem_tensor(target[None, None, 0].shape, cutlass.BFloat16)
    for i in cutlass.range(cute.size(source, mode=[2]), unroll=1):
        cute.copy(copy, source[None, None, i], values)
        narrow.store(values.load().to(cutlass.BFloat16))
        cute.autovec_copy(narrow, target[None, None, i])
    held.release()


def pipelines(storage):
    """The four ends: of the stages that the loads fill and the products read, of the sums that the products make and the stores read."""
    one, readers = (
        pipeline.CooperativeGroup(pipeline.Agent.Thread),
        pipeline.CooperativeGroup(pipeline.Agent.Thread, 32 * EPILOGUE_WARPS),
    )
    stages = pipeline.PipelineTmaUmma.create(
        num_stages=STAGES,
        producer_group=one,
        consumer_group=one,
        tx_count=(BM + BN) * BK * 2,
        barrier_storage=storage.input.data_ptr(),
    )
    sums = pipeline.PipelineUmmaAsync.create(
        num_stages=1, producer_group=one, consumer_group=readers, barrier_storage=storage.output.data_ptr()
    )
    return (*stages.make_participants(), *sums.make_participants())


def copied(atom, tile, source):
    """The stages of a tile in shared memory, and the blocks of its tensor, as a copy takes them."""
    return cpasync.tma_partition(atom, 0, cute.make_layout(1), cute.group_modes(tile, 0, 3), cute.group_modes(source, 0, 3))


@cute.kernel
def gemm(mma, load_a, a, load_b, b, d, layout_a: cute.ComposedLayout, layout_b: cute.ComposedLayout):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    x, y, _ = cute.arch.block_idx()

    shared = SmemAllocator()
    storage = shared.allocate(Shared)
    tile_a, tile_b = (
        shared.allocate_tensor(cutlass.BFloat16, layout.outer, byte_alignment=1024, swizzle=layout.inner)
        for layout in (layout_a, layout_b)
    )
    columns = TmemAllocator(
        storage.tensor_memory.ptr,
        barrier_for_retrieve=pipeline.NamedBarrier(barrier_id=1, num_threads=THREADS),
        allocator_warp_id=0,
    )
    columns.allocate(512)
    produce, consume, accumulate, finish = pipelines(storage)

    tiler, place = (BM, BN, BK), (x, y, None)
    part = mma.get_slice(0)
    from_a, from_b = (
        part.partition_A(cute.local_tile(a, tiler, place, proj=(1, None, 1))),
        part.partition_B(cute.local_tile(b, tiler, place, proj=(None, 1, 1))),
    )
    to_d = part.partition_C(cute.local_tile(d, tiler, place, proj=(1, 1, None)))
    fragment_a, fragment_b = mma.make_fragment_A(tile_a), mma.make_fragment_B(tile_b)
    stage_a, block_a = copied(load_a, tile_a, from_a)
    stage_b, block_b = copied(load_b, tile_b, from_b)
    columns.wait_for_alloc()
    first = columns.retrieve_ptr(cutlass.Float32)
    sums = cute.make_tensor(first, mma.make_fragment_C(mma.partition_shape_C(tiler[:2])).layout)
    blocks = cute.size(from_a, mode=[3])

    if warp == LOAD_WARP:
        load(produce, blocks, load_a, block_a, stage_a, load_b, block_b, stage_b)
    if warp == MMA_WARP:
        multiply(consume, accumulate, blocks, mma, sums, fragment_a, fragment_b)
    if warp < EPILOGUE_WARPS:
        store(finish, columns, thread, sums, to_d)
    pipeline.sync(barrier_id=1)
    columns.free(first)


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor, d: cute.Tensor):
    operation = tcgen05.MmaF16BF16Op(
        cutlass.BFloat16,
        cutlass.Float32,
        (BM, BN, 16),
        tcgen05.CtaGroup.ONE,
        tcgen05.OperandSource.SMEM,
        OperandMajorMode.K,
        OperandMajorMode.K,
    )
    mma, tiler = cute.make_tiled_mma(operation), (BM, BN, BK)
    layout_a = blackwell_helpers.make_smem_layout_a(mma, tiler, a.element_type, STAGES)
    layout_b = blackwell_helpers.make_smem_layout_b(mma, tiler, b.element_type, STAGES)
    copy = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.ONE)
    load_a, view_a = cute.nvgpu.make_tiled_tma_atom_A(copy, a, cute.select(layout_a, mode=[0, 1, 2]), tiler, mma)
    load_b, view_b = cute.nvgpu.make_tiled_tma_atom_B(copy, b, cute.select(layout_b, mode=[0, 1, 2]), tiler, mma)
    grid = cute.ceil_div((*d.layout.shape, 1), tiler[:2])
    gemm(mma, load_a, view_a, load_b, view_b, d, layout_a, layout_b).launch(grid=grid, block=(THREADS, 1, 1))


def cubin() -> bytes:
    def matrix(rows, columns):
        return cute.runtime.make_fake_compact_tensor(cutlass.BFloat16, (rows, columns), stride_order=(1, 0), assumed_align=16)

    m, n, k = (cute.sym_int(divisibility=64) for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        cute.compile(
            launch, matrix(m, k), matrix(n, k), matrix(m, n), options=f"--gpu-arch=sm_100a --keep-cubin --dump-dir={folder}"
        )
        (found,) = Path(folder).rglob("*.cubin")
        return found.read_bytes()


if __name__ == "__main__":
    sys.stdout.buffer.write(cubin())
