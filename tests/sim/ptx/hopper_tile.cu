#include <cstdint>
__device__ __forceinline__ uint32_t sptr(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
// D[64x32] = A[64x64] B[32x64]^T, bf16, both operands by SW128 tensor maps, one warpgroup.
struct alignas(64) Map { char x[128]; };
extern "C" __global__ void wgmma_tile(const __grid_constant__ Map ma, const __grid_constant__ Map mb, const __grid_constant__ Map md, float* d) {
  extern __shared__ __align__(1024) char smem[];
  __shared__ alignas(8) uint64_t bar;
  uint32_t b = sptr(&bar), base = sptr(smem);
  if (threadIdx.x == 0) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b)); asm volatile("fence.mbarrier_init.release.cluster;"); }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 12288;" :: "r"(b) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(base), "l"(&ma), "r"(0), "r"(0), "r"(b) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(base + 8192), "l"(&mb), "r"(0), "r"(0), "r"(b) : "memory");
  }
  uint32_t ok; do { asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0;\nselp.b32 %0, 1, 0, p;\n}" : "=r"(ok) : "r"(b) : "memory"); } while (!ok);
  float acc[16];
  for (int k = 0; k < 16; ++k) acc[k] = 0;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  #pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint64_t da = 0x4000004000000000ull | (((base & 0x3FFFF) >> 4) + 2 * k), db = 0x4000004000000000ull | ((((base + 8192) & 0x3FFFF) >> 4) + 2 * k);
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, %16, %17, p, 1, 1, 0, 0;\n}"
      : "+f"(acc[0]),"+f"(acc[1]),"+f"(acc[2]),"+f"(acc[3]),"+f"(acc[4]),"+f"(acc[5]),"+f"(acc[6]),"+f"(acc[7]),"+f"(acc[8]),"+f"(acc[9]),"+f"(acc[10]),"+f"(acc[11]),"+f"(acc[12]),"+f"(acc[13]),"+f"(acc[14]),"+f"(acc[15])
      : "l"(da), "l"(db), "r"(k));
  }
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  float* out = (float*)(smem + 16384);
  int w = threadIdx.x / 32, l = threadIdx.x % 32;
  for (int r = 0; r < 16; ++r) out[(16 * w + l / 4 + 8 * ((r / 2) % 2)) * 32 + 8 * (r / 4) + 2 * (l % 4) + r % 2] = acc[r];
#ifndef NO_FENCE
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" :: "l"(&md), "r"(0), "r"(0), "r"(base + 16384) : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
