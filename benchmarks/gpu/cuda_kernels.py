"""Kernels in CUDA C whose times are predicted from the PTX that NVRTC makes of them: what a block does, where it waits, and what it moves
varies from one to the next. Texts and launches only; `h200_cuda.py` beside this file measures them."""

from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

TEXT = r"""
typedef unsigned int u32;
typedef unsigned short bf16;
typedef unsigned char u8;
extern __shared__ __align__(128) u8 memory[];

__device__ float sum_of_warp(float v) {
    for (int by = 16; by; by /= 2) v += __shfl_xor_sync(~0u, v, by);
    return v;
}
__device__ float sum_of_block(float v, float *shared) {
    v = sum_of_warp(v);
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    float all = 0;
    for (int i = 0; i < blockDim.x / 32; i++) all += shared[i];
    __syncthreads();
    return all;
}

extern "C" __global__ void copy_wide(const float4 *x, float4 *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = x[i];
}

extern "C" __global__ void copy_narrow(const unsigned short *x, unsigned short *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = x[i];
}

extern "C" __global__ void copy_looped(const float4 *x, float4 *z, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) z[i] = x[i];
}

extern "C" __global__ void transpose_plain(const float *x, float *z, int rows, int columns) {
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) z[(size_t)column * rows + row + i] = x[(size_t)(row + i) * columns + column];
}

template <int PITCH> __device__ void transpose(const float *x, float *z, int rows, int columns) {
    float *tile = (float *)memory;
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) tile[(threadIdx.y + i) * PITCH + threadIdx.x] = x[(size_t)(row + i) * columns + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) z[(size_t)(row + i) * rows + column] = tile[threadIdx.x * PITCH + threadIdx.y + i];
}
extern "C" __global__ void transpose_conflicts(const float *x, float *z, int rows, int columns) { transpose<32>(x, z, rows, columns); }
extern "C" __global__ void transpose_padded(const float *x, float *z, int rows, int columns) { transpose<33>(x, z, rows, columns); }

extern "C" __global__ void sum_tree(const float *x, float *z) {
    float *part = (float *)memory;
    int t = threadIdx.x;
    const float *from = x + (size_t)blockIdx.x * 4 * blockDim.x;
    part[t] = from[t] + from[t + blockDim.x] + from[t + 2 * blockDim.x] + from[t + 3 * blockDim.x];
    __syncthreads();
    for (int by = blockDim.x / 2; by; by /= 2) {
        if (t < by) part[t] += part[t + by];
        __syncthreads();
    }
    if (t == 0) z[blockIdx.x] = part[0];
}

extern "C" __global__ void sum_looped(const float4 *x, float *z, int n) {
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        sum += v.x + v.y + v.z + v.w;
    }
    sum = sum_of_block(sum, (float *)memory);
    if (threadIdx.x == 0) z[blockIdx.x] = sum;
}

extern "C" __global__ void softmax_warps(const float4 *x, float4 *z) {  // a row of 1,024 to a warp
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float4 v[8];
    float most = -1e30f, sum = 0;
    for (int i = 0; i < 8; i++) {
        v[i] = x[row * 256 + i * 32 + lane];
        most = fmaxf(most, fmaxf(fmaxf(v[i].x, v[i].y), fmaxf(v[i].z, v[i].w)));
    }
    for (int by = 16; by; by /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, by));
    for (int i = 0; i < 8; i++) {
        v[i] = make_float4(__expf(v[i].x - most), __expf(v[i].y - most), __expf(v[i].z - most), __expf(v[i].w - most));
        sum += v[i].x + v[i].y + v[i].z + v[i].w;
    }
    float scale = 1 / sum_of_warp(sum);
    for (int i = 0; i < 8; i++)
        z[row * 256 + i * 32 + lane] = make_float4(v[i].x * scale, v[i].y * scale, v[i].z * scale, v[i].w * scale);
}

extern "C" __global__ void softmax_passes(const float *x, float *z, int n) {  // three passes over a row
    float *shared = (float *)memory;
    const float *from = x + (size_t)blockIdx.x * n;
    float most = -1e30f, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, from[i]);
    for (int by = 16; by; by /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, by));
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = most;
    __syncthreads();
    for (int i = 0; i < blockDim.x / 32; i++) most = fmaxf(most, shared[i]);
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(from[i] - most);
    sum = 1 / sum_of_block(sum, shared);
    for (int i = threadIdx.x; i < n; i += blockDim.x) z[(size_t)blockIdx.x * n + i] = __expf(from[i] - most) * sum;
}

extern "C" __global__ void stencil_plane(const float *x, float *z, int rows, int columns) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i == 0 || j == 0 || i >= rows - 1 || j >= columns - 1) return;
    const float *at = x + (size_t)i * columns + j;
    z[(size_t)i * columns + j] = 0.5f * at[0] + 0.125f * (at[-1] + at[1] + at[-columns] + at[columns]);
}

extern "C" __global__ void stencil_column(const float *x, float *z, int n, int plane) {  // 3-D, 25 points, along the third axis
    int tx = threadIdx.x, ty = threadIdx.y;
    float (*tile)[40] = (float (*)[40])memory;
    int i = blockIdx.x * 32 + tx + 4, j = blockIdx.y * 16 + ty + 4, pitch = n + 8;
    size_t at = (size_t)j * pitch + i;
    float front[4], here, back[4];
    for (int k = 0; k < 4; k++) front[k] = x[at + (size_t)k * plane];
    here = x[at + 4 * (size_t)plane];
    for (int k = 0; k < 4; k++) back[k] = x[at + (size_t)(5 + k) * plane];
    for (int k = 4; k < 68; k++) {
        size_t now = at + (size_t)k * plane;
        __syncthreads();
        tile[ty + 4][tx + 4] = here;
        if (tx < 4) tile[ty + 4][tx] = x[now - 4], tile[ty + 4][tx + 36] = x[now + 32];
        if (ty < 4) tile[ty][tx + 4] = x[now - 4 * pitch], tile[ty + 20][tx + 4] = x[now + 16 * pitch];
        __syncthreads();
        float sum = 0.4f * here;
        for (int d = 1; d <= 4; d++)
            sum += 0.1f / d * (tile[ty + 4][tx + 4 - d] + tile[ty + 4][tx + 4 + d] + tile[ty + 4 - d][tx + 4] + tile[ty + 4 + d][tx + 4]
                             + front[4 - d] + back[d - 1]);
        z[now] = sum;
        for (int d = 0; d < 3; d++) front[d] = front[d + 1];
        front[3] = here, here = back[0];
        for (int d = 0; d < 3; d++) back[d] = back[d + 1];
        back[3] = x[now + 5 * (size_t)plane];
    }
}

extern "C" __global__ void product_shared(const float *a, const float *b, float *z, int n, int k) {  // tiles of 32 x 32
    float (*sa)[32] = (float (*)[32])memory, (*sb)[32] = sa + 32;
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 32 + ty, column = blockIdx.x * 32 + tx;
    float sum = 0;
    for (int at = 0; at < k; at += 32) {
        sa[ty][tx] = a[(size_t)row * k + at + tx];
        sb[ty][tx] = b[(size_t)(at + ty) * n + column];
        __syncthreads();
        for (int i = 0; i < 32; i++) sum += sa[ty][i] * sb[i][tx];
        __syncthreads();
    }
    z[(size_t)row * n + column] = sum;
}

extern "C" __global__ void __launch_bounds__(256) product_registers(const float *a, const float *b, float *z, int n, int k) {
    float (*sa)[132] = (float (*)[132])memory, (*sb)[128] = (float (*)[128])(sa + 8);  // 128 x 128, 8 x 8 to a thread
    int t = threadIdx.x, tx = t % 16, ty = t / 16;
    float sum[8][8] = {};
    const float *from_a = a + (size_t)(blockIdx.y * 128 + t / 2) * k + t % 2 * 4;
    const float *from_b = b + (size_t)(t / 32) * n + blockIdx.x * 128 + t % 32 * 4;
    for (int at = 0; at < k; at += 8) {
        float4 va = *(const float4 *)(from_a + at), vb = *(const float4 *)(from_b + (size_t)at * n);
        sa[t % 2 * 4][t / 2] = va.x, sa[t % 2 * 4 + 1][t / 2] = va.y, sa[t % 2 * 4 + 2][t / 2] = va.z, sa[t % 2 * 4 + 3][t / 2] = va.w;
        *(float4 *)&sb[t / 32][t % 32 * 4] = vb;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 8; i++) {
            float ra[8], rb[8];
            *(float4 *)ra = *(float4 *)&sa[i][ty * 4], *(float4 *)(ra + 4) = *(float4 *)&sa[i][ty * 4 + 64];
            *(float4 *)rb = *(float4 *)&sb[i][tx * 4], *(float4 *)(rb + 4) = *(float4 *)&sb[i][tx * 4 + 64];
            for (int r = 0; r < 8; r++)
                for (int c = 0; c < 8; c++) sum[r][c] += ra[r] * rb[c];
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c += 4)
            *(float4 *)&z[(size_t)(blockIdx.y * 128 + ty * 4 + r % 4 + r / 4 * 64) * n + blockIdx.x * 128 + tx * 4 + c / 4 * 64] =
                *(float4 *)&sum[r][c];
}

__device__ u32 pair(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ void matrices(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
// 128 x 128, K of 32 to a stage, eight warps of 64 x 32; rows of 64 bytes, 16 bytes at place p ^ (row / 2 & 3)
__device__ u32 place(int row, int part) { return row * 64 + (part ^ (row >> 1 & 3)) * 16; }
template <int STAGES, bool ASYNC>
__device__ void product_bf16(const bf16 *a, const bf16 *b, bf16 *z, int n, int k) {
    u32 shared = (u32)__cvta_generic_to_shared(memory);
    int t = threadIdx.x, warp = t / 32, lane = t % 32, wm = warp % 2 * 64, wn = warp / 2 * 32;
    const bf16 *from_a = a + (size_t)(blockIdx.y * 128) * k, *from_b = b + (size_t)(blockIdx.x * 128) * k;
    float sum[4][4][4] = {};
    auto bring = [&](int stage, int at) {
        for (int i = 0; i < 2; i++) {
            int row = t / 4 + i * 64, part = t % 4;
            const void *pa = from_a + (size_t)row * k + at + part * 8, *pb = from_b + (size_t)row * k + at + part * 8;
            u32 to = shared + stage * 16384 + place(row, part);
            if (ASYNC) {
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(pa));
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 8192), "l"(pb));
            } else {
                *(uint4 *)(memory + (to - shared)) = *(const uint4 *)pa;
                *(uint4 *)(memory + (to - shared) + 8192) = *(const uint4 *)pb;
            }
        }
    };
    if (ASYNC)
        for (int s = 0; s < STAGES - 1; s++) {
            bring(s, s * 32);
            asm volatile("cp.async.commit_group;");
        }
    for (int at = 0, stage = 0; at < k; at += 32) {
        if (ASYNC) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
            __syncthreads();
            int next = (stage + STAGES - 1) % STAGES;
            if (at + (STAGES - 1) * 32 < k) bring(next, at + (STAGES - 1) * 32);
            asm volatile("cp.async.commit_group;");
        } else {
            __syncthreads();
            bring(0, at);
            __syncthreads();
        }
        u32 from = shared + stage * 16384;
#pragma unroll
        for (int s = 0; s < 2; s++) {
            u32 ra[4][4], rb[2][4];
            for (int i = 0; i < 4; i++) matrices(ra[i], from + place(wm + i * 16 + lane % 16, s * 2 + lane / 16));
            for (int i = 0; i < 2; i++) matrices(rb[i], from + 8192 + place(wn + i * 16 + lane % 8 + lane / 16 * 8, s * 2 + lane / 8 % 2));
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) mma(sum[i][j], ra[i], rb[j / 2][j % 2 * 2], rb[j / 2][j % 2 * 2 + 1]);
        }
        if (ASYNC) stage = (stage + 1) % STAGES;
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int h = 0; h < 2; h++) {
                size_t row = blockIdx.y * 128 + wm + i * 16 + h * 8 + lane / 4, column = blockIdx.x * 128 + wn + j * 8 + lane % 4 * 2;
                *(u32 *)&z[row * n + column] = pair(sum[i][j][h * 2], sum[i][j][h * 2 + 1]);
            }
}
extern "C" __global__ void __launch_bounds__(256)
product_mma(const bf16 *a, const bf16 *b, bf16 *z, int n, int k) { product_bf16<1, false>(a, b, z, n, k); }
extern "C" __global__ void __launch_bounds__(256)
product_mma_async(const bf16 *a, const bf16 *b, bf16 *z, int n, int k) { product_bf16<4, true>(a, b, z, n, k); }

extern "C" __global__ void histogram_shared(const u8 *x, u32 *z, int n) {
    u32 *bins = (u32 *)memory;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += gridDim.x * blockDim.x) {
        u32 four = ((const u32 *)x)[i];
        for (int j = 0; j < 32; j += 8) atomicAdd(&bins[four >> j & 255], 1);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&z[i], bins[i]);
}

extern "C" __global__ void histogram_spread(const u8 *x, u32 *z) {  // into 65,536 bins of memory
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&z[((const unsigned short *)x)[i]], 1);
}

extern "C" __global__ void gelu(const float4 *x, float4 *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = x[i];
    auto of = [](float v) { return 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))); };
    z[i] = make_float4(of(v.x), of(v.y), of(v.z), of(v.w));
}

extern "C" __global__ void polynomial(const float *x, float *z, int terms) {  // bound by arithmetic
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], p = 1, q = 2, r = 3, s = 4;
    for (int t = 0; t < terms; t++) p = p * v + 1, q = q * v + 2, r = r * v + 3, s = s * v + 4;
    z[i] = p + q + r + s;
}

extern "C" __global__ void vector_times_matrix(const uint4 *x, const uint4 *y, float *z, int n) {  // a row of bf16 to a warp
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int i = lane; i < n / 8; i += 32) {
        uint4 a = x[(size_t)row * (n / 8) + i], b = y[i];
        for (int j = 0; j < 4; j++) {
            u32 va = ((u32 *)&a)[j], vb = ((u32 *)&b)[j];
            sum += __uint_as_float(va << 16) * __uint_as_float(vb << 16) + __uint_as_float(va & ~65535) * __uint_as_float(vb & ~65535);
        }
    }
    sum = sum_of_warp(sum);
    if (lane == 0) z[row] = sum;
}

extern "C" __global__ void scan_blocks(const float4 *x, float4 *z) {  // running sums of 4,096
    float *shared = (float *)memory;
    int t = threadIdx.x, lane = t % 32;
    float4 v = x[(size_t)blockIdx.x * blockDim.x + t];
    v.y += v.x, v.z += v.y, v.w += v.z;
    float sum = v.w;
    for (int by = 1; by < 32; by *= 2) {
        float other = __shfl_up_sync(~0u, sum, by);
        if (lane >= by) sum += other;
    }
    if (lane == 31) shared[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
        float all = shared[t];
        for (int by = 1; by < 32; by *= 2) {
            float other = __shfl_up_sync(~0u, all, by);
            if (lane >= by) all += other;
        }
        shared[t] = all;
    }
    __syncthreads();
    float before = sum - v.w + (t >= 32 ? shared[t / 32 - 1] : 0);
    z[(size_t)blockIdx.x * blockDim.x + t] = make_float4(v.x + before, v.y + before, v.z + before, v.w + before);
}

extern "C" __global__ void gather(const float *x, const int *index, float *z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    z[i] = x[index[i]];
}
"""


@dataclass(frozen=True)
class Case:
    """`arrays`: by name, in the order of the arguments, type and shape; `numbers`: the i32 arguments behind them."""

    kernel: str
    size: str
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    numbers: tuple[int, ...]
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int = 0
    flops: float = 0.0
    below: dict[str, int] = field(default_factory=dict)  # of arrays of integers, what their elements are below

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.size}"


def cases() -> list[Case]:
    found = []

    def plain(kernel: str, items: int, threads: int, per_thread: int, dtype: str = "f32") -> None:
        arrays = {name: (dtype, (items,)) for name in "xz"}
        found.append(Case(kernel, f"{items}", arrays, (), (items // threads // per_thread,), (threads,)))

    plain("copy_wide", 1 << 24, 256, 4)
    plain("copy_narrow", 1 << 24, 256, 1, "u16")
    looped = {name: ("f32", (1 << 24,)) for name in "xz"}
    found.append(Case("copy_looped", f"{1 << 24}", looped, (1 << 22,), (1056,), (256,)))
    for kernel in ("transpose_plain", "transpose_conflicts", "transpose_padded"):
        square = {name: ("f32", (4096, 4096)) for name in "xz"}
        found.append(
            Case(kernel, "4096x4096", square, (4096, 4096), (128, 128), (32, 8), 0 if kernel == "transpose_plain" else 33 * 128)
        )
    for count in (1 << 20, 1 << 25):
        found.append(
            Case(
                "sum_tree",
                f"{count}",
                {"x": ("f32", (count,)), "z": ("f32", (count // 1024,))},
                (),
                (count // 1024,),
                (256,),
                1024,
            )
        )
    found.append(
        Case("sum_looped", f"{1 << 25}", {"x": ("f32", (1 << 25,)), "z": ("f32", (1056,))}, (1 << 23,), (1056,), (256,), 32)
    )
    rows = {name: ("f32", (16384, 1024)) for name in "xz"}
    found.append(Case("softmax_warps", "16384x1024", rows, (), (4096,), (128,)))
    for count, length in ((4096, 4096), (1024, 16384)):
        rows = {name: ("f32", (count, length)) for name in "xz"}
        found.append(Case("softmax_passes", f"{count}x{length}", rows, (length,), (count,), (256,), 32))
    plane = {name: ("f32", (4096, 4096)) for name in "xz"}
    found.append(Case("stencil_plane", "4096x4096", plane, (4096, 4096), (128, 512), (32, 8)))
    edge = 512 + 8
    space = {name: ("f32", (73, edge, edge)) for name in "xz"}
    found.append(Case("stencil_column", "64x512x512", space, (512, edge * edge), (16, 32), (32, 16), 24 * 160))
    for size in (1024, 2048):
        three = {name: ("f32", (size, size)) for name in "abz"}
        found.append(
            Case("product_shared", f"{size}", three, (size, size), (size // 32, size // 32), (32, 32), 8192, 2.0 * size**3)
        )
    for size in (2048, 4096):
        three = {name: ("f32", (size, size)) for name in "abz"}
        shared = 8 * 132 * 4 + 8 * 128 * 4
        found.append(
            Case("product_registers", f"{size}", three, (size, size), (size // 128, size // 128), (256,), shared, 2.0 * size**3)
        )
    for kernel, stages in (("product_mma", 1), ("product_mma_async", 4)):
        for m, n, k in ((2048, 2048, 2048), (4096, 4096, 4096)):
            three = {"a": ("bf16", (m, k)), "b": ("bf16", (n, k)), "z": ("bf16", (m, n))}
            grid, work = (ceil(n / 128), ceil(m / 128)), 2.0 * m * n * k
            found.append(Case(kernel, f"{m}x{n}x{k}", three, (n, k), grid, (256,), stages * 16384, work))
    for count in (1 << 22, 1 << 26):
        two = {"x": ("u8", (count,)), "z": ("u32", (256,))}
        found.append(Case("histogram_shared", f"{count}", two, (count,), (1056,), (256,), 1024, below={"x": 256}))
    two = {"x": ("u8", (1 << 25,)), "z": ("u32", (65536,))}
    found.append(Case("histogram_spread", f"{1 << 25}", two, (), (1 << 16,), (256,), below={"x": 256}))
    plain("gelu", 1 << 24, 256, 4)
    two = {name: ("f32", (1 << 22,)) for name in "xz"}
    found.append(Case("polynomial", f"{1 << 22}", two, (256,), (1 << 14,), (256,)))
    for rows_, length in ((4096, 4096), (16384, 8192)):
        of = {"x": ("bf16", (rows_, length)), "y": ("bf16", (length,)), "z": ("f32", (rows_,))}
        found.append(Case("vector_times_matrix", f"{rows_}x{length}", of, (length,), (rows_ // 8,), (256,)))
    two = {name: ("f32", (1 << 24,)) for name in "xz"}
    found.append(Case("scan_blocks", f"{1 << 24}", two, (), (4096,), (1024,), 128))
    three = {"x": ("f32", (1 << 20,)), "index": ("i32", (1 << 23,)), "z": ("f32", (1 << 23,))}
    found.append(Case("gather", f"{1 << 23} of {1 << 20}", three, (), (1 << 15,), (256,), below={"index": 1 << 20}))
    return found


def launch_of(case: Case, registers: int) -> dict[str, Any]:
    """For `pipec predict --launch`. Where addresses follow from the elements of an array, these are in a file that `drawn` writes."""
    arguments = []
    for name, (dtype, shape) in case.arrays.items():
        size = ",".join(map(str, shape))
        below = case.below.get(name)
        arguments.append(f"{name}={dtype}[{size}]:zeros" if below is None else f"{name}=@below_{below}_{dtype}_{size}.npy")
    return {
        "kernel": case.kernel,
        "grid": list(case.grid),
        "block": list(case.block),
        "shared": case.shared,
        "arguments": arguments + [f"i32:{one}" for one in case.numbers],
        "registers": registers,
    }


def drawn(case: Case, folder: Path) -> None:
    """Writes the arrays of random integers that the launch of this case refers to."""
    generator = np.random.default_rng(3)
    for name, below in case.below.items():
        dtype, shape = case.arrays[name]
        kind = {"u8": np.uint8, "i32": np.int32}[dtype]
        file = folder / f"below_{below}_{dtype}_{','.join(map(str, shape))}.npy"
        if not file.exists():
            np.save(file, generator.integers(0, below, shape).astype(kind))
