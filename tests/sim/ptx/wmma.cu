// nvcc -arch=sm_90a -ptx wmma.cu
// Matrix products by nvcuda::wmma: every kind of fragment, through shared and global memory, with work on the elements.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <typename T, typename Accumulator, int M, int N, int K, typename LayoutA, typename LayoutB, typename Stored>
__device__ void product(const Stored *a, const Stored *b, const Accumulator *c, Accumulator *d, int depth, Accumulator scale) {
  wmma::fragment<wmma::matrix_a, M, N, K, T, LayoutA> left;
  wmma::fragment<wmma::matrix_b, M, N, K, T, LayoutB> right;
  wmma::fragment<wmma::accumulator, M, N, K, Accumulator> sum;
  wmma::load_matrix_sync(sum, c, N, wmma::mem_row_major);
  constexpr bool rows_a = std::is_same<LayoutA, wmma::row_major>::value, rows_b = std::is_same<LayoutB, wmma::row_major>::value;
  for (int k = 0; k < depth; k += K) {
    wmma::load_matrix_sync(left, a + (rows_a ? k : k * M), rows_a ? depth : M);
    wmma::load_matrix_sync(right, b + (rows_b ? k * N : k), rows_b ? N : depth);
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] = sum.x[i] * scale;
  wmma::store_matrix_sync(d, sum, N, wmma::mem_row_major);
}

#define KERNEL(NAME, T, STORED, ACC, M, N, K, LA, LB)                                                                        \
  extern "C" __global__ void NAME(const STORED *a, const STORED *b, const ACC *c, ACC *d, int depth, ACC scale) {             \
    product<T, ACC, M, N, K, wmma::LA, wmma::LB>(a, b, c, d, depth, scale);                                                   \
  }

KERNEL(half_rows, half, half, float, 16, 16, 16, row_major, row_major)
KERNEL(half_columns, half, half, float, 16, 16, 16, col_major, col_major)
KERNEL(half_wide, half, half, float, 8, 32, 16, row_major, col_major)
KERNEL(half_tall, half, half, float, 32, 8, 16, col_major, row_major)
KERNEL(half_sums, half, half, half, 16, 16, 16, row_major, col_major)
KERNEL(bfloat_square, __nv_bfloat16, __nv_bfloat16, float, 16, 16, 16, row_major, col_major)
KERNEL(bfloat_wide, __nv_bfloat16, __nv_bfloat16, float, 8, 32, 16, row_major, row_major)
KERNEL(bfloat_tall, __nv_bfloat16, __nv_bfloat16, float, 32, 8, 16, row_major, col_major)
KERNEL(tf32_square, wmma::precision::tf32, float, float, 16, 16, 8, row_major, col_major)
KERNEL(bytes_square, signed char, signed char, int, 16, 16, 16, row_major, col_major)
KERNEL(bytes_wide, signed char, signed char, int, 8, 32, 16, col_major, row_major)
KERNEL(unsigned_tall, unsigned char, unsigned char, int, 32, 8, 16, row_major, col_major)

// Four warps, each with a quarter of a 32 x 32 tile, operands in shared memory.
extern "C" __global__ void through_shared(const half *a, const half *b, float *d, int depth) {
  __shared__ __align__(32) half left[32 * 16], right[32 * 16];
  int row = threadIdx.x / 32 / 2 * 16, column = threadIdx.x / 32 % 2 * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < depth; k += 16) {
    for (int i = threadIdx.x; i < 32 * 16; i += 128) {
      left[i] = a[i / 16 * depth + k + i % 16];
      right[i] = b[i / 16 * depth + k + i % 16];
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> part;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> other;
    wmma::load_matrix_sync(part, left + row * 16, 16);
    wmma::load_matrix_sync(other, right + column * 16, 16);
    wmma::mma_sync(sum, part, other, sum);
    __syncthreads();
  }
  wmma::store_matrix_sync(d + row * 32 + column, sum, 32, wmma::mem_row_major);
}
