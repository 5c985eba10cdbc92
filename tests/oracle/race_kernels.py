"""Gluon kernels that hand tiles over, right or with one thing left out (FAULT): what a race detector must tell apart."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)


@gluon.jit
def loaded(a, y, FAULT: gl.constexpr):
    """A tile by TMA, twice into the same place."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    shared = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    fence_async_shared()
    for k in range(2):
        mbarrier.expect(full, a.block_type.nbytes)
        tma.async_load(a, [0, 0], full, shared)
        if FAULT == "read before the wait":
            value = shared.load(layout)
            mbarrier.wait(full, k)
        else:
            if FAULT != "no wait":
                mbarrier.wait(full, k)
            value = shared.load(layout)
        rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
        columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
        gl.store(y + k * 4096 + rows[:, None] * 64 + columns[None, :], value)
    mbarrier.invalidate(full)


@gluon.jit
def stored(a, FAULT: gl.constexpr):
    """A tile by TMA store, its staging used twice."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    shared = gl.allocate_shared_memory(a.dtype, a.block_type.shape, a.layout)
    for k in range(2):
        if FAULT != "no wait":
            tma.store_wait(pendings=0)
        shared.store(gl.full([64, 64], 1.0, a.dtype, layout))
        if FAULT != "no fence":
            fence_async_shared()
        tma.async_store(a, [k * 64, 0], shared)
    tma.store_wait(pendings=0)


@gluon.jit
def copied(x, y, FAULT: gl.constexpr):
    """cp.async into two buffers."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    shared = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    other: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    place = gl.arange(0, 512, layout=layout)
    async_copy.async_load(shared.index(0), x + place)
    async_copy.commit_group()
    for k in range(3):
        if FAULT == "one buffer":
            async_copy.async_load(shared.index(0), x + place)
        else:
            async_copy.async_load(shared.index((k + 1) % 2), x + place)
        async_copy.commit_group()
        if FAULT == "waits for too few":
            async_copy.wait_group(2)
        elif FAULT != "no wait":
            async_copy.wait_group(1)
        gl.barrier()
        gl.store(y + k * 512 + gl.arange(0, 512, layout=other), shared.index(k % 2).load(other))
        gl.barrier()
    async_copy.wait_group(0)


@gluon.jit
def multiplied(a, b, y, FAULT: gl.constexpr):
    """tcgen05.mma of tiles that threads write, and write again."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    sa = gl.allocate_shared_memory(gl.float16, [128, 64], a.layout)
    sb = gl.allocate_shared_memory(gl.float16, [64, 64], b.layout)
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], col_stride=1))
    sa.store(gl.full([128, 64], 1.0, gl.float16, layout))
    sb.store(gl.full([64, 64], 1.0, gl.float16, layout))
    if FAULT != "no fence":
        fence_async_shared()
    for k in range(2):
        tcgen05_mma(sa, sb, acc, use_acc=k > 0)
        tcgen05_commit(done)
        if FAULT == "stored under it":
            sa.store(gl.full([128, 64], 2.0, gl.float16, layout))
        if FAULT == "loaded under it":
            gl.store(
                y + gl.arange(0, 128, layout=gl.SliceLayout(1, layout)), gl.sum(gl.convert_layout(acc.load(), layout), axis=1)
            )
        if FAULT == "waits for the other phase":
            mbarrier.wait(done, k ^ 1)
        elif FAULT != "no wait":
            mbarrier.wait(done, k)
    values = gl.convert_layout(acc.load(), layout)
    gl.store(y + gl.arange(0, 128, layout=gl.SliceLayout(1, layout)), gl.sum(values, axis=1))


@gluon.jit
def give(shared, full, empty, ROUNDS: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    for k in range(ROUNDS):
        if FAULT != "no wait for an empty stage":
            mbarrier.wait(empty.index(k % 2), ((k // 2) & 1) ^ 1)
        if FAULT == "given before it is written":
            mbarrier.arrive(full.index(k % 2), count=1)
            shared.index(k % 2).store(gl.full([512], 1.0, gl.float32, layout))
        else:
            shared.index(k % 2).store(gl.full([512], 1.0, gl.float32, layout))
            mbarrier.arrive(full.index(k % 2), count=1)


@gluon.jit
def take(y, shared, full, empty, ROUNDS: gl.constexpr, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    total = gl.zeros([512], gl.float32, layout)
    for k in range(ROUNDS):
        if FAULT != "no wait for a full stage":
            mbarrier.wait(full.index(k % 2), (k // 2) & 1)
        if FAULT == "given back before it is read":
            mbarrier.arrive(empty.index(k % 2), count=1)
            total += shared.index(k % 2).load(layout)
        elif FAULT == "reads the other stage":
            total += shared.index((k + 1) % 2).load(layout)
            mbarrier.arrive(empty.index(k % 2), count=1)
        else:
            total += shared.index(k % 2).load(layout)
            mbarrier.arrive(empty.index(k % 2), count=1)
    gl.store(y + gl.arange(0, 512, layout=layout), total)


@gluon.jit
def roles(y, ROUNDS: gl.constexpr, FAULT: gl.constexpr):
    """Two partitions and a ring of two stages."""
    shared = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    gl.warp_specialize([(take, (y, shared, full, empty, ROUNDS, FAULT)), (give, (shared, full, empty, ROUNDS, FAULT))], [4], [32])


@gluon.jit
def replicated(x, n, FAULT: gl.constexpr):
    """In place, by fewer elements than threads: each is loaded by a thread of every warp, and stored by one."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offsets = gl.arange(0, 32, layout=layout)
    for k in range(n):
        if FAULT == "another element":
            value = gl.load(x + k * 32 + 31 - offsets)
        elif FAULT == "another element, volatile":
            value = gl.load(x + k * 32 + 31 - offsets, volatile=True)
        elif FAULT == "none, volatile":
            value = gl.load(x + k * 32 + offsets, volatile=True)
        else:
            value = gl.load(x + k * 32 + offsets)
        gl.store(x + k * 32 + offsets, value + value)
