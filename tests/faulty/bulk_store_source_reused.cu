// The next row is written while the bulk copy may still read the last one.
// topic: bulk copy
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race WAR
#include <cuda/ptx>

namespace ptx = cuda::ptx;

__global__ void doubled(const float *x, float *y)
{
    __shared__ alignas(128) float s[64];
    const int t = threadIdx.x;

    for (int row = 0; row < 4; row++) {
        s[t] = 2 * x[row * 64 + t]; // HERE
        ptx::fence_proxy_async(ptx::space_shared);
        __syncthreads();
        if (t == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + row * 64, s, sizeof s); // THERE
            ptx::cp_async_bulk_commit_group();
        }
        __syncthreads();
    }
}
