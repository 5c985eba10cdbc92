"""Gluon: copies of every kind by hand, and the barriers around them."""

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import (
    fence_async_shared,
    mbarrier,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import async_store

from .programs import described, normal, program, rng, tensor, wide, zeros


@gluon.jit
def gather_kernel(a, y, index, ROWS: gl.constexpr, COLUMNS: gl.constexpr, FAULT: gl.constexpr):
    """Rows by gather4 into two stages, doubled, scattered back."""
    layout: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    tile: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(a.dtype, [2, ROWS, COLUMNS], a.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    for k in range(2):
        rows = gl.load(index + k * ROWS + gl.arange(0, ROWS, layout=layout))
        mbarrier.expect(full.index(k), ROWS * COLUMNS * 2 // (2 if FAULT == "half the bytes" else 1))
        tma.async_gather(a, rows, 0, full.index(k), stages.index(k))
    for k in range(2):
        rows = gl.load(index + k * ROWS + gl.arange(0, ROWS, layout=layout))
        if FAULT != "no wait":
            mbarrier.wait(full.index(k), 0)
        v = stages.index(k).load(tile) * 2
        if FAULT == "the other stage":
            stages.index(1 - k).store(v)
            tma.async_scatter(y, rows, 0, stages.index(1 - k))
        else:
            stages.index(k).store(v)
            tma.async_scatter(y, rows, 0, stages.index(k))
        if FAULT == "stored under the scatter":
            stages.index(k).store(v)
    tma.store_wait(pendings=0)


@program(
    {
        "half the bytes": "deadlock race bytes undefined byte_mismatch",
        "no wait": "race",
        "the other stage": "race",
        "stored under the scatter": "race",
    }
)
def gather_and_scatter(fault):
    rows = 32
    a, y = normal(64, 64, dtype=np.float16), zeros(64, 64, dtype=np.float16)
    index = tensor(rng().permutation(64).astype(np.int32))
    gather_kernel[(1,)](
        described(a, [1, 64], gl.float16), described(y, [1, 64], gl.float16), index, ROWS=rows, COLUMNS=64, FAULT=fault
    )
    return [(y, 2 * wide(a), 0)]


@gluon.jit
def reduce_kernel(x, total, n, ROWS: gl.constexpr, COLUMNS: gl.constexpr, FAULT: gl.constexpr):
    """Each program adds its tiles into one by cp.reduce.async.bulk.tensor, from two stages in turn."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    stages = gl.allocate_shared_memory(total.dtype, [2, ROWS, COLUMNS], total.layout)
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, layout))
    count = 0
    for tile in range(gl.program_id(0), n, gl.num_programs(0)):
        if FAULT != "no wait":
            tma.store_wait(pendings=1)
        stages.index(count % 2).store(gl.load(x + tile * ROWS * COLUMNS + rows[:, None] * COLUMNS + columns[None, :]))
        fence_async_shared()
        if FAULT == "plain stores":
            tma.async_store(total, [0, 0], stages.index(count % 2))
        else:
            tma.async_atomic_add(total, [0, 0], stages.index(count % 2))
        if FAULT == "one stage":
            count += 2
        else:
            count += 1
    tma.store_wait(pendings=0)


@program({"no wait": "race", "plain stores": "race", "one stage": "race"})
def reductions_by_copies(fault):
    x, total = normal(8, 32, 64), zeros(32, 64)
    reduce_kernel[(2,)](x, described(total, [32, 64], gl.float32), 8, ROWS=32, COLUMNS=64, FAULT=fault)
    return [(total, wide(x).sum(0), 1e-5)]


@gluon.jit
def cluster_kernel(x, y, N: gl.constexpr, OWN: gl.constexpr, WHOLE: gl.constexpr):
    """Rows spread over two CTAs, summed along them: a reduction and a transposition through distributed shared memory."""
    rows = gl.arange(0, N, layout=gl.SliceLayout(1, OWN))
    columns = gl.arange(0, N, layout=gl.SliceLayout(0, OWN))
    v = gl.load(x + rows[:, None] * N + columns[None, :])
    s = gl.sum(v, axis=0)
    gl.store(y + N * N + gl.arange(0, N, layout=gl.SliceLayout(0, OWN)), s)
    w = gl.convert_layout(v, WHOLE)
    r = gl.arange(0, N, layout=gl.SliceLayout(1, WHOLE))
    c = gl.arange(0, N, layout=gl.SliceLayout(0, WHOLE))
    gl.store(y + c[None, :] * N + r[:, None], w)


@program()
def across_a_cluster(fault):
    N = 64
    x, y = normal(N, N), zeros(N + 1, N)
    own = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    whole = gl.BlockedLayout([4, 1], [8, 4], [1, 4], [0, 1], cga_layout=[[0, 1]])
    cluster_kernel[(1,)](x, y, N=N, OWN=own, WHOLE=whole, num_ctas=2)
    return [(y[:N], wide(x).T, 0), (y[N], wide(x).sum(0), 1e-5)]


@gluon.jit
def copied_kernel(x, y, n, SIZE: gl.constexpr, FAULT: gl.constexpr):
    """cp.async that arrives on an mbarrier, consumed by another partition's threads in the same program order."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    other: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    shared = gl.allocate_shared_memory(gl.float32, [2, SIZE], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    for k in range(n):
        async_copy.async_load(shared.index(k % 2), x + k * SIZE + gl.arange(0, SIZE, layout=layout))
        async_copy.mbarrier_arrive(full.index(k % 2))
        if FAULT != "no arrival":
            mbarrier.arrive(full.index(k % 2), count=1)
        if FAULT == "the other barrier":
            mbarrier.wait(full.index((k + 1) % 2), ((k // 2) & 1) ^ 1)
        elif FAULT != "no wait":
            mbarrier.wait(full.index(k % 2), (k // 2) & 1)
        gl.store(y + k * SIZE + gl.arange(0, SIZE, layout=other), shared.index(k % 2).load(other))


@program({"no arrival": "deadlock", "no wait": "race", "the other barrier": "race deadlock undefined"})
def copies_that_arrive(fault):
    x, y = normal(4, 512), zeros(4, 512)
    copied_kernel[(1,)](x, y, 4, SIZE=512, FAULT=fault)
    return [(y, x, 0)]


@gluon.jit
def histogram_kernel(x, counts, n, BINS: gl.constexpr, SIZE: gl.constexpr, FAULT: gl.constexpr):
    """Counted in shared memory by atomics, added to global memory by all."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    bins = gl.arange(0, BINS, layout=layout)
    shared = gl.allocate_shared_memory(gl.int32, [BINS], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    shared.store(gl.zeros([BINS], gl.int32, layout))
    for start in range(gl.program_id(0) * SIZE, n, gl.num_programs(0) * SIZE):
        i = start + gl.arange(0, SIZE, layout=layout)
        v = gl.load(x + i, mask=i < n, other=0)
        one = gl.full([SIZE], 1, gl.int32, layout)
        if FAULT == "not atomic":
            # (Warps that store the same number to a place do not race, in practice.)
            shared.scatter(shared.gather(v, 0) + i, v, 0)
        else:
            shared.atomic_scatter_add(one, v, 0, mask=i < n)
    total = shared.load(layout)
    if FAULT == "plain sum":
        gl.store(counts + bins, gl.load(counts + bins) + total)
    else:
        gl.atomic_add(counts + bins, total)


@program({"plain sum": "race", "not atomic": "race"})
def histogram_in_shared_memory(fault):
    n = 700
    x, counts = tensor(rng().integers(0, 128, n).astype(np.int32)), zeros(128, dtype=np.int32)
    histogram_kernel[(2,)](x, counts, n, BINS=128, SIZE=128, FAULT=fault)
    return [(counts, np.bincount(np.asarray(x), minlength=128), 0)]


@gluon.jit
def sent_kernel(x, y, SIZE: gl.constexpr, LAYOUT: gl.constexpr, SHARED: gl.constexpr, FAULT: gl.constexpr):
    """st.async into the cluster's shared memory, bytes counted on a barrier."""
    i = gl.arange(0, SIZE, layout=LAYOUT)
    v = gl.load(x + i)
    shared = gl.allocate_shared_memory(gl.float32, [SIZE], SHARED)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    fence_async_shared(cluster=True)
    gl.barrier(cluster=True)
    mbarrier.expect(full, SIZE * 4 // 2 // (2 if FAULT == "half the bytes" else 1))
    async_store(shared, v, full)
    if FAULT != "no wait":
        mbarrier.wait(full, 0, deps=[shared])
    gl.store(y + i, shared.load(LAYOUT))
    gl.barrier(cluster=True)


@program({"no wait": "race", "half the bytes": "race byte_mismatch"}, arch="sm_90a")
def sent_across_a_cluster(fault):
    x, y = normal(512), zeros(512)
    layout = gl.BlockedLayout([4], [32], [4], [0], cga_layout=[[1]])
    shared = gl.SwizzledSharedLayout(1, 1, 1, [0], cga_layout=[[1]])
    sent_kernel[(1,)](x, y, SIZE=512, LAYOUT=layout, SHARED=shared, FAULT=fault, num_ctas=2)
    return [(y, x, 0)]
