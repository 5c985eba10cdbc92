#include <cstdint>
#include <cuda_bf16.h>
extern "C" __global__ void collatz(const uint32_t* in, uint32_t* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t v = in[i], steps = 0;
  while (v != 1) { if (v & 1) v = 3 * v + 1; else v >>= 1; ++steps; if (steps > 300) break; }
  out[i] = steps;
}
extern "C" __global__ void reduce(const float* in, float* out, int n) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += in[i];
  for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int d = 16; d; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (threadIdx.x == 0) atomicAdd(out, sum);
  }
}
extern "C" __global__ void switches(const int* in, int* out) {
  int x = in[threadIdx.x], r;
  switch (x) { case 0: r = 7; break; case 1: r = x * 3 + threadIdx.x; break; case 2: r = -x; break; case 3: r = threadIdx.x * threadIdx.x; break;
    case 4: r = 1 << threadIdx.x % 31; break; case 5: r = 99; break; default: r = -1; }
  int mask = __ballot_sync(~0u, r > 10);
  out[threadIdx.x] = r ^ mask;
}
extern "C" __global__ void spinlock(int* lock, int* counter) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) { *(volatile int*)counter += 1; __threadfence(); atomicExch(lock, 0); done = true; }
  }
}
extern "C" __global__ void histogram(const uint8_t* in, uint32_t* out, int n) {
  __shared__ uint32_t bins[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(&bins[in[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], bins[i]);
}
extern "C" __global__ void softmax(const __nv_bfloat16* in, __nv_bfloat16* out, int cols) {
  const __nv_bfloat16* row = in + blockIdx.x * cols;
  float m = -INFINITY, s = 0, local[8];
  #pragma unroll
  for (int k = 0; k < 8; ++k) { int c = threadIdx.x + 32 * k; local[k] = c < cols ? __bfloat162float(row[c]) : -INFINITY; m = fmaxf(m, local[k]); }
  for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  #pragma unroll
  for (int k = 0; k < 8; ++k) { local[k] = __expf(local[k] - m); s += local[k]; }
  for (int d = 16; d; d /= 2) s += __shfl_xor_sync(~0u, s, d);
  #pragma unroll
  for (int k = 0; k < 8; ++k) { int c = threadIdx.x + 32 * k; if (c < cols) out[blockIdx.x * cols + c] = __float2bfloat16(local[k] / s); }
}
extern "C" __global__ void local_sort(const int* in, int* out) {
  int a[16];
  for (int k = 0; k < 16; ++k) a[k] = in[threadIdx.x * 16 + k];
  for (int i = 1; i < 16; ++i) { int v = a[i], j = i - 1; while (j >= 0 && a[j] > v) { a[j + 1] = a[j]; --j; } a[j + 1] = v; }
  for (int k = 0; k < 16; ++k) out[threadIdx.x * 16 + k] = a[k];
}
__device__ __forceinline__ bool try_wait(uint32_t bar, int parity) {
  uint32_t ok;
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
  return ok;
}
// Warp 0 copies blocks with cp.async.bulk into a ring, warps 1..4 sum them; classic full/empty ring, plain CUDA.
extern "C" __global__ void ring(const uint32_t* in, uint32_t* out, int blocks) {
  __shared__ alignas(128) uint32_t stage[3][128];
  __shared__ alignas(8) uint64_t full[3], empty[3];
  if (threadIdx.x == 0) for (int s = 0; s < 3; ++s) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"((uint32_t)__cvta_generic_to_shared(&full[s])));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 128;" :: "r"((uint32_t)__cvta_generic_to_shared(&empty[s])));
  }
  asm volatile("fence.mbarrier_init.release.cluster;");
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) for (int i = 0; i < blocks; ++i) {
      int s = i % 3, ph = (i / 3) & 1;
      while (!try_wait((uint32_t)__cvta_generic_to_shared(&empty[s]), ph ^ 1));
      uint32_t bar = (uint32_t)__cvta_generic_to_shared(&full[s]);
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(bar) : "memory");
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];"
        :: "r"((uint32_t)__cvta_generic_to_shared(&stage[s][0])), "l"(in + i * 128), "r"(bar) : "memory");
    }
  } else {
    uint32_t t = threadIdx.x - 32, sum = 0;
    for (int i = 0; i < blocks; ++i) {
      int s = i % 3, ph = (i / 3) & 1;
      while (!try_wait((uint32_t)__cvta_generic_to_shared(&full[s]), ph));
      sum = sum * 31 + stage[s][t];
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((uint32_t)__cvta_generic_to_shared(&empty[s])) : "memory");
    }
    out[t] = sum;
  }
}
extern "C" __global__ void __cluster_dims__(4, 1, 1) cluster_exchange(uint32_t* out) {
  __shared__ uint32_t box[128];
  uint32_t rank, peer_addr, v;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  box[threadIdx.x] = rank * 1000 + threadIdx.x;
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer_addr) : "r"((uint32_t)__cvta_generic_to_shared(&box[threadIdx.x])), "r"((rank + 1) % 4));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(peer_addr));
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void cp_async_copy(const float4* in, float4* out) {
  __shared__ float4 buf[2][64];
  for (int k = 0; k < 2; ++k) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((uint32_t)__cvta_generic_to_shared(&buf[k][threadIdx.x])), "l"(in + k * 64 + threadIdx.x));
    asm volatile("cp.async.commit_group;");
  }
  asm volatile("cp.async.wait_group 1;"); __syncthreads();
  out[threadIdx.x] = buf[0][63 - threadIdx.x];
  asm volatile("cp.async.wait_group 0;"); __syncthreads();
  out[64 + threadIdx.x] = buf[1][63 - threadIdx.x];
}
extern "C" __global__ void transpose_ldmatrix(const uint16_t* in, uint32_t* out) {
  __shared__ alignas(16) uint16_t tile[32][8];
  for (int k = 0; k < 8; ++k) tile[threadIdx.x][k] = in[threadIdx.x * 8 + k];
  __syncwarp();
  uint32_t a, b, c, d, addr = (uint32_t)__cvta_generic_to_shared(&tile[threadIdx.x][0]);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(addr));
  out[threadIdx.x] = a; out[32 + threadIdx.x] = b; out[64 + threadIdx.x] = c; out[96 + threadIdx.x] = d;
}
