#include <cuda/ptx>

namespace ptx = cuda::ptx;

__global__ void reverse_block(const float *x, float *y)
{
    __shared__ alignas(16) float s[256];
    __shared__ uint64_t full;
    int t = threadIdx.x, first = blockIdx.x * 256;

    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads(); // the mbarrier is there
    if (t == 0) {
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof s);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x + first, sizeof s, &full);
    }
    // TODO: the copy may still be on its way
    for (int i = t; i < 256; i += 64)
        y[first + i] = s[255 - i];
}
