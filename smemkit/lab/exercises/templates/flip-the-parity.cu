#include <cuda/ptx>

namespace ptx = cuda::ptx;

__global__ void sum_mirrored(const float *x, float *y, int steps)
{
    __shared__ alignas(16) float s[64];
    __shared__ uint64_t full;
    int t = threadIdx.x;
    float sum = 0;

    if (t == 0) {
        ptx::mbarrier_init(&full, 1);
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    for (int step = 0; step < steps; step++) {
        if (t == 0) {
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, sizeof s);
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, s, x + step * 64, sizeof s, &full);
        }
        while (!ptx::mbarrier_try_wait_parity(&full, 0)) // TODO: of which phase?
            ;
        sum += s[63 - t];
        __syncthreads(); // all have read the row
    }
    y[t] = sum;
}
