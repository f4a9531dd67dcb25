// The stores are before the barrier, but the bulk copy reads through another proxy.
// topic: proxy fence
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
// fault: race proxy
#include <cuda/ptx>

namespace ptx = cuda::ptx;

__global__ void doubled(const float *x, float *y)
{
    __shared__ alignas(128) float s[64];
    const int t = threadIdx.x;

    for (int row = 0; row < 4; row++) {
        s[t] = 2 * x[row * 64 + t]; // THERE
        __syncthreads();
        if (t == 0) {
            ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + row * 64, s, sizeof s); // HERE
            ptx::cp_async_bulk_commit_group();
            ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
        }
        __syncthreads();
    }
}
