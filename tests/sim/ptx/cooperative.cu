// nvcc -arch=sm_100a -ptx cooperative.cu
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Each barrier separates what CTAs wrote from what others read: the CTA after and the one before, then the one two further on.
extern "C" __global__ void neighbours(int* data, int* sums, int n) {
  auto grid = cg::this_grid();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  data[i] = i + 1;
  grid.sync();
  sums[i] = data[(i + blockDim.x) % n] + data[(i + n - blockDim.x) % n];
  grid.sync();
  data[i] = sums[(i + 2 * blockDim.x) % n];
}
