#include <cuda/ptx>

namespace ptx = cuda::ptx;

__global__ void reverse_block(const float *x, float *y)
{
    __shared__ alignas(16) float s[256];
    int t = threadIdx.x, first = blockIdx.x * 256;

    for (int i = t; i < 256; i += 64)
        s[255 - i] = x[first + i];
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads(); // all have written
    if (t == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, y + first, s, sizeof s);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}
