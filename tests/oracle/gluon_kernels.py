"""Gluon kernels: barriers, TMA and tcgen05 by hand."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    clc,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
    tcgen05_mma_scaled,
    tma,
)


@gluon.jit
def by_hand(a, b, d, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, ALONG_N: gl.constexpr):
    """D = A @ B.T, or A @ B where B lies along N: one stage, one barrier for the loads, one for the product."""
    sa = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    sb = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k], full, sa)
        if ALONG_N:
            tma.async_load(b, [k, column], full, sb)
        else:
            tma.async_load(b, [column, k], full, sb)
        mbarrier.wait(full, phase)
        if ALONG_N:
            tcgen05_mma(sa, sb, acc, use_acc=k > 0)
        else:
            tcgen05_mma(sa, sb.permute((1, 0)), acc, use_acc=k > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(d.dtype, [BM, BN], d.layout)
    out.store(acc.load().to(d.dtype))
    fence_async_shared()
    tma.async_store(d, [row, column], out)
    tma.store_wait(pendings=0)


@gluon.jit
def load_role(
    a, b, sa, sb, full, empty, K, columns, tiles, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr
):
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        row = tile // columns * BM
        column = tile % columns * BN
        for k in range(0, K, BK):
            stage = step % STAGES
            mbarrier.wait(empty.index(stage), ((step // STAGES) & 1) ^ 1)
            mbarrier.expect(full.index(stage), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [row, k], full.index(stage), sa.index(stage))
            tma.async_load(b, [column, k], full.index(stage), sb.index(stage))
            step += 1


@gluon.jit
def mma_role(sa, sb, full, empty, accs, acc_full, acc_empty, K, tiles, BK: gl.constexpr, STAGES: gl.constexpr):
    step = 0
    count = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(acc_empty.index(count % 2), ((count // 2) & 1) ^ 1)
        for k in range(0, K, BK):
            stage = step % STAGES
            mbarrier.wait(full.index(stage), (step // STAGES) & 1)
            b = sb.index(stage).permute((1, 0))
            tcgen05_mma(sa.index(stage), b, accs.index(count % 2), use_acc=k > 0, mbarriers=[empty.index(stage)])
            step += 1
        tcgen05_commit(acc_full.index(count % 2))
        count += 1  # noqa: SIM113 - Gluon has no enumerate


@gluon.jit
def store_role(d, out, accs, acc_full, acc_empty, columns, tiles, BM: gl.constexpr, BN: gl.constexpr):
    count = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        mbarrier.wait(acc_full.index(count % 2), (count // 2) & 1)
        values = accs.index(count % 2).load()
        mbarrier.arrive(acc_empty.index(count % 2), count=1)
        tma.store_wait(pendings=0)
        out.store(values.to(d.dtype))
        fence_async_shared()
        tma.async_store(d, [tile // columns * BM, tile % columns * BN], out)
        count += 1  # noqa: SIM113 - Gluon has no enumerate
    tma.store_wait(pendings=0)


@gluon.jit
def roles(a, b, d, M, N, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr):
    """D = A @ B.T: persistent, a ring of stages, two accumulators, three roles."""
    sa = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES, BN, BK], b.layout)
    out = gl.allocate_shared_memory(d.dtype, [BM, BN], d.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    acc_full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    acc_empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(acc_full.index(i), count=1)
        mbarrier.init(acc_empty.index(i), count=1)
    fence_async_shared()
    accs = allocate_tensor_memory(gl.float32, [2, BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    columns = gl.cdiv(N, BN)
    tiles = gl.cdiv(M, BM) * columns
    gl.warp_specialize(
        [
            (store_role, (d, out, accs, acc_full, acc_empty, columns, tiles, BM, BN)),
            (load_role, (a, b, sa, sb, full, empty, K, columns, tiles, BM, BN, BK, STAGES)),
            (mma_role, (sa, sb, full, empty, accs, acc_full, acc_empty, K, tiles, BK, STAGES)),
        ],
        [1, 1],
        [24, 24],
    )


@gluon.jit
def two_ctas(a, b, d, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """D = A @ B.T by a pair of CTAs: half of A's and half of B's rows each, one MMA for both."""
    sa = gl.allocate_shared_memory(a.dtype, [BM, BK], a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    full = mbarrier.allocate_mbarrier(two_ctas=True)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared(cluster=True)
    gl.barrier(cluster=True)
    layout: gl.constexpr = TensorMemoryLayout([BM // 2, BN], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], layout)
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(full, a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, k], full, sa)
        tma.async_load(b, [column, k], full, sb)
        mbarrier.wait(full, phase, deps=[sa, sb])
        tcgen05_mma(sa, sb.permute((1, 0)), acc, use_acc=k > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, phase, deps=[sa, sb])
        gl.barrier(cluster=True)
        phase ^= 1
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(d.dtype, [BM, BN], d.layout)
    out.store(acc.load().to(d.dtype))
    fence_async_shared()
    tma.async_store(d, [row, column], out)
    tma.store_wait(pendings=0)


@gluon.jit
def launch_control(x, y, times, SIZE: gl.constexpr):
    """y = 2 * x, `times` counts how often each block was done: programs take over those that have not started."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    response = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    answered = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(answered, count=1)
    block = gl.program_id(0)
    phase = 0
    more = True
    while more:
        mbarrier.expect(answered, 16)
        clc.try_cancel(response, answered)
        place = block * SIZE + gl.arange(0, SIZE, layout=layout)
        gl.store(y + place, gl.load(x + place) * 2)
        gl.atomic_add(times + block, 1)
        mbarrier.wait(answered, phase)
        phase ^= 1
        result = clc.load_result(response)
        more = result.is_canceled()
        block = result.program_id(0)
        gl.barrier()


@gluon.jit
def scaled_by_hand(
    a,
    b,
    a_scale,
    b_scale,
    d,
    K,
    A: gl.constexpr,
    B: gl.constexpr,
    BM: gl.constexpr,
    BN: gl.constexpr,
    BK: gl.constexpr,
    VECTOR: gl.constexpr,
):
    """D = (A * scales) @ (B * scales).T; the scales go through registers into tensor memory."""
    sa = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    sb = gl.allocate_shared_memory(b.dtype, b.block_type.shape, b.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    ta = allocate_tensor_memory(gl.uint8, [BM, BK // VECTOR], TensorMemoryScalesLayout())
    tb = allocate_tensor_memory(gl.uint8, [BN, BK // VECTOR], TensorMemoryScalesLayout())
    rows: gl.constexpr = ta.get_reg_layout()
    columns: gl.constexpr = tb.get_reg_layout()
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    phase = 0
    for k in range(0, K, BK):
        mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
        tma.async_load(a, [row, k], full, sa)
        tma.async_load(b, [column, k], full, sb)
        i = row + gl.arange(0, BM, layout=gl.SliceLayout(1, rows))
        j = column + gl.arange(0, BN, layout=gl.SliceLayout(1, columns))
        ki = k // VECTOR + gl.arange(0, BK // VECTOR, layout=gl.SliceLayout(0, rows))
        kj = k // VECTOR + gl.arange(0, BK // VECTOR, layout=gl.SliceLayout(0, columns))
        ta.store(gl.load(a_scale + i[:, None] * (K // VECTOR) + ki[None, :]))
        tb.store(gl.load(b_scale + j[:, None] * (K // VECTOR) + kj[None, :]))
        mbarrier.wait(full, phase)
        tcgen05_mma_scaled(sa, sb.permute((1, 0)), acc, ta, tb, A, B, use_acc=k > 0)
        tcgen05_commit(done)
        mbarrier.wait(done, phase)
        phase ^= 1
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(d.dtype, [BM, BN], d.layout)
    out.store(acc.load())
    fence_async_shared()
    tma.async_store(d, [row, column], out)
    tma.store_wait(pendings=0)


@gluon.jit
def from_tensor_memory(a, b, d, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr):
    """D = A @ B.T with A in tensor memory, put there from registers."""
    sb = gl.allocate_shared_memory(b.dtype, [BN, BK], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    fence_async_shared()
    acc = allocate_tensor_memory(gl.float32, [BM, BN], TensorMemoryLayout([BM, BN], col_stride=1))
    left = allocate_tensor_memory(gl.float16, [BM, BK], TensorMemoryLayout([BM, BK], col_stride=1))
    layout: gl.constexpr = left.get_reg_layout()
    rows = gl.arange(0, BM, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, BK, layout=gl.SliceLayout(0, layout))
    left.store(gl.load(a + rows[:, None] * BK + columns[None, :]))
    mbarrier.expect(full, b.block_type.nbytes)
    tma.async_load(b, [0, 0], full, sb)
    mbarrier.wait(full, 0)
    tcgen05_mma(left, sb.permute((1, 0)), acc, use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(d.dtype, [BM, BN], d.layout)
    out.store(acc.load())
    fence_async_shared()
    tma.async_store(d, [0, 0], out)
    tma.store_wait(pendings=0)


@gluon.jit
def through_tensor_memory(x, y, M: gl.constexpr, N: gl.constexpr, VARIANT: gl.constexpr):
    """Stored in one shape of tcgen05.st, loaded in another of tcgen05.ld, and the other way about."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    place = (
        gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None] * N
        + gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    )
    memory = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    shaped: gl.constexpr = memory.get_reg_layout(instr_variant=VARIANT)
    memory.store(gl.convert_layout(gl.load(x + place), shaped))
    gl.store(y + place, gl.convert_layout(memory.load(memory.get_reg_layout()), layout) * 2)
    memory.store(gl.convert_layout(gl.load(x + place) + 1, memory.get_reg_layout()))
    gl.store(y + M * N + place, gl.convert_layout(memory.load(shaped), layout))


@gluon.jit
def copied_to_tensor_memory(x, y, M: gl.constexpr, N: gl.constexpr, SHARED: gl.constexpr):
    """tcgen05.cp out of shared memory, committed to a barrier."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    place = (
        gl.arange(0, M, layout=gl.SliceLayout(1, layout))[:, None] * N
        + gl.arange(0, N, layout=gl.SliceLayout(0, layout))[None, :]
    )
    shared = gl.allocate_shared_memory(gl.float32, [M, N], SHARED, gl.load(x + place))
    fence_async_shared()
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    memory = allocate_tensor_memory(gl.float32, [M, N], TensorMemoryLayout([M, N], col_stride=1))
    tcgen05_copy(shared, memory)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    gl.store(y + place, gl.convert_layout(memory.load(), layout))


@gluon.jit
def multicast(a, y, ROWS: gl.constexpr, COLUMNS: gl.constexpr, CTAS: gl.constexpr):
    """One TMA load reaches several CTAs of the cluster; each writes what it got."""
    shared = gl.allocate_shared_memory(a.dtype, [ROWS, COLUMNS], a.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    fence_async_shared(cluster=True)
    gl.barrier(cluster=True)
    mbarrier.expect(full, a.nbytes_per_cta)
    tma.async_load(a, [0, 0], full, shared, multicast=True)
    mbarrier.wait(full, 0, deps=[shared])
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0], cga_layout=CTAS)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    gl.store(y + rows[:, None] * COLUMNS + columns[None, :], shared.load(layout))
    gl.barrier(cluster=True)
