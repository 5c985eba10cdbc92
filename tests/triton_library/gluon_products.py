"""Gluon: tensor cores by hand, in roles and in pairs of CTAs."""

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma, warpgroup_mma_init, warpgroup_mma_wait

from .programs import described, normal, program, wide, zeros


@gluon.jit
def wgmma_kernel(a, b, c, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr, FAULT: gl.constexpr):
    """A ring of stages, one wgmma in flight; a stage is loaded again when the wgmma after it has been issued."""
    sa = gl.allocate_shared_memory(a.dtype, [STAGES, BM, BK], a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [STAGES, BK, BN], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
    fence_async_shared()
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    steps = gl.cdiv(K, BK)
    for i in gl.static_range(STAGES - 1):
        if i < steps:
            mbarrier.expect(full.index(i), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [row, i * BK], full.index(i), sa.index(i))
            tma.async_load(b, [i * BK, column], full.index(i), sb.index(i))
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, BN, 16])
    acc = warpgroup_mma_init(gl.zeros([BM, BN], gl.float32, layout))
    for k in range(steps):
        stage = k % STAGES
        if FAULT != "no wait for a full stage":
            mbarrier.wait(full.index(stage), (k // STAGES) & 1)
        if FAULT == "two in flight":
            acc = warpgroup_mma_wait(num_outstanding=1, deps=(acc,))
        else:
            acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
        acc = warpgroup_mma(sa.index(stage), sb.index(stage), acc, is_async=True)
        later = k + STAGES - 1
        if later < steps:
            place = later % STAGES
            if FAULT == "this stage again":
                place = stage
            mbarrier.expect(full.index(later % STAGES), a.block_type.nbytes + b.block_type.nbytes)
            tma.async_load(a, [row, later * BK], full.index(later % STAGES), sa.index(place))
            tma.async_load(b, [later * BK, column], full.index(later % STAGES), sb.index(place))
    acc = warpgroup_mma_wait(num_outstanding=0, deps=(acc,))
    out = gl.allocate_shared_memory(c.dtype, [BM, BN], c.layout)
    out.store(acc.to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [row, column], out)
    tma.store_wait(pendings=0)


@program({"no wait for a full stage": "race", "two in flight": "race", "this stage again": "race"}, arch="sm_90a")
def wgmma_ring(fault):
    M, N, K = 128, 64, 192
    a, b, c = normal(M, K, dtype=np.float16), normal(K, N, dtype=np.float16), zeros(M, N, dtype=np.float16)
    maps = described(a, [64, 32], gl.float16), described(b, [32, 64], gl.float16), described(c, [64, 64], gl.float16)
    wgmma_kernel[(2, 1)](*maps, K, BM=64, BN=64, BK=32, STAGES=3, FAULT=fault)
    return [(c, wide(a) @ wide(b), 2.0**-9)]


@gluon.jit
def attend_load(q, k, v, sq, sk, sv, q_full, kv_full, kv_empty, tokens, BN: gl.constexpr, FAULT: gl.constexpr):
    mbarrier.expect(q_full, q.block_type.nbytes)
    tma.async_load(q, [gl.program_id(0) * 128, 0], q_full, sq)
    step = 0
    for start in range(0, tokens, BN):
        for part in gl.static_range(2):
            stage = step % 3
            if FAULT != "no wait for an empty stage":
                mbarrier.wait(kv_empty.index(stage), ((step // 3) & 1) ^ 1)
            mbarrier.expect(kv_full.index(stage), k.block_type.nbytes)
            if part == 0:
                tma.async_load(k, [start, 0], kv_full.index(stage), sk.index(stage))
            else:
                tma.async_load(v, [start, 0], kv_full.index(stage), sk.index(stage))
            step += 1


@gluon.jit
def attend_mma(sq, sk, q_full, kv_full, kv_empty, s, p, o, s_full, p_full, o_full, tokens, BN: gl.constexpr, FAULT: gl.constexpr):
    mbarrier.wait(q_full, 0)
    step = 0
    count = 0
    for start in range(0, tokens, BN):
        mbarrier.wait(kv_full.index(step % 3), (step // 3) & 1)
        tcgen05_mma(sq, sk.index(step % 3).permute((1, 0)), s, use_acc=False, mbarriers=[kv_empty.index(step % 3), s_full])
        step += 1
        mbarrier.wait(kv_full.index(step % 3), (step // 3) & 1)
        if FAULT != "no wait for P":
            mbarrier.wait(p_full, count & 1)
        tcgen05_mma(p, sk.index(step % 3), o, use_acc=count > 0, mbarriers=[kv_empty.index(step % 3)])
        step += 1
        count += 1  # noqa: SIM113 - Gluon has no enumerate
    tcgen05_commit(o_full)


@gluon.jit
def attend_soft(y, s, p, o, s_full, p_full, o_full, tokens, HEAD: gl.constexpr, BN: gl.constexpr, FAULT: gl.constexpr):
    """relu(S / 8) in the place of a softmax: the traffic is the same, and no correction is needed."""
    count = 0
    for start in range(0, tokens, BN):
        mbarrier.wait(s_full, count & 1)
        v = gl.maximum(s.load() * 0.125, 0.0)
        if FAULT == "told before it is stored":
            mbarrier.arrive(p_full, count=1)
            p.store(gl.convert_layout(v.to(gl.float16), p.get_reg_layout()))
        else:
            p.store(gl.convert_layout(v.to(gl.float16), p.get_reg_layout()))
            if FAULT == "told once":
                mbarrier.arrive(p_full, count=1, pred=count == 0)
            else:
                mbarrier.arrive(p_full, count=1)
        count += 1  # noqa: SIM113 - Gluon has no enumerate
    if FAULT != "no wait for O":
        mbarrier.wait(o_full, 0)
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [2, 16], [4, 1], [1, 0])
    rows = gl.program_id(0) * 128 + gl.arange(0, 128, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, HEAD, layout=gl.SliceLayout(0, layout))
    gl.store(y + rows[:, None] * HEAD + columns[None, :], gl.convert_layout(o.load(), layout))


@gluon.jit
def attend_kernel(q, k, v, y, tokens, HEAD: gl.constexpr, BN: gl.constexpr, FAULT: gl.constexpr):
    """Three roles; K and V in one ring; P in tensor memory."""
    sq = gl.allocate_shared_memory(q.dtype, [128, HEAD], q.layout)
    sk = gl.allocate_shared_memory(k.dtype, [3, BN, HEAD], k.layout)
    q_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    kv_full = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    kv_empty = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    s_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    p_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    o_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(q_full, count=1)
    mbarrier.init(s_full, count=1)
    mbarrier.init(p_full, count=1)
    mbarrier.init(o_full, count=1)
    for i in gl.static_range(3):
        mbarrier.init(kv_full.index(i), count=1)
        mbarrier.init(kv_empty.index(i), count=1)
    fence_async_shared()
    s = allocate_tensor_memory(gl.float32, [128, BN], TensorMemoryLayout([128, BN], col_stride=1))
    p = allocate_tensor_memory(gl.float16, [128, BN], TensorMemoryLayout([128, BN], col_stride=1))
    o = allocate_tensor_memory(gl.float32, [128, HEAD], TensorMemoryLayout([128, HEAD], col_stride=1))
    gl.warp_specialize(
        [
            (attend_soft, (y, s, p, o, s_full, p_full, o_full, tokens, HEAD, BN, FAULT)),
            (attend_load, (q, k, v, sq, sk, sk, q_full, kv_full, kv_empty, tokens, BN, FAULT)),
            (attend_mma, (sq, sk, q_full, kv_full, kv_empty, s, p, o, s_full, p_full, o_full, tokens, BN, FAULT)),
        ],
        [1, 1],
        [24, 24],
    )


@program(
    {
        "no wait for an empty stage": "race arrive_underflow undefined",
        "no wait for P": "race",
        "told before it is stored": "race",
        "told once": "deadlock",
        "no wait for O": "race",
    }
)
def attention_in_roles(fault):
    tokens, head = 256, 64
    q, k, v = (normal(tokens, head, dtype=np.float16) for _ in "qkv")
    y = zeros(tokens, head)
    maps = described(q, [128, head], gl.float16), described(k, [64, head], gl.float16), described(v, [64, head], gl.float16)
    attend_kernel[(2,)](*maps, y, tokens, HEAD=head, BN=64, FAULT=fault)
    p = np.maximum(wide(q) @ wide(k).T / 8, 0)
    return [(y, p @ wide(v), 2e-3)]


@gluon.jit
def pair_load(a, b, sa, sb, full, empty, row, column, K, BK: gl.constexpr, FAULT: gl.constexpr):
    step = 0
    for k in range(0, K, BK):
        if FAULT != "no wait for an empty stage":
            mbarrier.wait(empty.index(step % 2), ((step // 2) & 1) ^ 1)
        mbarrier.expect(full.index(step % 2), a.nbytes_per_cta + b.nbytes_per_cta)
        tma.async_load(a, [row, k], full.index(step % 2), sa.index(step % 2))
        tma.async_load(b, [column, k], full.index(step % 2), sb.index(step % 2))
        step += 1  # noqa: SIM113 - Gluon has no enumerate


@gluon.jit
def pair_mma(sa, sb, full, empty, done, acc, K, BK: gl.constexpr, FAULT: gl.constexpr):
    step = 0
    for k in range(0, K, BK):
        if FAULT != "no wait for a full stage":
            mbarrier.wait(full.index(step % 2), (step // 2) & 1)
        tcgen05_mma(sa.index(step % 2), sb.index(step % 2).permute((1, 0)), acc, use_acc=k > 0)
        tcgen05_commit(empty.index(step % 2))
        step += 1  # noqa: SIM113 - Gluon has no enumerate
    tcgen05_commit(done)


@gluon.jit
def pair_store(d, out, acc, done, row, column, FAULT: gl.constexpr):
    if FAULT != "no wait for the product":
        mbarrier.wait(done, 0)
    out.store(acc.load().to(d.dtype))
    fence_async_shared()
    tma.async_store(d, [row, column], out)
    tma.store_wait(pendings=0)


@gluon.jit
def pair_kernel(a, b, d, K, BM: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, FAULT: gl.constexpr):
    """A pair of CTAs in roles: two stages, one accumulator over both."""
    sa = gl.allocate_shared_memory(a.dtype, [2, BM, BK], a.layout)
    sb = gl.allocate_shared_memory(b.dtype, [2, BN, BK], b.layout)
    out = gl.allocate_shared_memory(d.dtype, [BM, BN], d.layout)
    full = mbarrier.allocate_mbarrier(batch=2, two_ctas=True)
    empty = mbarrier.allocate_mbarrier(batch=2)
    done = mbarrier.allocate_mbarrier()
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    mbarrier.init(done, count=1)
    fence_async_shared(cluster=True)
    if FAULT != "no cluster barrier":
        gl.barrier(cluster=True)
    layout: gl.constexpr = TensorMemoryLayout([BM // 2, BN], col_stride=1, cga_layout=[[1, 0]], two_ctas=True)
    acc = allocate_tensor_memory(gl.float32, [BM, BN], layout)
    row = gl.program_id(0) * BM
    column = gl.program_id(1) * BN
    gl.warp_specialize(
        [
            (pair_store, (d, out, acc, done, row, column, FAULT)),
            (pair_load, (a, b, sa, sb, full, empty, row, column, K, BK, FAULT)),
            (pair_mma, (sa, sb, full, empty, done, acc, K, BK, FAULT)),
        ],
        [1, 1],
        [24, 24],
    )


@program(
    {
        "no wait for an empty stage": "race arrive_underflow undefined",
        "no wait for a full stage": "race",
        "no wait for the product": "race",
    }
)
def pair_in_roles(fault):
    M, N, K = 256, 64, 256
    a, b, d = normal(M, K, dtype=np.float16), normal(N, K, dtype=np.float16), zeros(M, N, dtype=np.float16)
    pair = {"cga_layout": [[1, 0]]}
    maps = (
        described(a, [256, 64], gl.float16, **pair),
        described(b, [64, 64], gl.float16, **pair),
        described(d, [256, 64], gl.float16, **pair),
    )
    pair_kernel[(1, 1)](*maps, K, BM=256, BN=64, BK=64, FAULT=fault, num_ctas=2)
    return [(d, wide(a) @ wide(b).T, 2.0**-9)]
