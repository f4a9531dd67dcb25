#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__global__ void reverse_all(float *x)
{
    int n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    float mirrored = x[n - 1 - i];

    __syncthreads(); // TODO: wait for all blocks
    x[i] = mirrored;
}
