"""More Gluon kernels with a fault or none (FAULT): rings, several producers and consumers, two views of one place, deadlocks."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_copy,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_init, warpgroup_mma_wait

THREADS = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
TILE = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))


@gluon.jit
def places(ROWS: gl.constexpr, COLUMNS: gl.constexpr, LAYOUT: gl.constexpr):
    rows = gl.arange(0, ROWS, layout=gl.SliceLayout(1, LAYOUT))
    return rows[:, None] * COLUMNS + gl.arange(0, COLUMNS, layout=gl.SliceLayout(0, LAYOUT))[None, :]


@gluon.jit
def produce_half(shared, full, empty, HALF: gl.constexpr, FAULT: gl.constexpr):
    for k in range(4):
        if FAULT != "one does not wait for an empty stage" or HALF == 0:
            mbarrier.wait(empty, (k & 1) ^ 1)
        shared.index(HALF).store((gl.arange(0, 128, layout=THREADS) + k).to(gl.float32))
        mbarrier.arrive(full, count=1)


@gluon.jit
def consume_both(y, shared, full, empty, HALF: gl.constexpr, FAULT: gl.constexpr):
    for k in range(4):
        if FAULT != "one does not wait for a full stage" or HALF == 0:
            mbarrier.wait(full, k & 1)
        total = shared.index(0).load(THREADS) + shared.index(1).load(THREADS)
        mbarrier.arrive(empty, count=1)
        gl.store(y + HALF * 128 + gl.arange(0, 128, layout=THREADS), total)


@gluon.jit
def two_to_two(y, FAULT: gl.constexpr):
    """Two partitions fill a half each; two others read both halves."""
    shared = gl.allocate_shared_memory(gl.float32, [2, 128], FLAT)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1 if FAULT == "counts one producer" else 2)
    mbarrier.init(empty, count=2)
    gl.warp_specialize(
        [
            (consume_both, (y, shared, full, empty, 0, FAULT)),
            (consume_both, (y, shared, full, empty, 1, FAULT)),
            (produce_half, (shared, full, empty, 0, FAULT)),
            (produce_half, (shared, full, empty, 1, FAULT)),
        ],
        [4, 4, 4],
        [32, 32, 32],
    )


@gluon.jit
def load_ring(a, shared, full, empty, FAULT: gl.constexpr):
    for k in range(6):
        if FAULT != "no wait for an empty stage":
            mbarrier.wait(empty.index(k % 2), ((k // 2) & 1) ^ 1)
        mbarrier.expect(full.index(k % 2), 4096 if FAULT == "expects half of the bytes" else 8192)
        tma.async_load(a, [(k % 4) * 64, 0], full.index(k % 2), shared.index(k % 2))


@gluon.jit
def read_ring(y, shared, full, empty, FAULT: gl.constexpr):
    for k in range(6):
        if FAULT == "the phase never flips":
            mbarrier.wait(full.index(k % 2), 0)
        elif FAULT != "no wait for a full stage":
            mbarrier.wait(full.index(k % 2), (k // 2) & 1)
        value = shared.index((k + 1) % 2 if FAULT == "the other stage" else k % 2).load(TILE)
        if FAULT != "never given back":
            mbarrier.arrive(empty.index(k % 2), count=1)
        if FAULT == "given back twice":
            mbarrier.arrive(empty.index(k % 2), count=1)
        gl.store(y + (k % 4) * 4096 + places(64, 64, TILE), value)


@gluon.jit
def tma_ring(a, y, FAULT: gl.constexpr):
    shared = gl.allocate_shared_memory(gl.float16, [2, 64, 64], a.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    fence_async_shared()
    gl.warp_specialize([(read_ring, (y, shared, full, empty, FAULT)), (load_ring, (a, shared, full, empty, FAULT))], [1], [32])


@gluon.jit
def two_views(a, y, FAULT: gl.constexpr):
    """A tile as TMA writes it, and the same bytes as words."""
    shared = gl.allocate_shared_memory(gl.float16, [64, 64], a.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    fence_async_shared()
    words = shared.reinterpret(gl.float32, [2048], FLAT)
    mbarrier.expect(full, 8192)
    tma.async_load(a, [0, 0], full, shared)
    if FAULT == "words stored under the load":
        words.store(gl.full([2048], 1.0, gl.float32, THREADS))
    if FAULT != "words read before the wait":
        mbarrier.wait(full, 0)
    gl.store(y + gl.arange(0, 2048, layout=THREADS), words.load(THREADS).to(gl.float16))
    if FAULT == "words read before the wait":
        mbarrier.wait(full, 0)


@gluon.jit
def copied_to_tensor_memory(x, y, SHARED: gl.constexpr, FAULT: gl.constexpr):
    shared = gl.allocate_shared_memory(gl.float32, [128, 32], SHARED, gl.load(x + places(128, 32, TILE)))
    fence_async_shared()
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    memory = allocate_tensor_memory(gl.float32, [128, 32], TensorMemoryLayout([128, 32], col_stride=1))
    tcgen05_copy(shared, memory)
    tcgen05_commit(done)
    if FAULT == "source stored under the copy":
        shared.store(gl.full([128, 32], 1.0, gl.float32, TILE))
    if FAULT == "destination stored under the copy":
        memory.store(gl.full([128, 32], 1.0, gl.float32, memory.get_reg_layout()))
    if FAULT != "read before the wait":
        mbarrier.wait(done, 0)
    gl.store(y + places(128, 32, TILE), gl.convert_layout(memory.load(), TILE))
    if FAULT == "read before the wait":
        mbarrier.wait(done, 0)


@gluon.jit
def two_wgmma(a, b, y, FAULT: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    sa = gl.allocate_shared_memory(gl.float16, [2, 64, 64], a.layout)
    sb = gl.allocate_shared_memory(gl.float16, [64, 64], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    fence_async_shared()
    mbarrier.expect(full, 3 * 8192)
    tma.async_load(a, [0, 0], full, sa.index(0))
    tma.async_load(a, [0, 0], full, sa.index(1))
    tma.async_load(b, [0, 0], full, sb)
    mbarrier.wait(full, 0)
    acc = warpgroup_mma_init(gl.full([64, 64], 0.0, gl.float32, layout))
    acc = warpgroup_mma(sa.index(0), sb, acc, is_async=True)
    acc = warpgroup_mma(sa.index(1), sb, acc, is_async=True)
    if FAULT == "operand loaded again under it":
        mbarrier.expect(full, 8192)
        tma.async_load(a, [0, 0], full, sa.index(1))
        mbarrier.wait(full, 1)
    acc = warpgroup_mma_wait(1 if FAULT == "waits for the first one" else 0, deps=[acc])
    if FAULT == "waits for the first one":
        sb.store(gl.full([64, 64], 2.0, gl.float16, TILE))
        acc = warpgroup_mma_wait(0, deps=[acc])
    gl.store(y + places(64, 64, layout), acc)


@gluon.jit
def signal_and_wait(barriers, OWN: gl.constexpr, FAULT: gl.constexpr):
    if FAULT == "both wait first":
        mbarrier.wait(barriers.index(OWN), 0)
    mbarrier.arrive(barriers.index(1 - OWN), count=1)
    if FAULT == "an arrival too many" and OWN == 0:
        mbarrier.arrive(barriers.index(1), count=2)
    mbarrier.wait(barriers.index(OWN), 0)
    if FAULT == "waits for a phase more" and OWN == 1:
        mbarrier.wait(barriers.index(OWN), 1)


@gluon.jit
def handshake(FAULT: gl.constexpr):
    barriers = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    mbarrier.init(barriers.index(0), count=2 if FAULT == "an arrival too few" else 1)
    mbarrier.init(barriers.index(1), count=1)
    gl.warp_specialize([(signal_and_wait, (barriers, 0, FAULT)), (signal_and_wait, (barriers, 1, FAULT))], [4], [32])
