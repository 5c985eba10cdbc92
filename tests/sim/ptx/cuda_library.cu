// What the libraries that come with CUDA do in kernels: cooperative groups, CUB, libcu++.
// nvcc -arch=sm_90a -ptx -std=c++17
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// A tile of four warps meets through the memory that the system reserves in front of the CTA's own.
extern "C" __global__ void wide_tiles(const int* x, int* y) {
  __shared__ cg::block_tile_memory<256> scratch;
  auto block = cg::this_thread_block(scratch);
  auto tile = cg::tiled_partition<128>(block);
  y[block.thread_rank()] = cg::reduce(tile, x[block.thread_rank()], cg::plus<int>());
}
