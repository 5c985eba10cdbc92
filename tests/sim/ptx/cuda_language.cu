// What C++ compiles to: virtual functions, function pointers, structs by value, printf, assert, recursion, cooperative groups.
// nvcc -arch=sm_100a -ptx -std=c++17
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cassert>
namespace cg = cooperative_groups;

struct Shape { virtual __device__ float area(float x) const = 0; };
struct Square : Shape { float s; __device__ Square(float a): s(a) {} __device__ float area(float x) const override { return s * x * x; } };
struct Disc : Shape { float r; __device__ Disc(float a): r(a) {} __device__ float area(float x) const override { return 3.0f * r * x; } };
extern "C" __global__ void virtuals(const float* x, float* y) {
  Square s(2.0f); Disc d(0.5f);
  const Shape* shape = threadIdx.x % 3 ? (const Shape*)&s : (const Shape*)&d;
  y[threadIdx.x] = shape->area(x[threadIdx.x]);
}
typedef int (*op)(int, int);
__device__ __noinline__ int plus_(int a, int b) { return a + b; }
__device__ __noinline__ int minus_(int a, int b) { return a - b; }
__device__ __noinline__ int times_(int a, int b) { return a * b; }
__device__ op table[3] = {plus_, minus_, times_};
extern "C" __global__ void pointers(const int* x, int* y, int which) { y[threadIdx.x] = table[(x[threadIdx.x] + which) % 3](x[threadIdx.x], 7); }

struct Params { const float* in; float* out; int n; float scale; double bias; short mask[4]; };
extern "C" __global__ void byvalue(Params p) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < p.n) p.out[i] = p.in[i] * p.scale + (float)p.bias + p.mask[i % 4]; }
extern "C" __global__ void constgrid(const __grid_constant__ Params p) { const Params* q = &p; int i = threadIdx.x; if (i < q->n) q->out[i] = q->in[i] * q->scale + q->mask[i & 3]; }
__noinline__ __device__ Params change(Params p, int k) { p.scale *= k; p.mask[k % 4] = 100; return p; }
extern "C" __global__ void structs(Params p, int k) { Params q = change(p, k); int i = threadIdx.x; q.out[i] = q.in[i] * q.scale + q.mask[i % 4] + p.mask[i % 4]; }

extern "C" __global__ void prints(int n) { if (threadIdx.x < n) printf("thread %d of %s: %5.2f %c %lld %x\n", threadIdx.x, "block", threadIdx.x * 0.25, 'a' + threadIdx.x, 1ll << 40, 255); }
extern "C" __global__ void asserts(int n) { assert(threadIdx.x < n && "too many"); }

extern "C" __global__ void coop(const float* x, float* y, int n) {
  cg::thread_block b = cg::this_thread_block();
  auto t = cg::tiled_partition<16>(b);
  float v = 0; for (int i = b.thread_rank(); i < n; i += b.size()) v += x[i];
  v = cg::reduce(t, v, cg::plus<float>());
  if (t.thread_rank() == 0) atomicAdd(y, v);
  auto active = cg::coalesced_threads();
  if (threadIdx.x % 3 == 1) { auto g = cg::coalesced_threads(); if (g.thread_rank() == 0) atomicAdd(y + 1, (float)g.size()); }
  b.sync();
  if (b.thread_rank() == 0) y[2] = active.size();
}
extern "C" __global__ void types(const float* x, __half2* h, __nv_bfloat162* b, __nv_fp8x4_e4m3* f8, double* d, int n) {
  int i = threadIdx.x;
  h[i] = __hfma2(__floats2half2_rn(x[2*i], x[2*i+1]), __float2half2_rn(0.5f), __floats2half2_rn(1.f, 2.f));
  b[i] = __hmul2(__floats2bfloat162_rn(x[2*i], x[2*i+1]), __float2bfloat162_rn(3.f));
  float4 v = make_float4(x[i], x[i+1], x[i+2], x[i+3]); f8[i] = __nv_fp8x4_e4m3(v);
  d[i] = __dsqrt_rn(fabs((double)x[i])) + rsqrt((double)(i + 1)) + fma((double)x[i], 3.0, 1.0);
}
extern "C" __global__ void bits_(const unsigned* x, unsigned* y, unsigned long long* z) {
  unsigned v = x[threadIdx.x]; unsigned long long w = ((unsigned long long)v << 32) | (v * 2654435761u);
  y[threadIdx.x] = __popc(v) + __clz(v) * 64 + __ffs(v) * 4096 + (__brev(v) & 0xff000000) + __byte_perm(v, ~v, 0x5410) % 97 + __funnelshift_l(v, ~v, 5) % 31 + __vadd4(v, 0x01010101) % 7 + __dp4a((int)v, 0x01020304, 5) ;
  z[threadIdx.x] = w / 1000003ull + w % 977 + __umul64hi(w, w) + __popcll(w) + (unsigned long long)((long long)w / -12345) + __clzll(w);
}
template <int N> __device__ float local_array(const float* x, int k) { float a[N]; for (int i = 0; i < N; i++) a[i] = x[i] * i; for (int i = 0; i < N; ++i) { int j = (i * k + 3) % N; float t = a[i]; a[i] = a[j]; a[j] = t; } return a[k % N] + a[(k * 5) % N]; }
extern "C" __global__ void locals(const float* x, float* y) { y[threadIdx.x] = local_array<24>(x, threadIdx.x); }
__constant__ float coefficients[5] = {1.5f, -2.0f, 0.25f, 3.0f, -0.125f};
__device__ int counter = 40;
extern "C" __global__ void globals_(const float* x, float* y) { float v = 0; for (int i = 4; i >= 0; --i) v = v * x[threadIdx.x] + coefficients[i]; y[threadIdx.x] = v; __shared__ double s[64]; s[threadIdx.x] = v; __syncthreads(); y[threadIdx.x] += (float)s[63 - threadIdx.x]; if (threadIdx.x == 0) { atomicAdd(&counter, 2); y[64] = counter; } }
__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
extern "C" __global__ void recursive(int* y) { y[threadIdx.x] = fib(threadIdx.x % 8); }
extern "C" __global__ void warpfun(const int* x, int* y) {
  int v = x[threadIdx.x]; unsigned m = __match_any_sync(0xffffffffu, v); int p; unsigned all = __match_all_sync(0xffffffffu, v, &p);
  y[threadIdx.x] = __popc(m) + 100 * __reduce_add_sync(0xffffffffu, v) + 100000 * __reduce_max_sync(0xffffffffu, v) + p + all + __any_sync(~0u, v == 3) + __shfl_xor_sync(~0u, v, 5) ;
}
