"""Gluon: tiles that threads lay out, read by tensor cores and tensor copies."""

import numpy as np
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
from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma

from .programs import described, normal, program, wide, zeros


@gluon.jit
def swizzles_kernel(a, b, y, WRITE: gl.constexpr, READ: gl.constexpr, PLAIN: gl.constexpr):
    """Tiles that threads write, multiplied: what is read in another layout than it was written in is silently wrong."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 128, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    sa = gl.allocate_shared_memory(gl.float16, [128, 64], WRITE)
    sb = gl.allocate_shared_memory(gl.float16, [128, 64], PLAIN)
    sa.store(gl.load(a + rows[:, None] * 64 + columns[None, :]))
    sb.store(gl.load(b + rows[:, None] * 64 + columns[None, :]))
    fence_async_shared()
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(done, count=1)
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    read = sa.reinterpret(gl.float16, [128, 64], READ)
    tcgen05_mma(read, sb.permute((1, 0)), acc, use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)
    out: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    i = gl.arange(0, 128, layout=gl.SliceLayout(1, out))
    j = gl.arange(0, 128, layout=gl.SliceLayout(0, out))
    gl.store(y + i[:, None] * 128 + j[None, :], gl.convert_layout(acc.load(), out))


@program({"64 bytes": "layout", "32 bytes": "layout"})
def swizzles_by_threads(fault):
    a, b, y = normal(128, 64, dtype=np.float16), normal(128, 64, dtype=np.float16, scale=2), zeros(128, 128)
    kinds = {"": 128, "64 bytes": 64, "32 bytes": 32}
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    other = gl.NVMMASharedLayout(swizzle_byte_width=kinds[fault], element_bitwidth=16, rank=2)
    swizzles_kernel[(1,)](a, b, y, WRITE=layout, READ=other, PLAIN=layout)
    return [(y, wide(a) @ wide(b).T, 1e-5)]


@gluon.jit
def staged_kernel(x, y, out, WRITE: gl.constexpr, FAULT: gl.constexpr):
    """Loaded by TMA, doubled, and staged for a TMA store of another swizzle."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(x.dtype, [128, 64], x.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    fence_async_shared()
    mbarrier.expect(full, x.block_type.nbytes)
    tma.async_load(x, [0, 0], full, tile)
    mbarrier.wait(full, 0)
    # Not invalidated: its place may be part of what follows.
    staging = gl.allocate_shared_memory(y.dtype, [128, 64], WRITE)
    staging.store(tile.load(layout) * 2)
    fence_async_shared()
    tma.async_store(y, [0, 0], staging.reinterpret(y.dtype, [128, 64], y.layout))
    tma.store_wait(pendings=0)


@program({"64 bytes": "layout", "none": "linear"})
def staged_in_a_swizzle(fault):
    x, y = normal(128, 64, dtype=np.float16), zeros(128, 64, dtype=np.float16)
    write = gl.NVMMASharedLayout(swizzle_byte_width={"": 128, "64 bytes": 64, "none": 0}[fault], element_bitwidth=16, rank=2)
    staged_kernel[(1,)](described(x, [128, 64], gl.float16), described(y, [128, 64], gl.float16), y, WRITE=write, FAULT=fault)
    return [(y, 2 * wide(x), 0)]


@gluon.jit
def copied_operands_kernel(a, b, y, WRITE: gl.constexpr, READ: gl.constexpr, PLAIN: gl.constexpr):
    """Operands of wgmma that cp.async lays out."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    sa = gl.allocate_shared_memory(gl.float16, [64, 64], WRITE)
    sb = gl.allocate_shared_memory(gl.float16, [64, 64], PLAIN)
    async_copy.async_load(sa, a + rows[:, None] * 64 + columns[None, :])
    async_copy.async_load(sb, b + rows[:, None] * 64 + columns[None, :])
    async_copy.commit_group()
    async_copy.wait_group(0)
    gl.barrier()
    fence_async_shared()
    out: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    acc = warpgroup_mma(sa.reinterpret(gl.float16, [64, 64], READ), sb, gl.zeros([64, 64], gl.float32, out))
    i = gl.arange(0, 64, layout=gl.SliceLayout(1, out))
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, out))
    gl.store(y + i[:, None] * 64 + j[None, :], acc)


@program({"64 bytes": "layout", "32 bytes": "layout"}, arch="sm_90a")
def operands_by_cp_async(fault):
    a, b, y = normal(64, 64, dtype=np.float16), normal(64, 64, dtype=np.float16, scale=2), zeros(64, 64)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    other = gl.NVMMASharedLayout(swizzle_byte_width={"": 128, "64 bytes": 64, "32 bytes": 32}[fault], element_bitwidth=16, rank=2)
    copied_operands_kernel[(1,)](a, b, y, WRITE=layout, READ=other, PLAIN=layout)
    return [(y, wide(a) @ wide(b), 1e-5)]


@gluon.jit
def shared_p_kernel(a, b, c, y, P: gl.constexpr, READ: gl.constexpr):
    """(A @ B.T) @ C with the first product in shared memory, stored there as its fragments lie (stmatrix)."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 64, layout=gl.SliceLayout(1, layout))
    columns = gl.arange(0, 64, layout=gl.SliceLayout(0, layout))
    place = rows[:, None] * 64 + columns[None, :]
    sa = gl.allocate_shared_memory(gl.float16, [64, 64], P, gl.load(a + place))
    sb = gl.allocate_shared_memory(gl.float16, [64, 64], P, gl.load(b + place))
    sc = gl.allocate_shared_memory(gl.float16, [64, 64], P, gl.load(c + place))
    fence_async_shared()
    out: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])
    s = warpgroup_mma(sa, sb.permute((1, 0)), gl.zeros([64, 64], gl.float32, out))
    p = gl.allocate_shared_memory(gl.float16, [64, 64], P)
    p.store(s.to(gl.float16))
    fence_async_shared()
    acc = warpgroup_mma(p.reinterpret(gl.float16, [64, 64], READ), sc, gl.zeros([64, 64], gl.float32, out))
    i = gl.arange(0, 64, layout=gl.SliceLayout(1, out))
    j = gl.arange(0, 64, layout=gl.SliceLayout(0, out))
    gl.store(y + i[:, None] * 64 + j[None, :], acc)


@program({"64 bytes": "layout", "32 bytes": "layout"}, arch="sm_90a")
def fragments_as_operands(fault):
    a, b, c = (normal(64, 64, dtype=np.float16, scale=s) for s in (1, 0.5, 2))
    y = zeros(64, 64)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    other = gl.NVMMASharedLayout(swizzle_byte_width={"": 128, "64 bytes": 64, "32 bytes": 32}[fault], element_bitwidth=16, rank=2)
    shared_p_kernel[(1,)](a, b, c, y, P=layout, READ=other)
    return [(y, (wide(a) @ wide(b).T) @ wide(c), 2e-3)]
