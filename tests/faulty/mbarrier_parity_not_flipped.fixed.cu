// The parity changes from phase to phase.
// topic: mbarrier
// launch: grid 1, block 64
// arg x: float[256] = random
// arg y: float[256] = zeros
#include <cuda/ptx>

__global__ void reverse_stages(const float *x, float *y)
{
    __shared__ float s[4][64];
    __shared__ uint64_t all;
    const int t = threadIdx.x;

    if (t == 0)
        cuda::ptx::mbarrier_init(&all, 64);
    __syncthreads();
    for (int i = 0; i < 4; i++) {
        s[i][t] = x[64 * i + t];
        cuda::ptx::mbarrier_arrive(&all);
        while (!cuda::ptx::mbarrier_try_wait_parity(&all, i % 2))
            ;
        y[64 * i + t] = s[i][63 - t];
    }
}
